//! Nodes of a job whose drainers could not start: the others' `wait`, `commit` and receipt count them.

use std::fs;
use std::path::Path;

use crate::drain::Node;

/// What is left of a start that is refused, and how that is mended.
type Case = (&'static str, fn(&Node), fn(&Node));

/// By the drainer, before and after it has read what it knows, and by the command.
const CASES: [Case; 4] = [
    ("pfs.json", |node| write(node, "pfs.json", "damaged"), |node| remove(node, "pfs.json")),
    ("ledger", |node| write(node, "ledger", "damaged\n{}\n"), |node| remove(node, "ledger")),
    (
        "lock",
        |node| fs::create_dir_all(own(node).join("lock")).unwrap(),
        |node| {
            fs::remove_dir(own(node).join("lock")).unwrap();
        },
    ),
    (
        "no such folder",
        |node| fs::rename(&node.from, away(node)).unwrap(),
        |node| {
            fs::rename(away(node), &node.from).unwrap();
        },
    ),
];

fn own(node: &Node) -> std::path::PathBuf {
    node.from.join(".forebay-drain")
}

fn away(node: &Node) -> std::path::PathBuf {
    node.from.with_extension("away")
}

fn write(node: &Node, name: &str, text: &str) {
    fs::create_dir_all(own(node)).unwrap();
    fs::write(own(node).join(name), text).unwrap();
}

fn remove(node: &Node, name: &str) {
    fs::remove_file(own(node).join(name)).unwrap();
}

fn receipt(to: &Path) -> serde_json::Value {
    let text = fs::read_to_string(to.join(".forebay-drain/shell/receipt.jsonl")).unwrap();
    serde_json::from_str(text.lines().next().unwrap()).unwrap()
}

#[test]
fn a_node_whose_drainer_could_not_start_is_not_drained_for_who_waits_on_another() {
    for (what, damage, mend) in CASES {
        let folder = tempfile::tempdir().unwrap();
        let (first, second) = (Node::new(folder.path(), "n1"), Node::new(folder.path(), "n2"));
        for node in [&first, &second] {
            fs::create_dir(node.from.join("out")).unwrap();
        }
        fs::write(first.from.join("out/a"), "of the first").unwrap();
        fs::write(second.from.join("out/b"), "of the second").unwrap();
        first.start_drain(&[]);
        damage(&second);
        let refused = second.drain(&["start", "--host", "n2"]);
        assert_ne!(refused.code(), 0, "{what}: it runs");

        for words in [&["wait"][..], &["commit", "out"]] {
            let waited = first.drain(words);
            assert_eq!(waited.code(), 74, "{what}: {}{}", waited.stdout, waited.stderr);
            let said = "forebay: n2: ";
            assert!(
                waited.stderr.contains(said) && waited.stderr.contains("could not start"),
                "{}",
                waited.stderr
            );
        }
        assert!(!first.to.join("out.committed").exists(), "{what}: it is published");
        let written = receipt(&first.to);
        assert_eq!(written["complete"], false, "{what}: {written}");
        assert_eq!(written["hosts"], serde_json::json!(["n1", "n2"]), "{what}");

        mend(&second);
        second.start_drain(&[]);
        first.drain(&["commit", "out"]).expect_success();
        assert_eq!(fs::read_to_string(first.to.join("out/b")).unwrap(), "of the second");
        assert_eq!(receipt(&first.to)["complete"], true, "{what}");
    }
}

#[test]
fn who_waits_in_a_job_is_told_of_its_nodes_that_nothing_was_heard_of() {
    let folder = tempfile::tempdir().unwrap();
    let node = Node::new(folder.path(), "n1");
    let wait = |nodes: &str| {
        let mut command = node.command(&["wait"]);
        command
            .env("SLURM_JOB_ID", "77")
            .env("SLURM_JOB_NUM_NODES", nodes)
            .env("SLURM_JOB_NODELIST", "n[1-2]");
        let output = command.output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    node.start_drain(&["--session", "77"]);
    let (code, said) = wait("2");
    assert!(code == Some(0) && said.contains("on 1 of the 2 nodes"), "{code:?} {said}");
    // Without Slurm's commands its list is named.
    let names = ["heard of n2;", "heard of the others of n[1-2];"];
    assert!(names.iter().any(|name| said.contains(name)), "{said}");
    let (code, said) = wait("1");
    assert!(code == Some(0) && !said.contains("WARNING"), "{code:?} {said}");
}
