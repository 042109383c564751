//! What came to a name on the PFS as that was replaced, and cannot get it back: it is named until it is moved away,
//! whoever was killed, however often, and wherever its folder is moved to.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use drain::status::{Answer, Trouble};

use super::moments::{Moment, at_name};
use super::node::Node;
use super::read;

/// What of this is of something that was taken from its name.
fn of_taken(failed: &[Trouble]) -> Vec<&Trouble> {
    failed.iter().filter(|trouble| trouble.message.contains(".taken")).collect()
}

/// Asserts that the next waits name what lies below `folder`, and nothing else that was taken.
fn is_named(node: &Node, folder: &Path) {
    let begin = folder.canonicalize().unwrap().join(".").display().to_string();
    for _ in 0..2 {
        let failed = node.settle().failed;
        let [trouble] = of_taken(&failed)[..] else { panic!("{failed:?}") };
        assert!(trouble.message.starts_with(begin.trim_end_matches('.')), "{trouble:?}");
        assert_eq!(read(Path::new(&trouble.path)), "by somebody");
    }
}

fn puts_another(to: &Path) {
    fs::write(to.with_file_name("beside"), "by another").unwrap();
    fs::rename(to.with_file_name("beside"), to).unwrap();
}

/// A node whose drainer was killed as `d/f` changed places with what had come there; another has come to it since.
fn taken(root: &tempfile::TempDir) -> Node {
    let mut node = Node::new(root, "n1", &[]);
    for folder in [&node.from, &node.to] {
        fs::create_dir(folder.join("d")).unwrap();
    }
    fs::write(node.to.join("d/f"), "of an earlier job").unwrap();
    fs::write(node.from.join("d/f"), "new").unwrap();
    node.preload = Some(at_name(root, "d/f", Moment::KilledAfterChange));
    node.start();
    let ended = node.running.take().unwrap().wait().unwrap();
    assert!(ended.code().is_none(), "it was not killed: {ended}");
    node.preload = None;
    puts_another(&node.to.join("d/f"));
    node
}

fn ends(node: &mut Node, kills: bool) {
    if kills {
        node.kill();
    } else {
        node.stop();
    }
}

#[test]
fn what_cannot_get_its_name_back_is_named_by_every_later_drainer_until_it_is_moved_away() {
    let root = tempfile::tempdir().unwrap();
    let mut node = taken(&root);
    node.start();
    is_named(&node, &node.to.join("d"));
    // In a folder in which nothing is copied any more.
    fs::create_dir(node.from.join("e")).unwrap();
    fs::write(node.from.join("e/f"), "contents").unwrap();
    let named = PathBuf::from(&of_taken(&node.settle().failed)[0].path);
    fs::rename(&named, node.to.join("e").join(named.file_name().unwrap())).unwrap();
    for kills in [true, true, false, false, true] {
        ends(&mut node, kills);
        node.start();
        is_named(&node, &node.to.join("e"));
    }
    let failed = node.settle().failed;
    fs::rename(&of_taken(&failed)[0].path, node.to.join("theirs")).unwrap();
    assert!(of_taken(&node.settle().failed).is_empty());
    ends(&mut node, false);
    assert!(!read(&node.state().join("remarks")).ends_with("\"taken\":true}}\n"), "the next looks again");
}

#[test]
fn what_cannot_get_its_name_back_is_named_wherever_its_folder_is_moved_to() {
    for while_it_runs in [true, false] {
        let root = tempfile::tempdir().unwrap();
        let mut node = taken(&root);
        let moved = node.to.join("kept");
        node.start();
        is_named(&node, &node.to.join("d"));
        if !while_it_runs {
            ends(&mut node, true);
        }
        fs::rename(node.to.join("d"), &moved).unwrap();
        if !while_it_runs {
            node.start();
        }
        is_named(&node, &moved);
        assert_eq!(read(&node.to.join("d/f")), "new", "what lies elsewhere is not in its way");
        for kills in [false, true] {
            ends(&mut node, kills);
            node.start();
            is_named(&node, &moved);
        }
        // What was removed is nobody's.
        fs::remove_dir_all(&moved).unwrap();
        assert_eq!(node.settle().failed, [], "{while_it_runs}");
    }
}

