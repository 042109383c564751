//! What `forebay status` says of the second copy of a buffer's metadata.

use std::fs::{self, File};
use std::time::{Duration, Instant};

use tests::cluster::Cluster;
use tests::processes::wait_until_told;

/// Longer than anything here takes on a busy machine.
const SOON: Duration = Duration::from_secs(30);

/// Longer than a sync waits for the node with the copy.
const SYNC_MAX: Duration = Duration::from_secs(25);

#[test]
fn status_says_whether_the_metadata_has_two_copies() {
    let cluster = Cluster::new();
    let path = cluster.pfs("mnt");
    let text = path.to_str().unwrap();
    cluster.forebay(&["mount", text, "--capacity", "256MiB", "--nodes", "2"]).expect_success();
    let make = |name: &str| {
        fs::create_dir(path.join(name)).unwrap();
        File::open(&path).and_then(|folder| folder.sync_all()).unwrap();
    };
    let copy = || cluster.status()["sessions"][0]["instance"]["copies"][0].clone();
    let says = |words: &str| cluster.forebay(&["status"]).expect_success().stdout.contains(words);
    make("first");
    assert!(wait_until_told(SOON, || copy()["whole"] == true), "{}", copy());
    assert!(says("metadata: two copies"));

    let keeper = copy()["node"].as_str().unwrap().to_owned();
    let stopped = cluster.process("forebay-node", &keeper).stop();
    let begun = Instant::now();
    make("second");
    assert!(begun.elapsed() < SYNC_MAX, "a sync waited for {:?}", begun.elapsed());
    assert!(wait_until_told(SOON, || copy()["whole"] == false), "{}", copy());
    // What control heard last may be of before that.
    assert!(wait_until_told(SOON, || says("metadata: one copy only, on node")), "{}", copy());
    drop(stopped);
    assert!(wait_until_told(SOON, || says("metadata: two copies")), "{}", copy());
    cluster.forebay(&["umount", text]).expect_success();
}

#[test]
fn the_first_look_at_a_kept_buffer_counts_what_all_of_its_nodes_have() {
    let cluster = Cluster::new();
    let path = cluster.pfs("mnt");
    let text = path.to_str().unwrap();
    cluster.forebay(&["mount", text, "--capacity", "256MiB", "--nodes", "2"]).expect_success();
    fs::write(path.join("file"), vec![7; 6 << 20]).unwrap();
    cluster.forebay(&["umount", text]).expect_success();
    let token = cluster.tokens().remove(0);
    cluster.assert_nothing_left();
    let instance = cluster.status()["sessions"][0]["instance"].clone();
    assert!(instance["used_bytes"].as_u64().unwrap() >= 6 << 20, "{instance}");
    assert_eq!(instance["intact"], true, "{instance}");
    cluster.assert_nothing_left();
    let removed = cluster.forebay(&["rm", &token]).expect_success().stdout;
    assert!(removed.contains("with at least 6 MiB"), "{removed}");
}
