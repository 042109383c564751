//! What is said of a copy that was not read back as a whole.

use std::fs;

use super::node::Node;
use super::read;

#[test]
fn a_receipt_says_of_which_files_only_samples_were_read_back() {
    let root = tempfile::tempdir().unwrap();
    let mut node = Node::new(&root, "n1", &[]);
    // They take no room.
    for (name, size) in [("full", 1 << 20), ("large", (256 << 20) + 1)] {
        fs::File::create(node.from.join(name)).unwrap().set_len(size).unwrap();
    }
    node.start();
    assert_eq!(node.settle().failed, []);
    let log = read(&node.to.join(".forebay-drain/s/n1.jsonl"));
    let lines: Vec<serde_json::Value> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let sampled = |name| lines.iter().any(|line| line["path"] == name && line["sampled"] == true);
    assert_eq!((sampled("full"), sampled("large")), (false, true), "{log}");
    let receipt = read(&node.to.join(".forebay-drain/s/receipt.jsonl"));
    assert!(receipt.lines().next().is_some_and(|line| line.contains("\"sampled\":1")), "{receipt}");
}
