//! Folders on the PFS that have a path in the drained one: nothing is copied into itself.

use std::fs;

use super::node::Node;
use super::{Unmounted, can_mount, mount, read};

#[test]
fn a_folder_on_the_pfs_that_is_mounted_in_the_drained_one_is_refused() {
    if !can_mount() {
        return;
    }
    for (bound, to) in [("pfs", "pfs"), ("pfs", "pfs/out"), ("pfs/out", "pfs"), ("n1", "pfs"), ("", "pfs")] {
        let root = tempfile::tempdir().unwrap();
        let mut node = Node::new(&root, "n1", &[]);
        fs::create_dir(node.to.join("out")).unwrap();
        node.to = root.path().join(to);
        fs::write(node.from.join("f"), "text").unwrap();
        // Of the last two the one is in the other by a mount in the folder on the PFS, or by a third.
        let at = if bound == "n1" { node.to.join("in") } else { node.from.join("in") };
        fs::create_dir(&at).unwrap();
        mount(&["mount", "--bind", root.path().join(bound).to_str().unwrap()], &at);
        let _unmounted = Unmounted(at);
        let said = node.refused();
        assert!(said.contains("is inside the other"), "{bound} with {to}: {said}");
    }
}

#[test]
fn a_folder_that_is_the_other_by_a_second_mount_is_refused() {
    if !can_mount() {
        return;
    }
    let root = tempfile::tempdir().unwrap();
    let mut node = Node::new(&root, "n1", &[]);
    let below = node.to.join("a/b");
    fs::create_dir_all(&below).unwrap();
    mount(&["mount", "--bind", below.to_str().unwrap()], &node.from);
    let _unmounted = Unmounted(node.from.clone());
    let said = node.refused();
    assert!(said.contains("is inside the other"), "{said}");
}

#[test]
fn what_is_drained_from_or_to_is_left_out_where_it_gets_a_path_in_the_drained_folder_later() {
    if !can_mount() {
        return;
    }
    for bound in ["pfs", "pfs/d", "n1"] {
        let root = tempfile::tempdir().unwrap();
        let mut node = Node::new(&root, "n1", &[]);
        node.start();
        fs::create_dir(node.from.join("d")).unwrap();
        fs::write(node.from.join("d/f"), "text").unwrap();
        assert_eq!(node.settle().failed, []);
        let at = node.from.join("in");
        fs::create_dir(&at).unwrap();
        mount(&["mount", "--bind", root.path().join(bound).to_str().unwrap()], &at);
        let _unmounted = Unmounted(at);
        fs::write(node.from.join("g"), "text").unwrap();
        for _ in 0..2 {
            let answer = node.settle();
            assert!(answer.is_whole(), "{bound}: {answer:?}");
        }
        assert_eq!(read(&node.to.join("g")), "text");
        assert!(!node.to.join("in").exists(), "it is copied into itself");
        node.kill();
    }
}
