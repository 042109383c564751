//! What a commit puts beside the files of its job.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use super::node::Node;
use super::read;

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
