//! Sentence 11: names are decided at one place. Each race is run from four nodes, and then every node must see the one
//! thing that the answers allow.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::folder::{Folder, at_once};
use crate::site::{NODES, Site};

/// Nodes that race; the last one only looks.
const RACERS: usize = 4;

const ROUNDS: usize = 40;

/// Which of the answers is the one success; the others must be `errors`.
#[track_caller]
fn one_winner<T>(answers: &[io::Result<T>], losers: &[ErrorKind], round: usize) -> usize {
    let won: Vec<usize> = (0..answers.len()).filter(|n| answers[*n].is_ok()).collect();
    assert_eq!(won.len(), 1, "round {round}: who won: {won:?}");
    for error in answers.iter().filter_map(|answer| answer.as_ref().err()) {
        assert!(losers.contains(&error.kind()), "round {round}: {error}");
    }
    won[0]
}

/// The inode at a path. A kernel that knows a folder at its old place says ESTALE while it cannot move it, because
/// another rename is under way in its mount (`d_splice_alias` in fs/dcache.c; the other tests rename, too): then it is
/// asked again.
#[track_caller]
fn look(path: &Path) -> Option<u64> {
    for _ in 0..1000 {
        match fs::symlink_metadata(path) {
            Ok(data) => return Some(data.ino()),
            Err(error) if error.kind() == ErrorKind::NotFound => return None,
            Err(error) if error.kind() == ErrorKind::StaleNetworkFileHandle => {
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
            Err(error) => panic!("{}: {error}", path.display()),
        }
    }
    panic!("{} stays stale", path.display());
}

/// The same for an inode that every node must see under `name`: its number.
#[track_caller]
fn inode_everywhere(folder: &Folder<'_>, name: &str) -> Option<u64> {
    let seen: Vec<Option<u64>> = folder.everywhere(name).iter().map(|path| look(path)).collect();
    assert!(seen.iter().all(|ino| *ino == seen[0]), "{name} is on each node: {seen:?}");
    seen[0]
}

pub fn exclusive(site: &Site) {
    let folder = site.folder();
    for round in 0..ROUNDS {
        let (file, directory, link) = (format!("f{round}"), format!("d{round}"), format!("l{round}"));
        let opened = at_once(RACERS, |node| {
            OpenOptions::new().write(true).create_new(true).open(folder.at(node, &file))
        });
        let winner = one_winner(&opened, &[ErrorKind::AlreadyExists], round);
        let own = opened[winner].as_ref().expect("it won").metadata().expect("it is open").ino();
        assert_eq!(inode_everywhere(&folder, &file), Some(own));
        let made = at_once(RACERS, |node| fs::create_dir(folder.at(node, &directory)));
        one_winner(&made, &[ErrorKind::AlreadyExists], round);
        assert!(inode_everywhere(&folder, &directory).is_some());
        for node in 0..RACERS {
            fs::write(folder.at(node, &format!("source{node}")), "").expect("there is room");
        }
        let linked = at_once(RACERS, |node| {
            fs::hard_link(folder.at(node, &format!("source{node}")), folder.at(node, &link))
        });
        let winner = one_winner(&linked, &[ErrorKind::AlreadyExists], round);
        assert_eq!(inode_everywhere(&folder, &link), inode_everywhere(&folder, &format!("source{winner}")));
    }
}

pub fn removals(site: &Site) {
    let folder = site.folder();
    for round in 0..ROUNDS {
        fs::write(folder.at(round % NODES, "file"), "").expect("there is room");
        fs::create_dir(folder.at(round % NODES, "folder")).expect("the name is free");
        let removed = at_once(RACERS, |node| fs::remove_file(folder.at(node, "file")));
        one_winner(&removed, &[ErrorKind::NotFound], round);
        let removed = at_once(RACERS, |node| fs::remove_dir(folder.at(node, "folder")));
        one_winner(&removed, &[ErrorKind::NotFound], round);
        assert_eq!((inode_everywhere(&folder, "file"), inode_everywhere(&folder, "folder")), (None, None));
    }
}

pub fn moves(site: &Site) {
    let folder = site.folder();
    for round in 0..ROUNDS {
        fs::write(folder.at(4, "source"), "moved").expect("there is room");
        let source = inode_everywhere(&folder, "source");
        let target = |node: usize| format!("target{node}");
        let moved =
            at_once(RACERS, |node| fs::rename(folder.at(node, "source"), folder.at(node, &target(node))));
        let winner = one_winner(&moved, &[ErrorKind::NotFound], round);
        assert_eq!(inode_everywhere(&folder, "source"), None);
        for node in 0..RACERS {
            let expected = source.filter(|_| node == winner);
            assert_eq!(inode_everywhere(&folder, &target(node)), expected, "round {round}");
        }
        fs::remove_file(folder.at(4, &target(winner))).expect("it is there");
    }
}

pub fn replacements(site: &Site) {
    let folder = site.folder();
    for round in 0..ROUNDS {
        let source = |node: usize| format!("source{node}");
        let inodes: Vec<Option<u64>> = (0..RACERS)
            .map(|node| {
                fs::write(folder.at(node, &source(node)), source(node)).expect("there is room");
                inode_everywhere(&folder, &source(node))
            })
            .collect();
        let moved =
            at_once(RACERS, |node| fs::rename(folder.at(node, &source(node)), folder.at(node, "target")));
        assert!(moved.iter().all(io::Result::is_ok), "round {round}: {moved:?}");
        let left = inode_everywhere(&folder, "target");
        let winner = inodes.iter().position(|ino| *ino == left).expect("one of the four is left");
        for node in 0..NODES {
            let text = fs::read_to_string(folder.at(node, "target")).expect("it is there");
            assert_eq!(text, source(winner), "round {round}");
        }
        let entries = fs::read_dir(folder.at(4, "")).expect("it is there").count();
        assert_eq!(entries, 1, "round {round}: the sources are gone");
    }
}

pub fn rmdir_and_create(site: &Site) {
    let folder = site.folder();
    for round in 0..ROUNDS {
        fs::create_dir(folder.at(round % NODES, "d")).expect("the name is free");
        let done = at_once(RACERS, |node| match node {
            0 => fs::remove_dir(folder.at(node, "d")),
            _ => fs::write(folder.at(node, &format!("d/f{node}")), ""),
        });
        let filled = (1..RACERS).filter(|node| done[*node].is_ok()).count();
        match &done[0] {
            Ok(()) => {
                assert_eq!(filled, 0, "round {round}: a file in a folder that is gone");
                assert_eq!(inode_everywhere(&folder, "d"), None);
            }
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::DirectoryNotEmpty, "round {round}");
                assert_eq!(filled, RACERS - 1, "round {round}: {done:?}");
                for node in 1..RACERS {
                    assert!(inode_everywhere(&folder, &format!("d/f{node}")).is_some());
                }
                fs::remove_dir_all(folder.at(4, "d")).expect("it is there");
            }
        }
        for error in done[1..].iter().filter_map(|answer| answer.as_ref().err()) {
            assert_eq!(error.kind(), ErrorKind::NotFound, "round {round}: {error}");
        }
    }
}

