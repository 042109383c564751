//! Buffers whose files are on two nodes: what a user and an operator see while one of the nodes is away.

use std::fs;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

use tests::cluster::Cluster;
use tests::processes::wait_until_told;

/// Longer than anything here takes on a busy machine.
const SOON: Duration = Duration::from_secs(40);

/// A node that falls silent is waited for once, 5 s.
const TWICE_WAITED: Duration = Duration::from_secs(9);

/// Before another user's write, the kernel asks for the file's attributes, and how long an open file is, all its nodes
/// have to say: the write waits for the one that is away.
mod root_only {
    use super::*;

    #[test]
    fn with_a_mirror_writing_goes_on_without_a_node_and_status_says_what_is_at_risk_until_it_is_back() {
        let cluster = Cluster::new();
        let path = cluster.pfs("mnt");
        let text = path.to_str().unwrap();
        cluster
            .forebay(&["mount", text, "--capacity", "128MiB", "--nodes", "2", "--mirror"])
            .expect_success();
        let says = |words: &str| cluster.forebay(&["status"]).expect_success().stdout.contains(words);
        let instance = || cluster.status()["sessions"][0]["instance"].clone();
        assert!(
            wait_until_told(SOON, || says("data: two copies, which take 256 MiB of the pool")),
            "{}",
            instance()
        );
        assert_eq!(instance()["redundancy"], "mirror");

        // Its first part is on node n0, the mirror of which is on node n1.
        let file = fs::File::create_new(path.join("file")).unwrap();
        file.write_all_at(&[1; 4096], 0).unwrap();
        let stopped = cluster.process("forebay-node", "n1").stop();
        let begun = Instant::now();
        file.write_all_at(&[2; 4096], 0).unwrap();
        assert!(begun.elapsed() < TWICE_WAITED, "a write waited for {:?}", begun.elapsed());
        file.write_all_at(&[3; 2048], 2048).unwrap();
        assert!(wait_until_told(SOON, || says(
            "data AT RISK: what node n0 has is not all on its mirror, node n1"
        )));
        drop(stopped);
        assert!(wait_until_told(SOON, || says("data: two copies")), "{}", instance());
        let mut bytes = [0; 4096];
        file.read_exact_at(&mut bytes, 0).unwrap();
        assert!(bytes[..2048] == [2; 2048] && bytes[2048..] == [3; 2048]);
        drop(file);
        cluster.forebay(&["umount", text]).expect_success();
    }
}

#[test]
fn a_mirror_is_refused_where_there_can_be_none() {
    let cluster = Cluster::new();
    let path = cluster.pfs("mnt");
    let text = path.to_str().unwrap();
    let refused = |more: &[&str]| {
        let arguments = [&["mount", text, "--capacity", "64MiB", "--mirror"], more].concat();
        let outcome = cluster.forebay(&arguments);
        assert_ne!(outcome.code(), 0, "{}", outcome.stdout);
        outcome.stderr
    };
    let alone = refused(&[]);
    assert!(alone.contains("keeps each byte on two nodes") && alone.contains("--nodes 2"), "{alone}");
    let private = refused(&["--nodes", "2", "--access-mode", "private"]);
    assert!(private.contains("not possible with access_mode=private"), "{private}");
}
