//! Sentence 9: records that several nodes write into one file never damage each other.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::FileExt;

use crate::folder::{Folder, at_once};
use crate::site::{NODES, Site};

/// Nodes that write; the last one reads.
const WRITERS: usize = 4;

pub fn large(site: &Site) {
    strided(&site.folder(), 47_008, 480);
}

pub fn small(site: &Site) {
    strided(&site.folder(), 100, 8_000);
}

/// Record n of the file is written by the node n modulo 4.
fn strided(folder: &Folder<'_>, record: usize, count: usize) {
    File::create(folder.at(0, "shared")).expect("the buffer is writable");
    at_once(WRITERS, |node| {
        let file = OpenOptions::new().write(true).open(folder.at(node, "shared")).expect("it was made");
        for n in (node..count).step_by(WRITERS) {
            let offset = n * record;
            file.write_all_at(&bytes_at(offset, record), offset as u64).expect("there is room");
        }
    });
    for path in folder.everywhere("shared") {
        assert_eq!(fs::metadata(path).expect("it is there").len(), (record * count) as u64);
    }
    let read = fs::read(folder.at(NODES - 1, "shared")).expect("it is there");
    let wrong = (0..count).filter(|n| read[n * record..][..record] != bytes_at(n * record, record));
    assert_eq!(wrong.collect::<Vec<_>>(), Vec::<usize>::new(), "records that are not what was written");
}

/// What belongs at an offset: bytes that depend on nothing else and do not repeat.
pub fn bytes_at(offset: usize, len: usize) -> Vec<u8> {
    (offset..offset + len).map(|at| (at.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56) as u8).collect()
}
