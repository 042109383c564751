//! Sentence 10: appends.

use std::fs::{self, File, OpenOptions};
use std::io::Write;

use crate::folder::at_once;
use crate::site::{NODES, Site};

const WRITERS: usize = 4;
const RECORDS: usize = 150;

/// Lengths differ from node to node, so that no torn or lost record lines up again.
fn record(node: usize, n: usize) -> String {
    let letter = char::from(b'a' + u8::try_from(node).expect("four nodes"));
    format!("{node} {n} {}\n", letter.to_string().repeat(90 + 700 * node))
}

pub fn records(site: &Site) {
    let folder = site.folder();
    File::create(folder.at(0, "log")).expect("the buffer is writable");
    at_once(WRITERS, |node| {
        let mut file = OpenOptions::new().append(true).open(folder.at(node, "log")).expect("it was made");
        for n in 0..RECORDS {
            // Not write_all: each append is one call and takes all.
            let (line, written) = (record(node, n), file.write(record(node, n).as_bytes()));
            assert_eq!(written.expect("there is room"), line.len());
        }
    });
    let log = fs::read_to_string(folder.at(NODES - 1, "log")).expect("it is text");
    for node in 0..WRITERS {
        let own = log.lines().filter(|line| line.starts_with(&format!("{node} ")));
        let expected: Vec<String> = (0..RECORDS).map(|n| record(node, n).trim_end().to_owned()).collect();
        assert!(
            own.eq(expected.iter().map(String::as_str)),
            "node {node}'s records are lost, torn or mixed up"
        );
    }
    assert_eq!(log.lines().count(), WRITERS * RECORDS, "there is something between the records");
}
