//! Several drainers of one folder.

use std::fs;

use drain::rendezvous::Rendezvous;
use tempfile::TempDir;

use super::node::Node;
use super::read;

/// A drainer of the folder of `first`, with a folder of its own elsewhere.
fn other(root: &TempDir, first: &Node, words: &[&'static str]) -> Node {
    let state = root.path().join("other");
    let word: &'static str = state.to_str().unwrap().to_owned().leak();
    let words = [words, &["--state", word]].concat().leak();
    let (from, to) = (first.from.clone(), first.to.clone());
    Node { name: "n1", from, to, words, preload: None, state: Some(state), running: None }
}

#[test]
fn one_folder_has_one_drainer_whatever_folder_of_its_own_another_would_have() {
    let root = tempfile::tempdir().unwrap();
    let mut first = Node::new(&root, "n1", &[]);
    first.start();
    fs::write(first.from.join("f"), "one").unwrap();
    assert_eq!(first.settle().failed, []);
    let number = first.running.as_ref().unwrap().id();
    // Nothing happens: it says nothing for some seconds.
    std::thread::sleep(std::time::Duration::from_secs(1));
    for words in [&[][..], &["--session", "s2"]] {
        let said = other(&root, &first, words).refused();
        assert!(said.contains(&format!("process {number} already")), "{said}");
        assert!(said.contains(&format!("`kill {number}`")), "{said}");
    }
    // The first goes on, and is the one that counts.
    fs::write(first.from.join("f"), "two").unwrap();
    assert_eq!(first.settle().failed, []);
    assert_eq!(read(&first.to.join("f")), "two");
    let statuses = Rendezvous::new(first.to.join(".forebay-drain/s")).statuses().unwrap();
    assert!(statuses.len() == 1 && !statuses[0].refused && statuses[0].pid == number, "{statuses:?}");

    // Whatever becomes of it, nothing is left that keeps another away.
    first.kill();
    let mut second = other(&root, &first, &[]);
    second.start();
    fs::write(second.from.join("g"), "three").unwrap();
    assert_eq!(second.settle().failed, []);
    assert_eq!(read(&second.to.join("g")), "three");
    assert!(first.refused().contains("is drained by process"), "the first folder of its own is as good");
}
