//! Names on the PFS that several nodes have files for: each node's file gets there, under one name or another.

use std::ffi::OsStr;
use std::fs;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use drain::Order;

use super::node::Node;
use super::pipes::make_pipe;
use super::read;

fn nodes(root: &tempfile::TempDir) -> (Node, Node) {
    (Node::new(root, "n1", &[]), Node::new(root, "n2", &[]))
}

/// Has the node drain a file that it gets now.
fn drain_file(node: &mut Node, name: impl AsRef<Path>, text: &str) {
    if node.running.is_none() {
        node.start();
    }
    fs::write(node.from.join(name), text).unwrap();
    assert_eq!(node.settle().failed, []);
}

#[test]
fn a_claim_after_a_line_that_was_cut_off_is_heard_by_the_other_nodes() {
    // Also in the middle of a letter.
    for torn in [&b"+\"/pfs/eee"[..], b"+\"/pfs/\xc3"] {
        let root = tempfile::tempdir().unwrap();
        let (mut first, mut second) = nodes(&root);
        drain_file(&mut first, "before", "of n1");
        first.kill();
        let claims = first.to.join(".forebay-drain/s/n1.claims");
        fs::OpenOptions::new().append(true).open(claims).unwrap().write_all(torn).unwrap();
        drain_file(&mut first, "f", "of n1");
        // Who has ended with everything there looks at nothing any more.
        first.stop();
        drain_file(&mut second, "f", "of n2");
        let there = ["f", "f.n2"].map(|name| read(&second.to.join(name)));
        assert_eq!(there, ["of n1", "of n2"], "after {}", torn.escape_ascii());
    }
}

#[test]
fn names_that_are_no_utf8_are_each_a_nodes_own() {
    let root = tempfile::tempdir().unwrap();
    let (mut first, mut second) = nodes(&root);
    let [name, other, suffixed] = [&b"f\xff"[..], b"f\xfe", b"f\xff.n2"].map(OsStr::from_bytes);
    drain_file(&mut first, name, "of n1");
    drain_file(&mut first, other, "of n1, too");
    // The name on the PFS goes with that on the node, and the claim to it.
    fs::rename(first.from.join(other), first.from.join("renamed")).unwrap();
    assert_eq!(first.settle().failed, []);
    assert!(!first.to.join(other).exists(), "the old name stays");
    first.stop();
    drain_file(&mut second, name, "of n2");
    let there = [name, suffixed].map(|name| read(&second.to.join(name)));
    assert_eq!(there, ["of n1", "of n2"]);
}

#[test]
fn a_claim_that_an_earlier_release_wrote_holds_also_for_a_name_that_is_no_utf8() {
    let root = tempfile::tempdir().unwrap();
    let (mut first, mut second) = nodes(&root);
    let [name, suffixed] = [&b"f\xff"[..], b"f\xff.n2"].map(OsStr::from_bytes);
    drain_file(&mut first, name, "of n1");
    drain_file(&mut first, "g", "of n1");
    first.stop();
    let to = first.to.canonicalize().unwrap();
    let text = ["f\u{fffd}", "g"].map(|name| format!("+\"{}\"\n", to.join(name).display())).concat();
    fs::write(to.join(".forebay-drain/s/n1.claims"), text).unwrap();
    drain_file(&mut second, name, "of n2");
    drain_file(&mut second, "g", "of n2");
    let there = [name, suffixed, OsStr::new("g"), OsStr::new("g.n2")].map(|name| read(&to.join(name)));
    assert_eq!(there, ["of n1", "of n2", "of n1", "of n2"]);
}

#[test]
fn a_copy_that_is_made_anew_does_not_take_its_name_from_another_node() {
    let root = tempfile::tempdir().unwrap();
    let (mut first, mut second) = nodes(&root);
    for node in [&first, &second] {
        fs::create_dir(node.from.join("d")).unwrap();
    }
    drain_file(&mut first, "d/f", "of n1");
    // It is missing when that is looked at, and cannot be copied at once.
    fs::remove_dir_all(first.to.join("d")).unwrap();
    fs::write(first.to.join("d"), "in the way").unwrap();
    assert_eq!(first.settle().failed.len(), 1);
    drain::order(&first.state(), Order::Pause).unwrap();
    fs::remove_file(first.to.join("d")).unwrap();
    drain_file(&mut second, "d/f", "of n2");
    drain::order(&first.state(), Order::Resume).unwrap();
    assert_eq!(first.settle().failed, []);
    let there = ["d/f", "d/f.n1"].map(|name| read(&second.to.join(name)));
    assert_eq!(there, ["of n2", "of n1"]);
}

