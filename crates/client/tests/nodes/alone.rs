//! A node has confirmed what its mirror lacks: nothing of that gives its place to what the mirror has.

use std::fs;
use std::time::Duration;

use client::{Contents, Names};
use model::Ino;
use rustix::fs::{CWD, RenameFlags};
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
    is_tried_again(&cluster, ino, &note.to_string_lossy(), || fs::remove_dir(&note).unwrap());
}

#[test]
fn a_part_whose_numbers_of_meetings_cannot_be_read_is_named_waited_for_and_tried_again() {
    let (mut cluster, ino) = alone();
    let numbers = cluster.fragment(0).join("mirrored/0/meetings.json");
    let kept = numbers.with_extension("kept");
    fs::rename(&numbers, &kept).unwrap();
    fs::create_dir(&numbers).unwrap();
    for n in [1, 0] {
        let tcp = cluster.target.nodes[n].tcp.clone();
        cluster.servers[n] = cluster.serve(n, &tcp);
    }
    is_tried_again(&cluster, ino, "Is a directory", || {
        // At once: a part without numbers is another matter.
        let (kept, numbers) = (kept.as_path(), numbers.as_path());
        rustix::fs::renameat_with(CWD, kept, CWD, numbers, RenameFlags::EXCHANGE).unwrap();
    });
}

/// The first node refuses its part by name, and tries it again: whoever uses it only waits until it can be read.
fn is_tried_again(cluster: &Cluster, ino: Ino, name: &str, mend: impl FnOnce()) {
    std::thread::scope(|scope| {
        let reading = scope.spawn(|| read(&cluster.client(), ino, BYTES));
        std::thread::sleep(Duration::from_secs(1));
        let status = cluster.servers[0].fragments().remove(0);
        assert!(status.error.is_some_and(|error| error.contains(name)), "it is refused by name");
        assert!(status.retried && !reading.is_finished(), "whoever uses it has given up");
        mend();
        assert!(reading.join().unwrap() == Ok(pattern(BYTES, 2)), "what was confirmed alone");
    });
    wait_until("it is tried again", || cluster.servers[0].fragments()[0].error.is_none());
    await_mirrors(cluster);
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
