//! Attributes that the PFS refuses: the file comes there, and the receipt says what it lacks.

use std::fs;
use std::time::{Duration, UNIX_EPOCH};

use drain::rendezvous::Rendezvous;
use rustix::fs::{XattrFlags, setxattr};

use super::node::Node;
use super::{Unmounted, can_mount, mount, mount_old, read};

#[test]
fn a_receipt_names_the_attributes_that_the_pfs_refuses() {
    if !can_mount() {
        return;
    }
    let root = tempfile::tempdir().unwrap();
    let mut node = Node::new(&root, "n1", &[]);
    // It has none.
    mount(&["mount", "-t", "ramfs", "none"], &node.to);
    let _unmounted = Unmounted(node.to.clone());
    for name in ["plain", "labelled"] {
        fs::write(node.from.join(name), name).unwrap();
    }
    setxattr(node.from.join("labelled"), "user.label", b"red", XattrFlags::empty()).unwrap();
    node.start();
    let answer = node.settle();
    assert_eq!((answer.failed.len(), answer.landed), (0, 2), "{answer:?}");
    // Also where the log is written anew, of what the next drainer knows.
    for is_new in [false, true] {
        if is_new {
            node.stop();
            fs::remove_file(node.to.join(".forebay-drain/s/n1.jsonl")).unwrap();
            node.start();
            assert_eq!(node.settle().failed, []);
        }
        let rendezvous = Rendezvous::new(node.to.join(".forebay-drain/s"));
        let receipt = rendezvous.write_receipt(std::slice::from_ref(&answer)).unwrap();
        assert_eq!(receipt.left_out, 1);
        let text = read(&receipt.path);
        let lines: Vec<serde_json::Value> =
            text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!((&lines[0]["complete"], &lines[0]["left_out"]), (&true.into(), &1.into()), "{text}");
        let of = |name| lines.iter().find(|line| line["path"] == name).unwrap()["left_out"].to_string();
        assert_eq!(of("plain"), "[]");
        assert!(of("labelled").contains("extended attribute user.label cannot be kept"), "{text}");
    }
    node.kill();
}

#[test]
fn a_receipt_names_times_that_the_pfs_cannot_hold_and_attributes_of_the_system() {
    if !can_mount() {
        return;
    }
    let root = tempfile::tempdir().unwrap();
    let mut node = Node::new(&root, "n1", &[]);
    let _unmounted = mount_old(&root, &node.to);
    node.to = node.to.join("out");
    let names = ["plain", "of-2100", "trusted"];
    names.iter().for_each(|name| fs::write(node.from.join(name), name).unwrap());
    let later = UNIX_EPOCH + Duration::from_secs(4_102_444_800);
    fs::File::options().write(true).open(node.from.join("of-2100")).unwrap().set_modified(later).unwrap();
    setxattr(node.from.join("trusted"), "trusted.label", b"red", XattrFlags::empty()).unwrap();
    node.start();
    let answer = node.settle();
    assert_eq!((answer.failed.len(), answer.landed), (0, 3), "{answer:?}");
    let rendezvous = Rendezvous::new(node.to.join(".forebay-drain/s"));
    let receipt = rendezvous.write_receipt(std::slice::from_ref(&answer)).unwrap();
    let text = read(&receipt.path);
    assert_eq!(receipt.left_out, 2, "{text}");
    let line = |name: &str| text.lines().find(|line| line.contains(&format!("\"path\":\"{name}\""))).unwrap();
    assert!(line("plain").contains("\"left_out\":[]"), "{text}");
    assert!(line("of-2100").contains("4102444800") && line("of-2100").contains("cannot be kept"), "{text}");
    assert!(line("trusted").contains("extended attribute trusted.label is not kept"), "{text}");
    node.kill();
}
