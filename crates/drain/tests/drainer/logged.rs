//! The log that receipts are made of: where it does not have what was drained, nobody is told that all is well.

use std::fs;
use std::path::PathBuf;

use clap::{Args, FromArgMatches};
use drain::rendezvous::Rendezvous;
use drain::settings::Settings;
use tempfile::TempDir;

use super::node::Node;
use super::read;

/// A node that has drained the file `a`, and its log.
fn with_a(root: &TempDir) -> (Node, PathBuf) {
    let mut node = Node::new(root, "n1", &[]);
    node.start();
    fs::write(node.from.join("a"), "a").unwrap();
    assert_eq!(node.settle().failed, []);
    let log = node.to.join(".forebay-drain/s/n1.jsonl");
    (node, log)
}

#[test]
fn a_log_that_was_moved_away_is_written_anew() {
    let root = tempfile::tempdir().unwrap();
    let (node, log) = with_a(&root);
    let has_a = || read(&log).contains("\"path\":\"a\"");
    for is_another_there in [false, true] {
        fs::rename(&log, root.path().join("moved")).unwrap();
        if is_another_there {
            fs::write(&log, "").unwrap();
        }
        assert_eq!(node.settle().failed, []);
        assert!(has_a(), "another is there: {is_another_there}");
    }
    fs::write(node.from.join("b"), "b").unwrap();
    assert_eq!(node.settle().failed, []);
    assert!(read(&log).contains("\"path\":\"b\""), "what comes next goes elsewhere");
}

#[test]
fn a_log_that_cannot_be_written_is_named_by_who_waits() {
    let root = tempfile::tempdir().unwrap();
    let (node, log) = with_a(&root);
    fs::remove_file(&log).unwrap();
    fs::create_dir(&log).unwrap();
    let failed = node.settle().failed;
    let [trouble] = &failed[..] else { panic!("{failed:?}") };
    assert!(trouble.message.contains("n1.jsonl"), "{trouble:?}");
    node.wait_said("it owes its log", |said| !said.owes_nothing());
    // As is advised.
    fs::remove_dir(&log).unwrap();
    assert_eq!(node.settle().failed, []);
    assert!(read(&log).contains("\"path\":\"a\""));
}

#[test]
fn a_receipt_that_lacks_what_a_node_has_drained_says_so() {
    let root = tempfile::tempdir().unwrap();
    let mut node = Node::new(&root, "n1", &[]);
    node.start();
    ["a", "b"].iter().for_each(|name| fs::write(node.from.join(name), name).unwrap());
    let answer = node.settle();
    assert_eq!((answer.failed.len(), answer.landed), (0, 2));
    let rendezvous = node.to.join(".forebay-drain/s");
    let written =
        || Rendezvous::new(rendezvous.clone()).write_receipt(std::slice::from_ref(&answer)).unwrap();
    let receipt = written();
    assert!(receipt.short.is_empty() && read(&receipt.path).contains("\"complete\":true"), "{receipt:?}");
    fs::File::options().write(true).open(rendezvous.join("n1.jsonl")).unwrap().set_len(0).unwrap();
    let receipt = written();
    assert_eq!(receipt.short, ["n1"]);
    assert!(read(&receipt.path).contains("\"complete\":false"), "{}", read(&receipt.path));
}

#[test]
fn a_start_that_asks_for_what_the_running_drainer_does_not_do_is_told_what_that_does() {
    let root = tempfile::tempdir().unwrap();
    let mut node = Node::new(&root, "n1", &[]);
    node.start();
    assert_eq!(node.settle().failed, []);
    let status = drain::order(&node.state(), drain::Order::Status).unwrap().unwrap();
    let unlike = |words: &[&str]| {
        let own = ["start", "--from", node.from.to_str().unwrap(), "--to", node.to.to_str().unwrap()];
        let command = Settings::augment_args(clap::Command::new("start"));
        let matches = command.try_get_matches_from(own.iter().chain(words)).unwrap();
        Settings::from_arg_matches(&matches).unwrap().unlike(&status)
    };
    assert_eq!(unlike(&[]), [""; 0]);
    assert_eq!(unlike(&["--session", "s", "--host", "n1", "--removed", "keep"]), [""; 0]);
    let other = unlike(&["--session", "t", "--host", "n2", "--removed", "follow"]);
    assert_eq!(other, ["--session s", "--host n1", "--removed keep"]);
}
