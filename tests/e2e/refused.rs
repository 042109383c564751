//! A part of a buffer that its node cannot serve: what a user is told of it, and by which commands.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;
use tests::cluster::Cluster;
use tests::processes::wait_until_told;

/// Longer than anything here takes on a busy machine.
const SOON: Duration = Duration::from_secs(30);

/// A buffer of two nodes with a file, not mounted, beside one that is: so the services run on. Gives its mount point
/// and token.
fn kept_buffer(cluster: &Cluster) -> (PathBuf, String) {
    let [beside, path] = ["beside", "mnt"].map(|name| cluster.pfs(name));
    let text = path.to_str().unwrap();
    let options = ["--capacity", "256MiB", "--nodes", "2"];
    cluster.forebay(&[&["mount", text], &options[..]].concat()).expect_success();
    let token = cluster.tokens().remove(0);
    cluster.forebay(&[&["mount", beside.to_str().unwrap()], &options[..]].concat()).expect_success();
    fs::write(path.join("file"), vec![7; 3 << 20]).unwrap();
    cluster.forebay(&["umount", text]).expect_success();
    (path, token)
}

/// What `forebay status --json` says of the buffer.
fn instance(cluster: &Cluster, token: &str) -> Value {
    let status = cluster.status();
    let sessions = status["sessions"].as_array().unwrap();
    sessions.iter().find(|session| session["token"] == token).unwrap()["instance"].clone()
}

#[test]
fn a_part_that_a_node_refuses_is_named_with_the_reason_and_the_next_step_by_every_command() {
    let cluster = Cluster::new();
    let (path, token) = kept_buffer(&cluster);
    let text = path.to_str().unwrap();
    let spec = cluster.state.join("nodes/n1/fragments/i1/spec.json");
    let aside = cluster.folder().join("aside");
    fs::rename(&spec, &aside).unwrap();
    cluster.process("forebay-node", "n1").kill();

    let is_broken = || instance(&cluster, &token)["intact"] == false;
    assert!(wait_until_told(SOON, is_broken), "{}", instance(&cluster, &token));
    let unserved = instance(&cluster, &token)["unserved"].clone();
    assert_eq!((&unserved[0]["part"], &unserved[0]["node"]), (&1.into(), &"n1".into()), "{unserved}");
    let status = cluster.forebay(&["status"]).expect_success().stdout;
    assert!(status.contains("the part on node n1 is not served"), "{status}");
    assert!(status.contains("spec.json is missing") && status.contains("bring the file back"), "{status}");

    let mount = cluster.forebay(&["mount", text, "--token", &token]);
    assert_eq!(mount.code(), 69, "a mount of a buffer without one of its parts: {}", mount.stdout);
    assert!(mount.stderr.contains("node n1") && mount.stderr.contains("spec.json"), "{}", mount.stderr);

    for command in ["scrub", "fsck"] {
        let outcome = cluster.forebay(&[command, &token]);
        assert_eq!(outcome.code(), 69, "{command}: {}", outcome.stderr);
        assert!(outcome.stdout.contains("not looked at: the part on node n1"), "{}", outcome.stdout);
        assert!(outcome.stderr.contains("1 part was not looked at"), "{}", outcome.stderr);
        let found = cluster.forebay(&[command, &token, "--json"]).json();
        assert_eq!(found[command]["unseen"][0]["node"], "n1", "{found}");
        assert!(found[command]["objects"].as_u64().unwrap() > 0, "the other part is looked at: {found}");
    }

    fs::rename(&aside, &spec).unwrap();
    let advised = format!("`kill {}`", cluster.process("forebay-node", "n1").pid);
    assert!(status.contains(&advised), "{advised} in {status}");
    cluster.process("forebay-node", "n1").signal(Signal::TERM);
    let mounts = || cluster.forebay(&["mount", text, "--token", &token]).code() == 0;
    assert!(wait_until_told(SOON, mounts), "what is mended is served again");
    assert_eq!(fs::read(path.join("file")).unwrap(), vec![7; 3 << 20]);
    cluster.forebay(&["umount", text]).expect_success();
    cluster.forebay(&["scrub", &token]).expect_success();
}

#[test]
fn a_node_that_lacks_its_part_of_a_buffer_says_so_in_its_log() {
    let cluster = Cluster::new();
    let (_, token) = kept_buffer(&cluster);
    let part = cluster.state.join("nodes/n1/fragments/i1");
    fs::rename(&part, cluster.folder().join("aside")).unwrap();
    cluster.process("forebay-node", "n1").kill();
    let lacks = || {
        let scrub = cluster.forebay(&["scrub", &token]);
        scrub.code() == 69 && scrub.stdout.contains("node n1 has no part of i1")
    };
    assert!(wait_until_told(SOON, lacks));
    assert!(lacks());
    let log = fs::read_to_string(cluster.state.join("log/n1.log")).unwrap();
    let told = "is asked for, and is not among the fragments here";
    assert_eq!(log.matches(told).count(), 1, "once: {log}");
    assert!(log.contains("instance=\"i1\""), "{log}");
}
