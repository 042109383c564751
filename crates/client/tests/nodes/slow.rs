//! A mirror's disk that is slow: its node lives, and is waited for.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};

use client::{Contents, Names, ROOT, RequestId::New};
use wire::control::VolumeKind;
use wire::data::Request;

use crate::doubted::meetings;
use crate::keeper::{Keeper, empty_mirror};
use crate::restored::await_mirrors;
use crate::support::{Cluster, ME, pattern};

/// Longer than a node may be silent.
const SYNC_TAKES: Duration = Duration::from_secs(7);

#[test]
fn a_sync_that_the_mirror_takes_long_for_is_no_silence_of_its_node() {
    let mut cluster = Cluster::start_mirrored(VolumeKind::Directory, 2, 64 << 20);
    await_mirrors(&cluster);
    cluster.servers.iter().for_each(|server| server.shutdown());
    let met = AtomicU64::new(meetings(&cluster.fragment(1), None));
    let answer = move |request: &Request| {
        if matches!(request, Request::SyncMany { .. }) {
            std::thread::sleep(SYNC_TAKES);
        }
        Some((empty_mirror(request, &met), Vec::new()))
    };
    let _slow = Keeper::start(&cluster.target.nodes[1].tcp, Arc::new(answer));
    let tcp = cluster.target.nodes[0].tcp.clone();
    cluster.servers[0] = cluster.serve(0, &tcp);
    let client = cluster.client();
    let ino = client.create(New, ROOT, b"file", 0o644, &ME).unwrap().ino;
    // On the first node.
    client.write(ino, 0, &pattern(60 << 10, 1)).unwrap();
    let begun = Instant::now();
    client.fsync(ino).unwrap();
    assert!(begun.elapsed() >= SYNC_TAKES, "its mirror is not waited for: {:?}", begun.elapsed());
    let alone = cluster.fragment(0).join("mirrored/0/meta.alone");
    let absent = std::fs::metadata(alone).unwrap_err().kind();
    assert_eq!(absent, std::io::ErrorKind::NotFound, "it is taken for silent");
}
