//! What had landed and is not there any more when everything is to be called drained.

use std::fs;
use std::path::Path;
use std::time::Instant;

use super::node::{LIMIT, Node};
use super::read;

const NAMES: [&str; 3] = ["f1", "f2", "folder/f3"];

/// A node whose files have all landed.
fn drained(root: &tempfile::TempDir) -> Node {
    let mut node = Node::new(root, "n1", &[]);
    fs::create_dir(node.from.join("folder")).unwrap();
    NAMES.iter().for_each(|name| fs::write(node.from.join(name), *name).unwrap());
    node.start();
    assert_eq!(node.settle().failed, []);
    node
}

fn are_there(to: &Path) -> bool {
    NAMES.iter().all(|name| read(&to.join(name)) == *name)
}

#[test]
fn what_was_removed_on_the_pfs_is_copied_again_before_all_is_called_drained() {
    let root = tempfile::tempdir().unwrap();
    let node = drained(&root);
    fs::remove_dir_all(node.to.join("folder")).unwrap();
    fs::remove_file(node.to.join("f1")).unwrap();
    assert_eq!(node.settle().failed, []);
    assert!(are_there(&node.to), "all is called drained, and is not there");
}

#[test]
fn what_another_has_put_in_the_place_of_a_copy_is_named_and_stays() {
    let root = tempfile::tempdir().unwrap();
    let node = drained(&root);
    fs::write(node.to.join("f2"), "of another").unwrap();
    let failed = node.settle().failed;
    let [trouble] = &failed[..] else { panic!("{failed:?}") };
    assert!(trouble.message.contains("/f2 is not what was drained there"), "{trouble:?}");
    assert_eq!(read(&node.to.join("f2")), "of another", "it was overwritten");
    node.wait_said("the figures are the answer's", |said| {
        (said.done, said.enqueued, said.failed) == (2, 3, 1) && said.troubles == failed
    });
    // Either way that the advice names helps.
    fs::rename(node.to.join("f2"), node.to.join("theirs")).unwrap();
    assert_eq!(node.settle().failed, []);
    node.wait_said("it is drained again", |said| (said.done, said.enqueued, said.failed) == (3, 3, 0));
    assert!(are_there(&node.to));
    fs::write(node.to.join("f1"), "of another").unwrap();
    fs::remove_file(node.from.join("f1")).unwrap();
    assert_eq!(node.settle().failed, []);
    assert_eq!(read(&node.to.join("f1")), "of another");
}

#[test]
fn a_folder_on_the_pfs_that_was_moved_away_ends_the_drainer_and_the_next_fills_another() {
    let root = tempfile::tempdir().unwrap();
    let mut node = drained(&root);
    fs::rename(&node.to, root.path().join("moved")).unwrap();
    fs::create_dir(&node.to).unwrap();
    let begun = Instant::now();
    while node.running.as_mut().unwrap().try_wait().unwrap().is_none() {
        assert!(begun.elapsed() < LIMIT, "it goes on where nobody can hear of it");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    node.start();
    assert_eq!(node.settle().failed, []);
    assert!(are_there(&node.to), "all is called drained, and is not there");
    assert!(node.to.join(".forebay-drain/s/n1.jsonl").exists());
}