#[test]
fn what_cannot_get_its_name_back_and_is_out_of_reach_is_told_once() {
    let (root, archive) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let mut node = taken(&root);
    node.start();
    is_named(&node, &node.to.join("d"));
    ends(&mut node, true);
    fs::rename(node.to.join("d"), archive.path().join("d")).unwrap();
    node.start();
    let failed = node.settle().failed;
    assert!(failed.len() == 1 && failed[0].message.contains("/pfs/d, under a name"), "{failed:?}");
    assert_eq!(node.settle().failed, []);
    ends(&mut node, false);
    node.start();
    assert_eq!(node.settle().failed, []);
}

/// What the process that commits is told: where to.
const COMMITS_TO: &str = "FOREBAY_TEST_COMMITS_TO";

fn commit(to: &Path, answer: &Answer) -> std::io::Result<Vec<PathBuf>> {
    drain::commit::commit(&to.join(".forebay-drain/s"), to, "d/g", std::slice::from_ref(answer))
}

#[test]
fn commits_where_it_is_told_to() {
    let Some(to) = std::env::var_os(COMMITS_TO) else { return };
    let answer = Answer { host: "n1".to_owned(), landed: 1, failed: vec![], open: vec![] };
    commit(Path::new(&to), &answer).unwrap();
}

/// A node and a commit that was killed as its marker changed places with what had come there.
fn commit_killed(root: &tempfile::TempDir) -> (Node, Answer) {
    let mut node = Node::new(root, "n1", &[]);
    fs::create_dir(node.from.join("d")).unwrap();
    fs::write(node.from.join("d/g"), "contents").unwrap();
    node.start();
    let answer = node.settle();
    assert_eq!(answer.failed, []);
    commit(&node.to, &answer).unwrap();
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", "left::commits_where_it_is_told_to"]).env(COMMITS_TO, &node.to);
    child.env("LD_PRELOAD", at_name(root, "d/g.committed", Moment::KilledAfterChange));
    let ended = child.output().unwrap();
    assert!(ended.status.code().is_none(), "it was not killed: {ended:?}");
    (node, answer)
}

/// Names of commits that are being made, or were.
fn drafts(node: &Node) -> Vec<PathBuf> {
    let folders = [node.to.clone(), node.to.join("d"), node.to.join(".forebay-drain")];
    let names = folders.iter().flat_map(|folder| fs::read_dir(folder).into_iter().flatten());
    let names = names.map(|entry| entry.unwrap().path());
    names.filter(|path| path.to_str().unwrap().contains(".committing")).collect()
}

#[test]
fn what_comes_to_the_name_of_a_marker_as_a_commit_is_killed_gets_it_back() {
    let root = tempfile::tempdir().unwrap();
    let (node, answer) = commit_killed(&root);
    assert_eq!(node.settle().failed, []);
    assert_eq!(read(&node.to.join("d/g.committed")), "by somebody");
    assert_eq!(drafts(&node), Vec::<PathBuf>::new());
    let said = commit(&node.to, &answer).unwrap_err().to_string();
    assert!(said.contains("/d/g.committed is there, and no commit has made it"), "{said}");
}

#[test]
fn what_a_killed_commit_took_and_cannot_get_its_name_back_is_named_until_it_is_moved_away() {
    let root = tempfile::tempdir().unwrap();
    let (mut node, answer) = commit_killed(&root);
    puts_another(&node.to.join("d/g.committed"));
    for kills in [true, false] {
        is_named(&node, &node.to.join("d"));
        // Also where no drainer runs.
        ends(&mut node, kills);
        let said = commit(&node.to, &answer).unwrap_err().to_string();
        assert!(said.contains(".taken is somebody's"), "{said}");
        node.start();
    }
    fs::rename(node.to.join("d"), node.to.join("kept")).unwrap();
    is_named(&node, &node.to.join("kept"));
    let failed = node.settle().failed;
    fs::rename(&of_taken(&failed)[0].path, node.to.join("theirs")).unwrap();
    for _ in 0..2 {
        assert_eq!(node.settle().failed, []);
    }
    assert_eq!(drafts(&node), Vec::<PathBuf>::new());
}