#[test]
fn what_a_node_has_drained_is_claimed_anew_where_its_claims_were_lost() {
    let root = tempfile::tempdir().unwrap();
    let (mut first, mut second) = nodes(&root);
    drain_file(&mut first, "out", "of n1");
    fs::remove_file(first.from.join("out")).unwrap();
    assert_eq!(first.settle().failed, []);
    first.kill();
    fs::remove_dir_all(first.to.join(".forebay-drain/s")).unwrap();
    first.start();
    assert_eq!(first.settle().failed, []);
    drain_file(&mut second, "out", "of n2");
    let there = ["out", "out.n2"].map(|name| read(&second.to.join(name)));
    assert_eq!(there, ["of n1", "of n2"]);
}

#[test]
fn what_another_session_puts_in_the_place_of_a_copy_whose_file_was_removed_is_told() {
    let root = tempfile::tempdir().unwrap();
    let mut first = Node::new(&root, "n1", &[]);
    let mut second = Node::new(&root, "n2", &["--session", "another"]);
    drain_file(&mut first, "out", "of n1");
    fs::remove_file(first.from.join("out")).unwrap();
    assert_eq!(first.settle().failed, []);
    drain_file(&mut second, "out", "of another job");
    // Not only once: who waits next is no wiser.
    for _ in 0..2 {
        let failed = first.settle().failed;
        let [trouble] = &failed[..] else { panic!("{failed:?}") };
        assert!(trouble.message.contains("/out is not what was drained there"), "{trouble:?}");
    }
    assert_eq!(read(&first.to.join("out")), "of another job");
    // As is advised.
    fs::rename(first.to.join("out"), first.to.join("away")).unwrap();
    assert_eq!(first.settle().failed, []);
    fs::rename(first.to.join("away"), first.to.join("out")).unwrap();
    assert_eq!(first.settle().failed, []);
}

#[test]
fn what_is_no_file_in_the_place_of_a_nodes_claims_is_named_as_that() {
    for is_pipe in [false, true] {
        let root = tempfile::tempdir().unwrap();
        let mut node = Node::new(&root, "n1", &[]);
        drain_file(&mut node, "before", "of n1");
        let other = node.to.join(".forebay-drain/s/n2.claims");
        let why = if is_pipe {
            make_pipe(&other);
            "not a regular file"
        } else {
            fs::create_dir(&other).unwrap();
            "Is a directory"
        };
        // That it is free is not the question: another node may be about to have it.
        fs::write(node.to.join("f"), "of an earlier job").unwrap();
        fs::write(node.from.join("f"), "of n1").unwrap();
        let failed = node.settle().failed;
        let [trouble] = &failed[..] else { panic!("{failed:?}") };
        let (message, file) = (&trouble.message, other.canonicalize().unwrap());
        assert!(message.contains(why) && message.contains(file.to_str().unwrap()), "{trouble:?}");
        assert_eq!(trouble.path, "f");
        fs::rename(&other, root.path().join("away")).unwrap();
        assert_eq!(node.settle().failed, []);
    }
}

#[test]
fn a_damaged_line_of_the_claims_is_told_by_the_status_and_once_who_waits() {
    let root = tempfile::tempdir().unwrap();
    let mut node = Node::new(&root, "n1", &[]);
    drain_file(&mut node, "f", "of n1");
    node.kill();
    let claims = node.to.join(".forebay-drain/s/n1.claims");
    let text = read(&claims);
    fs::write(&claims, text.replacen("{\"name\"", "#\"name\"", 1)).unwrap();
    node.start();
    let says_so =
        |trouble: &drain::status::Trouble| trouble.message.contains("n1.claims: the line from byte");
    node.wait_said("nothing is said", |status| status.troubles.iter().any(says_so));
    let failed = node.settle().failed;
    assert!(failed.len() == 1 && says_so(&failed[0]), "{failed:?}");
    assert_eq!(node.settle().failed, []);
}

#[test]
fn what_has_replaced_a_copy_that_was_to_go_is_kept_and_nothing_is_owed() {
    let root = tempfile::tempdir().unwrap();
    let mut node = Node::new(&root, "n1", &["--removed", "follow"]);
    drain_file(&mut node, "f", "of n1");
    fs::remove_file(node.from.join("f")).unwrap();
    fs::write(node.to.join("beside"), "of another").unwrap();
    fs::rename(node.to.join("beside"), node.to.join("f")).unwrap();
    for _ in 0..2 {
        assert_eq!(node.settle().failed, []);
        assert_eq!(read(&node.to.join("f")), "of another");
    }
    let receipt = read(&node.to.join(".forebay-drain/s/receipt.jsonl"));
    assert!(receipt.contains("\"complete\":true") && receipt.contains("\"kept\":1"), "{receipt}");
}
