//! Sentence 14: mappings.

use std::fs;
use std::os::unix::fs::FileExt;

use tests::hosts::plain;
use tests::pages::{COMPLETED_WRITES, STORES_BESIDE_DIRECT_WRITES, STORES_BESIDE_WRITES, build};

use crate::folder::Folder;
use crate::site::Site;

const MAP: &str = "m = mmap.mmap(os.open(path, os.O_RDWR), 0)";

fn write(folder: &Folder<'_>, node: usize, bytes: &[u8], offset: u64) {
    let file = fs::OpenOptions::new().write(true).open(folder.at(node, "shared")).expect("it was made");
    file.write_all_at(bytes, offset).expect("there is room");
}

fn with_file(site: &Site) -> Folder<'_> {
    let folder = site.folder();
    fs::write(folder.at(0, "shared"), vec![b'.'; 12288]).expect("the buffer is writable");
    folder
}

pub fn new_mapping(site: &Site) {
    let folder = with_file(site);
    let mut peer = folder.peer(1, "shared");
    for round in 0..10 {
        let text = format!("round {round}");
        write(&folder, 2, text.as_bytes(), 5000);
        assert_eq!(peer.ask(MAP), "done");
        assert_eq!(peer.ask("m[5000:5007]"), format!("b'{text}'"));
    }
}

pub fn old_mapping(site: &Site) {
    let folder = with_file(site);
    let mut peer = folder.peer(1, "shared");
    peer.ask(MAP);
    for round in 0..10 {
        let text = format!("round {round}");
        write(&folder, 2, text.as_bytes(), 5000);
        assert_eq!(peer.ask("os.stat(path).st_size"), "12288");
        assert_eq!(peer.ask("m[5000:5007]"), format!("b'{text}'"));
    }
}

pub fn synced(site: &Site) {
    let folder = with_file(site);
    let mut peers = [folder.peer(1, "shared"), folder.peer(2, "shared")];
    for (n, peer) in peers.iter_mut().enumerate() {
        peer.ask(MAP);
        // Pages of their own: two nodes must not write one.
        assert_eq!(peer.ask(&format!("m[{0}:{0}+4] = b'map{n}'", n * 8192)), "done");
    }
    for peer in &mut peers {
        assert_eq!(peer.ask("m.flush()"), "None");
    }
    for node in 0..4 {
        let read = fs::read(folder.at(node, "shared")).expect("it is there");
        assert_eq!((&read[..4], &read[8192..8196]), (&b"map0"[..], &b"map1"[..]), "node {node}");
        assert!(read[4..8192].iter().chain(&read[8196..]).all(|byte| *byte == b'.'));
    }
}

pub fn beside_writes(site: &Site) {
    let built = tempfile::tempdir().expect("there is room for a program");
    for folder in [site.folder(), site.commit_folder()] {
        let file = folder.inside("shared");
        for program in [STORES_BESIDE_WRITES, STORES_BESIDE_DIRECT_WRITES, COMPLETED_WRITES].concat() {
            let program_path = build(&program, built.path());
            site.run(1, &[&[plain(&program_path), plain(&file)], program.arguments].concat());
        }
    }
}
