//! A node has confirmed what its mirror lacks: nothing of that gives its place to what the mirror has.

use std::fs;
use std::time::Duration;

use client::{Contents, Names};
use model::Ino;
use wire::control::VolumeKind;

use crate::restored::{await_mirrors, read, wait_until, write};
use crate::support::{Cluster, pattern};

const BYTES: usize = 60 << 10;

/// Both nodes stopped, the second first: its mirror lacks what the first has of this file.
fn alone() -> (Cluster, Ino) {
    let cluster = Cluster::start_mirrored(VolumeKind::Directory, 2, 64 << 20);
    let client = cluster.client();
    // On the first node, whose mirror is on the second.
    let ino = write(&client, "file", BYTES, 1);
    client.sync_metadata().unwrap();
    await_mirrors(&cluster);
    cluster.servers[1].shutdown();
    client.open(ino, true).unwrap();
    client.write(ino, 0, &pattern(BYTES, 2)).unwrap();
    client.close(ino, true).unwrap();
    drop(client);
    cluster.servers[0].shutdown();
    (cluster, ino)
}

#[test]
fn a_note_of_what_is_to_be_restored_that_cannot_be_read_is_named_and_restores_nothing() {
    let (mut cluster, ino) = alone();
    // What is in the place of the note cannot be read, for a while.
    let note = cluster.fragment(0).join("restoring");
    fs::create_dir(&note).unwrap();
    for n in [1, 0] {
        let tcp = cluster.target.nodes[n].tcp.clone();
        cluster.servers[n] = cluster.serve(n, &tcp);
    }
    std::thread::sleep(Duration::from_secs(1));
    let status = cluster.servers[0].fragments().remove(0);
    assert!(status.retried && status.error.is_some_and(|error| error.contains(&*note.to_string_lossy())));
    fs::remove_dir(&note).unwrap();
    wait_until("it is tried again", || cluster.servers[0].fragments()[0].error.is_none());
    await_mirrors(&cluster);
    assert!(read(&cluster.client(), ino, BYTES) == Ok(pattern(BYTES, 2)), "what was confirmed alone");
}

#[test]
fn a_part_that_is_alone_is_not_filled_from_its_mirror_whatever_is_noted() {
    let (mut cluster, ino) = alone();
    let note = cluster.fragment(0).join("restoring");
    fs::write(&note, b"").unwrap();
    let start = |cluster: &mut Cluster, n: usize| {
        let tcp = cluster.target.nodes[n].tcp.clone();
        cluster.servers[n] = cluster.serve(n, &tcp);
    };
    start(&mut cluster, 1);
    start(&mut cluster, 0);
    wait_until("it is refused by name", || {
        cluster.servers[0].fragments()[0].error.as_ref().is_some_and(|error| error.contains("answered here"))
    });
    cluster.servers[0].shutdown();
    fs::remove_file(&note).unwrap();
    start(&mut cluster, 0);
    await_mirrors(&cluster);
    assert!(read(&cluster.client(), ino, BYTES) == Ok(pattern(BYTES, 2)), "what was confirmed alone");
}
