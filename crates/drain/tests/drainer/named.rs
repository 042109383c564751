//! Names that are the drain's own, and names that no text has: each file gets there under a name of its own, and is
//! told of by it.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::time::Duration;

use super::node::Node;
use super::{Silent, read};

#[test]
fn a_file_of_the_job_that_is_called_as_the_drains_log_is_whole_and_so_is_the_log() {
    for (words, name) in [(&[][..], "spectral.log.n1"), (&["--same-name", "folder"], "n1/spectral.log")] {
        let root = tempfile::tempdir().unwrap();
        let mut node = Node::new(&root, "n1", words);
        fs::write(node.from.join("spectral.log"), "of the job").unwrap();
        fs::create_dir(node.from.join("d")).unwrap();
        fs::write(node.from.join("d/spectral.log"), "below").unwrap();
        node.start();
        assert_eq!(node.settle().failed, []);
        assert_eq!(node.settle().failed, [], "it is as it was drained");
        assert_eq!(read(&node.to.join(name)), "of the job");
        let log = read(&node.to.join("spectral.log"));
        assert!(log.lines().all(|line| line.starts_with("Spectral Work ")), "{log}");
        let done = format!("DONE File : {}\n", node.to.canonicalize().unwrap().join(name).display());
        assert!(log.contains(&done), "{log}");
        if words.is_empty() {
            assert_eq!(read(&node.to.join("d/spectral.log")), "below");
        }
    }
    let root = tempfile::tempdir().unwrap();
    let mut node = Node::new(&root, "n1", &["--same-name", "error"]);
    fs::write(node.from.join("spectral.log"), "of the job").unwrap();
    node.start();
    let failed = node.settle().failed;
    assert!(failed.len() == 1 && failed[0].message.contains("is the log of the drain"), "{failed:?}");
}

#[test]
fn the_drains_log_is_not_appended_to_a_file_of_somebody() {
    let root = tempfile::tempdir().unwrap();
    let mut node = Node::new(&root, "n1", &[]);
    fs::write(node.to.join("spectral.log"), "42 nm\n").unwrap();
    let said = node.refused();
    assert!(said.contains("spectral.log exists, and no drain wrote it"), "{said}");
    assert_eq!(read(&node.to.join("spectral.log")), "42 nm\n");
    fs::rename(node.to.join("spectral.log"), node.to.join("mine.log")).unwrap();
    // It goes on with a log of drains.
    for _ in 0..2 {
        node.start();
        assert_eq!(node.settle().failed, []);
        node.stop();
    }
}

#[test]
fn a_folder_of_the_job_that_is_called_as_the_drains_is_told_and_leaves_that_alone() {
    for words in [&[][..], &["--same-name", "folder"]] {
        let root = tempfile::tempdir().unwrap();
        let mut node = Node::new(&root, "n1", &[]);
        let state: &'static str = root.path().join("state").to_str().unwrap().to_owned().leak();
        node.words = [words, &["--state", state]].concat().leak();
        node.state = Some(state.into());
        fs::create_dir_all(node.from.join(".forebay-drain/s")).unwrap();
        fs::write(node.from.join(".forebay-drain/s/n9.status"), "of the job").unwrap();
        node.start();
        let failed = node.settle().failed;
        if words.is_empty() {
            assert!(failed.len() == 1 && failed[0].message.contains("is the drain's own name"), "{failed:?}");
            assert!(!node.to.join(".forebay-drain/s/n9.status").exists());
        } else {
            assert_eq!(failed, []);
            assert_eq!(read(&node.to.join("n1/.forebay-drain/s/n9.status")), "of the job");
        }
    }
}

#[test]
fn a_name_with_a_lines_end_makes_no_line_of_the_log_that_nobody_has_written() {
    let root = tempfile::tempdir().unwrap();
    let mut node = Node::new(&root, "n1", &[]);
    fs::write(node.from.join("a\nSpectral Work DONE File : forged"), "text").unwrap();
    node.start();
    assert_eq!(node.settle().failed, []);
    node.stop();
    let log = read(&node.to.join("spectral.log"));
    assert!(!log.contains("\nSpectral Work DONE File : forged"), "{log}");
    assert!(log.contains("a\\nSpectral"), "{log}");
}

#[test]
fn files_whose_names_differ_in_what_is_no_utf8_have_lines_of_their_own_in_the_receipt() {
    let root = tempfile::tempdir().unwrap();
    let mut node = Node::new(&root, "n1", &[]);
    let names = [&b"f\xff"[..], b"f\xfe", "f\u{fffd}".as_bytes()].map(OsStr::from_bytes);
    names.iter().for_each(|name| fs::write(node.from.join(name), "text").unwrap());
    node.start();
    assert_eq!(node.settle().failed, []);
    // One that is started again tells of none of them anew.
    node.kill();
    node.start();
    assert_eq!(node.settle().failed, []);
    let session = node.to.join(".forebay-drain/s");
    let receipt = read(&session.join("receipt.jsonl"));
    assert!(receipt.contains("\"done\":3") && receipt.lines().count() == 4, "{receipt}");
    for path in ["\"path\":[102,255]", "\"path\":[102,254]", "\"path\":\"f\u{fffd}\""] {
        assert_eq!(receipt.matches(path).count(), 1, "{path}: {receipt}");
    }
    assert_eq!(read(&session.join("n1.jsonl")).lines().count(), 3);
}

#[test]
fn a_host_that_is_called_as_the_receipt_has_a_log_beside_it() {
    let root = tempfile::tempdir().unwrap();
    let mut node = Node::new(&root, "receipt", &[]);
    let rendezvous = node.to.join(".forebay-drain/s");
    for (name, done) in [("a", "\"done\":1"), ("b", "\"done\":2")] {
        node.start();
        fs::write(node.from.join(name), "text").unwrap();
        drain::wait::wait(&rendezvous, Some(Duration::ZERO), &mut Silent)
            .unwrap_or(drain::wait::Ending::Nobody);
        assert_eq!(node.settle().failed, []);
        let receipt = read(&rendezvous.join("receipt.jsonl"));
        assert!(receipt.contains(done), "{receipt}");
        node.stop();
    }
}