pub fn ring(site: &Site) {
    let folder = site.folder();
    for round in 0..ROUNDS {
        for name in ["a", "b"] {
            fs::create_dir(folder.at(round % NODES, name)).expect("the name is free");
        }
        let moved = at_once(2, |node| match node {
            0 => fs::rename(folder.at(node, "a"), folder.at(node, "b/a")),
            _ => fs::rename(folder.at(node, "b"), folder.at(node, "a/b")),
        });
        let winner = one_winner(&moved, &[ErrorKind::NotFound, ErrorKind::InvalidInput], round);
        let (outer, inner) = if winner == 0 { ("b", "b/a") } else { ("a", "a/b") };
        assert!(inode_everywhere(&folder, outer).is_some() && inode_everywhere(&folder, inner).is_some());
        fs::remove_dir_all(folder.at(4, outer)).expect("it is a tree");
    }
}

/// A path below the folder, with its inode, kind and link count.
type Tree = BTreeMap<String, (u64, u32, u64)>;

fn tree(at: &Path, prefix: &str, into: &mut Tree) {
    for entry in fs::read_dir(at).expect("it is there") {
        let entry = entry.expect("it lists");
        let name = format!("{prefix}/{}", entry.file_name().to_string_lossy());
        let data = fs::symlink_metadata(entry.path()).expect("nobody changes it now");
        let kind = data.mode() & 0o170_000;
        let links = if data.is_dir() { 0 } else { data.nlink() };
        into.insert(name.clone(), (data.ino(), kind, links));
        if data.is_dir() {
            tree(&entry.path(), &name, into);
        }
    }
}

/// One step of the storm: some change of names among few, so that the nodes are in each other's way.
fn step(folder: &Folder<'_>, node: usize, random: u64) {
    let name = |shift: u32| ["a", "b", "c", "d", "a/e", "a/f", "b/e", "c/a"][(random >> shift) as usize % 8];
    let (one, two) = (folder.at(node, name(8)), folder.at(node, name(16)));
    // Most fail, as they should: only the end counts.
    let _done = match random % 7 {
        0 => fs::create_dir(&one),
        1 => fs::write(&one, "text"),
        2 => fs::remove_file(&one),
        3 => fs::remove_dir(&one),
        4 => fs::hard_link(&one, &two),
        _ => fs::rename(&one, &two),
    };
}

pub fn storm(site: &Site) {
    let folder = site.folder();
    at_once(RACERS, |node| {
        let mut random = 0x9E37_79B9_7F4A_7C15 ^ (node as u64) << 40;
        for _ in 0..1500 {
            // xorshift64
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            step(&folder, node, random >> 11);
        }
    });
    let trees: Vec<Tree> = (0..NODES)
        .map(|node| {
            let mut seen = Tree::new();
            tree(&folder.at(node, ""), "", &mut seen);
            seen
        })
        .collect();
    assert!(trees.iter().all(|seen| *seen == trees[0]), "{trees:#?}");
    for (ino, _, links) in trees[0].values().filter(|(_, kind, _)| *kind == 0o100_000) {
        let named = trees[0].values().filter(|(other, _, _)| other == ino).count() as u64;
        assert_eq!(named, *links, "inode {ino} has {named} names");
    }
}
