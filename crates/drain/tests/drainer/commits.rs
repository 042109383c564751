//! What a commit puts beside the files of its job.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::Duration;

use drain::status::Answer;

use super::node::Node;
use super::{Silent, read};

#[test]
fn a_commit_replaces_nothing_that_the_job_has_drained() {
    let root = tempfile::tempdir().unwrap();
    let mut node = Node::new(&root, "n1", &[]);
    for step in ["step1", "step2"] {
        fs::create_dir(node.from.join(step)).unwrap();
        fs::write(node.from.join(step).join("f"), step).unwrap();
    }
    // Each looks like a commit's.
    symlink("step1", node.from.join("latest")).unwrap();
    let text = "{\"committed\": \"yes\"}";
    fs::write(node.from.join("step1.committed"), text).unwrap();
    node.start();
    let answer = node.settle();
    assert_eq!(answer.failed, []);
    let rendezvous = node.to.join(".forebay-drain/s");
    let commit = |step| drain::commit::commit(&rendezvous, &node.to, step, std::slice::from_ref(&answer));
    for (step, in_the_way) in [("step1", "step1.committed"), ("step2", "latest")] {
        let said = commit(step).unwrap_err().to_string();
        assert!(said.contains(in_the_way) && said.contains("the job has drained it"), "{said}");
    }
    assert_eq!(fs::read_link(node.to.join("latest")).unwrap(), Path::new("step1"));
    assert_eq!(read(&node.to.join("step1.committed")), text);
    assert_eq!(node.settle().failed, [], "it is as it was drained");

    // As is advised. What commits have made is replaced by the next.
    for folder in [&node.from, &node.to] {
        ["latest", "step1.committed"].iter().for_each(|name| fs::remove_file(folder.join(name)).unwrap());
    }
    assert_eq!(node.settle().failed, []);
    for step in ["step1", "step2", "step1"] {
        let made = [format!("{step}.committed"), "latest".to_owned()].map(|name| node.to.join(name));
        assert_eq!(commit(step).unwrap(), made.to_vec() as Vec<PathBuf>);
        assert_eq!(fs::read_link(node.to.join("latest")).unwrap(), Path::new(step));
    }
    assert_eq!(node.settle().failed, []);
}

/// A node that has drained a file of this name.
fn drained(root: &tempfile::TempDir, name: &str) -> (Node, Answer) {
    let mut node = Node::new(root, "n1", &[]);
    let file = node.from.join(name);
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(file, "contents").unwrap();
    node.start();
    let answer = node.settle();
    assert_eq!(answer.failed, []);
    (node, answer)
}

fn commit(node: &Node, name: &str, answer: &Answer) -> std::io::Result<Vec<PathBuf>> {
    drain::commit::commit(&node.to.join(".forebay-drain/s"), &node.to, name, std::slice::from_ref(answer))
}

#[test]
fn a_group_has_one_marker_however_its_name_is_written() {
    let root = tempfile::tempdir().unwrap();
    let (node, answer) = drained(&root, "run1/f");
    for name in ["run1/", "run1/.", "run1"] {
        let made = ["run1.committed", "latest"].map(|name| node.to.join(name));
        assert_eq!(commit(&node, name, &answer).unwrap(), made.to_vec(), "{name}");
        assert_eq!(fs::read_link(node.to.join("latest")).unwrap(), Path::new("run1"));
    }
    assert!(!node.to.join("run1/.committed").exists());
    assert_eq!(drain::commit::plain("run1/../run2"), None);
}

#[test]
fn a_group_may_have_as_long_a_name_as_its_marker_may() {
    let root = tempfile::tempdir().unwrap();
    for name in ["y".repeat(255 - ".committed".len()), format!("{}/{}", "x".repeat(120), "x".repeat(120))] {
        let folder = tempfile::tempdir_in(&root).unwrap();
        let (node, answer) = drained(&folder, &name);
        commit(&node, &name, &answer).unwrap();
        assert!(node.to.join(format!("{name}.committed")).exists());
    }
}

#[test]
fn a_commit_replaces_no_link_that_the_user_has_made() {
    let root = tempfile::tempdir().unwrap();
    let (node, answer) = drained(&root, "run1/f");
    let latest = node.to.join("latest");
    for before in [None, Some("run1")] {
        if let Some(before) = before {
            commit(&node, before, &answer).unwrap();
            fs::remove_file(&latest).unwrap();
        }
        symlink(root.path(), &latest).unwrap();
        let said = commit(&node, "run1", &answer).unwrap_err().to_string();
        assert!(said.contains("/latest is there, and no commit has made it"), "{said}");
        assert_eq!(fs::read_link(&latest).unwrap(), root.path());
        fs::remove_file(&latest).unwrap();
    }
    // An earlier release noted nothing of its links.
    commit(&node, "run1", &answer).unwrap();
    fs::remove_file(node.to.join(".forebay-drain/latest.links")).unwrap();
    commit(&node, "run1", &answer).unwrap();
}

#[test]
fn a_wait_may_be_told_to_take_longer_than_the_clock_goes() {
    let root = tempfile::tempdir().unwrap();
    let (node, _) = drained(&root, "f");
    let without_end = Some(Duration::from_secs(u64::MAX));
    let ending = drain::wait::wait(&node.to.join(".forebay-drain/s"), without_end, &mut Silent).unwrap();
    assert!(matches!(ending, drain::wait::Ending::Answered(_)), "{ending:?}");
}

#[test]
fn a_commit_replaces_no_file_that_only_looks_like_a_marker() {
    let root = tempfile::tempdir().unwrap();
    let (node, answer) = drained(&root, "run1/f");
    let marker = node.to.join("run1.committed");
    // An earlier release noted nothing of its markers.
    let text = "{\"name\":\"run1\",\"committed\":\"once\"}";
    fs::write(&marker, text).unwrap();
    fs::write(node.to.join("run0.committed"), text).unwrap();
    std::thread::sleep(Duration::from_millis(20));
    for name in ["run1", "run0", "run1"] {
        commit(&node, name, &answer).unwrap();
    }
    // As by `cp`, and by an editor.
    for as_new in [true, false] {
        let text = read(&marker).replace("run1", "mine1");
        if as_new {
            fs::remove_file(&marker).unwrap();
        }
        fs::write(&marker, &text).unwrap();
        let said = commit(&node, "run1", &answer).unwrap_err().to_string();
        assert!(said.contains("/run1.committed is there, and no commit has made it"), "{said}");
        assert_eq!(read(&marker), text);
        fs::remove_file(&marker).unwrap();
        commit(&node, "run1", &answer).unwrap();
    }
}

#[test]
fn a_commit_to_a_folder_that_a_link_leads_to_replaces_the_last() {
    let root = tempfile::tempdir().unwrap();
    let (node, answer) = drained(&root, "run1/f");
    let link = root.path().join("link");
    symlink(&node.to, &link).unwrap();
    for _ in 0..2 {
        let made = drain::commit::commit(
            &node.to.join(".forebay-drain/s"),
            &link,
            "run1",
            std::slice::from_ref(&answer),
        );
        assert_eq!(made.unwrap(), ["run1.committed", "latest"].map(|name| link.join(name)).to_vec());
    }
}
