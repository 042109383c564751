//! What a newer Forebay wrote, and what is not there any more: told as that, with what helps, and kept as it is.

use std::fs;
use std::time::Duration;

use tests::cluster::Cluster;
use tests::processes::wait_until_told;

/// Longer than anything here takes on a busy machine.
const SOON: Duration = Duration::from_secs(30);

/// Mounts a buffer at this name, and gives the name's path.
fn mounted(cluster: &Cluster, name: &str) -> String {
    let path = cluster.pfs(name).to_str().expect("temporary folders have plain names").to_owned();
    cluster.forebay(&["mount", &path, "--capacity", "256MiB", "--nodes", "2"]).expect_success();
    path
}

/// A buffer with a file that is not mounted now, and where it was.
fn with_a_file() -> (Cluster, String) {
    let cluster = Cluster::new();
    let path = mounted(&cluster, "mnt");
    // The services run on for this one.
    mounted(&cluster, "beside");
    fs::write(format!("{path}/file"), "data").unwrap();
    cluster.forebay(&["umount", &path]).expect_success();
    (cluster, path)
}

#[test]
fn a_metadata_log_that_a_newer_forebay_wrote_is_kept_for_it_and_nobody_is_told_to_give_it_up() {
    let (cluster, path) = with_a_file();
    let log = cluster.state.join("nodes/n0/fragments/i1/namespaces/0/meta.log");
    let node = cluster.process("forebay-node", "n0");
    let mut newer = fs::read(&log).unwrap();
    newer[8] += 1;
    fs::write(&log, &newer).unwrap();
    node.kill();
    let status = || cluster.forebay(&["status"]).expect_success().stdout;
    assert!(wait_until_told(SOON, || status().contains("a newer one wrote it")), "{}", status());
    let status = status();
    assert!(status.contains("meta.log: it has format 3, this Forebay knows up to 2"), "{status}");
    assert!(status.contains("install the Forebay that wrote it, or a newer one"), "{status}");
    assert_eq!(fs::read(&log).unwrap(), newer, "no copy has taken its place");
    newer[8] -= 1;
    fs::write(&log, &newer).unwrap();
    cluster.process("forebay-node", "n0").kill();
    let mounts = || cluster.forebay(&["mount", &path, "--token", "1"]).code() == 0;
    assert!(wait_until_told(SOON, mounts), "the Forebay that wrote it is there again");
    assert_eq!(fs::read_to_string(format!("{path}/file")).unwrap(), "data");
}

#[test]
fn an_empty_database_is_no_first_start() {
    let cluster = Cluster::new();
    let path = mounted(&cluster, "mnt");
    cluster.forebay(&["umount", &path]).expect_success();
    assert!(wait_until_told(SOON, || cluster.processes().is_empty()), "the services end");
    let database = cluster.state.join("control.db");
    let whole = fs::read(&database).unwrap();
    fs::write(&database, "").unwrap();
    let refused = cluster.forebay(&["mount", &path, "--capacity", "64MiB"]);
    assert_ne!(refused.code(), 0);
    assert!(refused.stderr.contains("control.db is empty"), "{}", refused.stderr);
    assert!(refused.stderr.contains("forebay-control restore"), "{}", refused.stderr);
    assert_eq!(fs::read(&database).unwrap(), b"", "it is kept as it is");
    fs::write(&database, whole).unwrap();
    cluster.forebay(&["mount", &path, "--token", "1"]).expect_success();
}

#[test]
fn a_copy_of_a_lost_metadata_log_that_a_newer_forebay_wrote_is_kept_for_it() {
    let (cluster, _) = with_a_file();
    let log = cluster.state.join("nodes/n0/fragments/i1/namespaces/0/meta.log");
    let copy = cluster.state.join("nodes/n1/fragments/i1/copies/0/meta.log");
    let node = cluster.process("forebay-node", "n0");
    let mut newer = fs::read(&copy).unwrap();
    newer[8] += 1;
    fs::write(&copy, &newer).unwrap();
    fs::remove_file(&log).unwrap();
    node.kill();
    let status = || cluster.forebay(&["status"]).expect_success().stdout;
    assert!(wait_until_told(SOON, || status().contains("a newer one wrote it")), "{}", status());
    assert!(status().contains("install the Forebay that wrote it, or a newer one"), "{}", status());
    assert!(!status().contains("give the buffer up"), "{}", status());
    assert_eq!(fs::read(&copy).unwrap(), newer);
}
