//! `forebay drain` and symbolic links on the PFS: nothing is written or removed through one, whoever made it.

use std::fs;
use std::os::unix::fs::symlink;

use crate::drain::Node;

fn read(node: &Node, name: &str) -> String {
    fs::read_to_string(node.to.join(name)).unwrap_or_else(|error| format!("{name}: {error}"))
}

fn write(node: &Node, name: &str, text: &str) {
    let path = node.from.join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

/// The receipt's lines, without the summary and the checksums: `EVENT PATH`, in order.
fn receipt(node: &Node) -> Vec<String> {
    let text = fs::read_to_string(node.to.join(".forebay-drain/shell/receipt.jsonl")).unwrap();
    let lines = text.lines().skip(1).map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    let words = lines.map(|line| format!("{} {}", line["event"], line["path"]).replace('"', ""));
    words.collect()
}

#[test]
fn a_link_that_becomes_a_folder_on_the_node_becomes_one_on_the_pfs() {
    let folder = tempfile::tempdir().unwrap();
    let node = Node::new(folder.path(), "n1");
    write(&node, "run-1/x", "of run 1");
    symlink("run-1", node.from.join("current")).unwrap();
    node.start_drain(&[]);
    node.drain(&["wait"]).expect_success();
    assert_eq!(read(&node, "current/x"), "of run 1");

    fs::remove_file(node.from.join("current")).unwrap();
    write(&node, "current/x", "of the current run");
    let waited = node.drain(&["wait"]).expect_success();
    assert!(waited.stdout.ends_with("All files moved\n"), "{}", waited.stdout);
    assert!(fs::symlink_metadata(node.to.join("current")).unwrap().is_dir(), "the link is still there");
    assert_eq!((&*read(&node, "run-1/x"), &*read(&node, "current/x")), ("of run 1", "of the current run"));
    assert_eq!(receipt(&node), ["removed current", "done current/x", "done run-1/x"]);
}

#[test]
fn a_link_on_the_pfs_that_the_drain_did_not_make_is_named_and_nothing_goes_through_it() {
    let folder = tempfile::tempdir().unwrap();
    let node = Node::new(folder.path(), "n1");
    let outside = folder.path().join("outside");
    fs::create_dir_all(outside.join("deep")).unwrap();
    fs::create_dir(node.to.join("run-1")).unwrap();
    for file in [outside.join("x"), outside.join("deep/x"), node.to.join("run-1/x")] {
        fs::write(file, "of somebody else").unwrap();
    }
    symlink("run-1", node.to.join("current")).unwrap();
    symlink(&outside, node.to.join("lib")).unwrap();
    for name in ["current/x", "lib/x", "lib/deep/x", "free/x"] {
        write(&node, name, "of this job");
    }
    node.start_drain(&[]);
    let waited = node.drain(&["wait"]);
    assert_eq!(waited.code(), 74, "{}{}", waited.stdout, waited.stderr);
    for name in ["current", "lib"] {
        let link = node.to.canonicalize().unwrap().join(name);
        let told = format!("make folder {}: a symbolic link is in the way", link.display());
        assert!(waited.stderr.contains(&told), "{}", waited.stderr);
        assert!(fs::read_link(&link).is_ok());
    }
    assert!(waited.stderr.contains("move it away"), "{}", waited.stderr);
    assert_eq!(read(&node, "free/x"), "of this job");
    assert!(node.drain(&["commit", "current"]).code() == 74 && !node.to.join("current.committed").exists());

    // The advice serves.
    fs::remove_file(node.to.join("current")).unwrap();
    fs::rename(node.to.join("lib"), node.to.join("lib-of-before")).unwrap();
    node.drain(&["wait"]).expect_success();
    for name in ["current/x", "lib/x", "lib/deep/x"] {
        assert_eq!(read(&node, name), "of this job");
    }
    for file in [outside.join("x"), outside.join("deep/x"), node.to.join("run-1/x")] {
        assert_eq!(fs::read_to_string(file).unwrap(), "of somebody else");
    }
    assert!(!outside.join(".forebay-drain").exists());
}

#[test]
fn a_link_with_a_folders_former_name_does_not_take_the_folder_with_it() {
    let folder = tempfile::tempdir().unwrap();
    let node = Node::new(folder.path(), "n1");
    write(&node, "d/x", "the result");
    node.start_drain(&[]);
    node.drain(&["wait"]).expect_success();
    // Something of the user's keeps the folder from going.
    fs::write(node.to.join("d/notes"), "of the user").unwrap();
    fs::rename(node.from.join("d"), node.from.join("run-17")).unwrap();
    symlink("run-17", node.from.join("d")).unwrap();
    let waited = node.drain(&["wait"]);
    assert_eq!(waited.code(), 74, "{}", waited.stderr);
    assert!(waited.stderr.contains("/d: "), "{}", waited.stderr);

    fs::rename(node.to.join("d"), node.to.join("d-of-before")).unwrap();
    node.drain(&["wait"]).expect_success();
    assert_eq!(read(&node, "d/x"), "the result");
    fs::remove_file(node.from.join("d")).unwrap();
    node.drain(&["commit", "run-17"]).expect_success();
    assert_eq!((&*read(&node, "run-17/x"), &*read(&node, "latest/x")), ("the result", "the result"));
    assert_eq!(read(&node, "d-of-before/notes"), "of the user");
    assert!(receipt(&node).contains(&"done run-17/x".to_owned()), "{:?}", receipt(&node));
}

#[test]
fn a_folder_that_becomes_a_link_on_the_node_becomes_one_on_the_pfs() {
    let folder = tempfile::tempdir().unwrap();
    let node = Node::new(folder.path(), "n1");
    write(&node, "d/x", "the result");
    node.start_drain(&[]);
    node.drain(&["wait"]).expect_success();
    fs::rename(node.from.join("d"), node.from.join("run-17")).unwrap();
    symlink("run-17", node.from.join("d")).unwrap();
    // The first asks for the link while the folder may still be there.
    node.drain(&["wait"]);
    node.drain(&["wait"]).expect_success();
    assert_eq!(fs::read_link(node.to.join("d")).unwrap().to_str(), Some("run-17"));
    assert_eq!(read(&node, "d/x"), "the result");
}

#[test]
fn what_somebody_put_in_the_place_of_a_drained_file_stays_when_that_is_renamed() {
    let folder = tempfile::tempdir().unwrap();
    let node = Node::new(folder.path(), "n1");
    for name in ["replaced", "changed", "own", "gone"] {
        write(&node, name, "12345678");
    }
    node.start_drain(&[]);
    node.drain(&["wait"]).expect_success();
    // Both have the size and the time of change that the drained file had.
    let restamped = |name: &str, write: &dyn Fn(&std::path::Path)| {
        let path = node.to.join(name);
        let times = fs::metadata(&path).unwrap().modified().unwrap();
        write(&path);
        fs::File::options().write(true).open(&path).unwrap().set_modified(times).unwrap();
    };
    restamped("replaced", &|path| {
        fs::remove_file(path).unwrap();
        fs::write(path, "replaced").unwrap();
    });
    restamped("changed", &|path| fs::write(path, "changed!").unwrap());
    fs::remove_file(node.to.join("gone")).unwrap();
    for name in ["replaced", "changed", "own", "gone"] {
        fs::rename(node.from.join(name), node.from.join(format!("{name}.new"))).unwrap();
    }
    node.drain(&["wait"]).expect_success();
    assert_eq!((&*read(&node, "replaced"), &*read(&node, "changed")), ("replaced", "changed!"));
    assert!(!node.to.join("own").exists(), "a file that is renamed is renamed on the PFS");
    let lines = receipt(&node);
    for line in ["kept changed", "kept replaced", "removed gone", "removed own", "done replaced.new"] {
        assert!(lines.contains(&line.to_owned()), "no `{line}` in {lines:?}");
    }
    let told = node.drain(&["receipt"]).expect_success().stdout;
    assert!(told.contains("replaced stays, which was renamed or removed on the node: "), "{told}");
}

#[test]
fn what_the_drain_notes_beside_the_files_goes_through_no_link() {
    let folder = tempfile::tempdir().unwrap();
    let outside = folder.path().join("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("log"), "of somebody else").unwrap();
    for (name, leads_to) in [(".forebay-drain", outside.clone()), ("spectral.log", outside.join("log"))] {
        let node = Node::new(folder.path(), "n1");
        symlink(leads_to, node.to.join(name)).unwrap();
        let started = node.drain(&["start", "--host", "n1"]);
        assert_ne!(started.code(), 0, "{name}");
        assert!(started.stderr.contains(name), "{}", started.stderr);
        fs::remove_file(node.to.join(name)).unwrap();
    }
    assert_eq!(fs::read_to_string(outside.join("log")).unwrap(), "of somebody else");
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 1);

    let node = Node::start(folder.path(), "n1", &[]);
    write(&node, "file", "the result");
    // As a commit leaves it that is killed at the wrong moment.
    symlink("file", node.to.join(".file.committing")).unwrap();
    node.drain(&["commit", "file"]).expect_success();
    assert_eq!(read(&node, "file"), "the result");
}
