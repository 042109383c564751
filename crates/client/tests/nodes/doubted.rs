//! A node has lost its checksums, and its mirror comes later than who wants to read.

use std::time::Duration;

use client::{Client, Contents, Names};
use model::Ino;
use wire::control::VolumeKind;

use crate::repairs::{flip_at, primary, seal, while_stopped};
use crate::restored::{BYTES, DAMAGES, await_mirrors, remove, write};
use crate::support::{Cluster, pattern};

/// A file that is written to while it is in doubt, beside those that are damaged.
const WRITTEN: usize = DAMAGES.len();

/// Where the first bytes that node 1 has of a file are in it.
fn own(client: &Client, ino: Ino) -> u64 {
    let is_there = |at: &u64| client.place(ino, *at, 1).is_some_and(|(fragment, _)| fragment == 1);
    (0..BYTES as u64).step_by(65536).find(is_there).unwrap()
}

/// A buffer with files that are damaged on node 1, which has lost its checksums, and whose mirror's node is stopped.
fn in_doubt() -> (Cluster, Vec<Ino>) {
    let mut cluster = Cluster::start_mirrored(VolumeKind::Directory, 3, 64 << 20);
    let client = cluster.client();
    let names = DAMAGES.iter().map(|(name, _)| *name).chain(["written"]).enumerate();
    let inos: Vec<Ino> = names.map(|(k, name)| write(&client, name, BYTES, k)).collect();
    client.sync_metadata().unwrap();
    await_mirrors(&cluster);
    seal(&cluster);
    cluster.servers[2].shutdown();
    // It has no metadata, and is served before its mirror is there.
    while_stopped(&mut cluster, 1, |cluster| {
        remove(&cluster.fragment(1).join("sums/0.log"));
        DAMAGES.iter().zip(&inos).for_each(|((_, damage), ino)| damage(&primary(cluster, 1, *ino)));
        flip_at(&primary(cluster, 1, inos[WRITTEN]), 5000);
    });
    (cluster, inos)
}

#[test]
fn what_lost_its_checksums_is_compared_with_its_mirror_before_anybody_gets_its_bytes() {
    let (mut cluster, inos) = in_doubt();
    let client = cluster.client();
    client.open(inos[WRITTEN], true).unwrap();
    let uses = |k: usize| {
        let (ino, at) = (inos[k], own(&client, inos[k]));
        let mut expected = pattern(BYTES, k)[usize::try_from(at).unwrap()..][..8192].to_vec();
        if k == WRITTEN {
            client.write(ino, at, b"anew").unwrap();
            expected[..4].copy_from_slice(b"anew");
        }
        let mut bytes = vec![0; 8192];
        let read = client.read(ino, at, &mut bytes).unwrap();
        assert!(bytes[..read] == expected, "file {k}");
    };
    std::thread::scope(|scope| {
        let uses = &uses;
        (0..inos.len()).for_each(|k| drop(scope.spawn(move || uses(k))));
        // Long enough for who does not wait to be answered.
        std::thread::sleep(Duration::from_millis(300));
        let tcp = cluster.target.nodes[2].tcp.clone();
        cluster.servers[2] = cluster.serve(2, &tcp);
    });
    await_mirrors(&cluster);
    client.close(inos[WRITTEN], true).unwrap();
    seal(&cluster);
}
