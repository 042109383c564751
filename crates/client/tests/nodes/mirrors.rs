//! The mirror of each fragment's objects, on the next node: the same bytes on both nodes, whenever nothing is under
//! way.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use client::{Client, Contents, Names, ROOT, RequestId::New};
use model::Ino;
use wire::control::VolumeKind;
use wire::data::message::AllocateMode;
use wire::data::types::SetAttr;
use wire::node::{MirrorStatus, NamespaceTarget};

use crate::support::{Cluster, ME, pattern};

/// Longer than anything here is allowed to wait.
const BOUND: Duration = Duration::from_secs(30);

const KIB: u64 = 1024;

/// The names of all objects below a folder.
fn names(folder: &Path) -> BTreeSet<String> {
    let folders = fs::read_dir(folder).unwrap().map(|folder| folder.unwrap().path());
    let objects = folders.flat_map(|folder| fs::read_dir(folder).unwrap());
    objects.map(|object| object.unwrap().file_name().into_string().unwrap()).collect()
}

/// The bytes of an object. One without any is as good as none.
fn object(folder: &Path, name: &str) -> Vec<u8> {
    match fs::read(folder.join(&name[name.len() - 2..]).join(name)) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Vec::new(),
        bytes => bytes.unwrap(),
    }
}

/// What the objects of the files are called that have names.
fn alive(cluster: &Cluster) -> BTreeSet<String> {
    let entries = cluster.client().readdir(ROOT, 0).unwrap();
    entries.iter().map(|entry| format!("{:016x}", entry.attr.ino)).collect()
}

/// Node `n`'s objects, and what the next node has of them.
fn both(cluster: &Cluster, n: usize) -> [PathBuf; 2] {
    let next = (n + 1) % cluster.servers.len();
    let inside = |fragment: PathBuf| {
        let volume = fragment.join("volume");
        if fs::metadata(&volume).is_ok() { volume } else { fragment }
    };
    [inside(cluster.fragment(n)).join("objects/0"), inside(cluster.fragment(next)).join("mirror/0")]
}

fn assert_mirrored(cluster: &Cluster, what: &str) {
    let (alive, begun) = (alive(cluster), Instant::now());
    let mut bytes = 0;
    for n in 0..cluster.servers.len() {
        let [own, mirror] = both(cluster, n);
        for name in &alive {
            let contents = object(&own, name);
            assert!(
                object(&mirror, name) == contents,
                "{what}, node {n}: the copies of object {name} differ"
            );
            bytes += contents.len();
        }
        // What is removed goes in the background.
        while !names(&own).union(&names(&mirror)).all(|name| alive.contains(name)) {
            assert!(begun.elapsed() < BOUND, "{what}, node {n}: {:?} {:?}", names(&own), names(&mirror));
            std::thread::sleep(Duration::from_millis(10));
        }
    }
    assert!(bytes > 0, "{what}: there is something to be compared");
}

fn mirror_of(cluster: &Cluster, n: usize) -> Option<MirrorStatus> {
    let status = cluster.servers[n].fragments().pop()?;
    status.mirrors.into_iter().next()
}

fn await_mirror(cluster: &Cluster, n: usize, what: &str, is: impl Fn(&MirrorStatus) -> bool) {
    let begun = Instant::now();
    while !mirror_of(cluster, n).is_some_and(|mirror| is(&mirror)) {
        assert!(begun.elapsed() < BOUND, "{what}: {:?}", mirror_of(cluster, n));
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn await_whole(cluster: &Cluster, what: &str) {
    (0..cluster.servers.len()).for_each(|n| await_mirror(cluster, n, what, |mirror| mirror.whole));
}

fn restart(cluster: &mut Cluster, n: usize) {
    let address = cluster.target.nodes[n].tcp.clone();
    cluster.servers[n] = cluster.serve(n, &address);
}

fn make(client: &Client, name: &str) -> Ino {
    client.create(New, ROOT, name.as_bytes(), 0o644, &ME).unwrap().ino
}

/// Changes of every kind, in an order that the seed says, some of them over each other.
fn change(client: &Client, ino: Ino, seed: u64) {
    for step in 0..60 {
        let random = (seed * 61 + step).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 17;
        let (offset, len) = (random % (900 * KIB), 1 + random / 7 % (200 * KIB));
        match random % 11 {
            0 => {
                let size = Some(offset);
                let _changed = client.setattr(New, ino, &SetAttr { size, ..SetAttr::default() }).unwrap();
            }
            1 => client.allocate(ino, offset, len, AllocateMode::PunchHole).unwrap(),
            2 => client.allocate(ino, offset, len, AllocateMode::Zero).unwrap(),
            3 => client.allocate(ino, offset, len, AllocateMode::Grow).unwrap(),
            4 => client.fsync(ino).unwrap(),
            _ => {
                let bytes = pattern(usize::try_from(len).unwrap(), usize::try_from(random % 251).unwrap());
                client.write(ino, offset, &bytes).unwrap();
            }
        }
    }
}

/// Several clients at once change one file, and each of them some of its own.
fn work(target: &NamespaceTarget, round: u64) {
    let connect = || Client::connect(target).unwrap();
    let first = connect();
    let shared = make(&first, &format!("shared-{round}"));
    std::thread::scope(|scope| {
        for worker in 0..4 {
            scope.spawn(move || {
                let client = connect();
                client.open(shared, true).unwrap();
                change(&client, shared, round * 100 + worker);
                let own = make(&client, &format!("own-{round}-{worker}"));
                change(&client, own, round * 100 + 50 + worker);
                let gone = format!("gone-{round}-{worker}");
                let ino = make(&client, &gone);
                client.write(ino, 0, &pattern(300 << 10, 3)).unwrap();
                client.close(ino, true).unwrap();
                client.unlink(New, ROOT, gone.as_bytes()).unwrap();
                client.close(own, true).unwrap();
                client.close(shared, true).unwrap();
            });
        }
    });
    first.close(shared, true).unwrap();
}

fn volumes() -> &'static [VolumeKind] {
    match rustix::process::geteuid().is_root() {
        true => &[VolumeKind::Directory, VolumeKind::Image],
        false => &[VolumeKind::Directory],
    }
}

#[test]
fn every_change_that_was_answered_is_on_two_nodes() {
    for volume in volumes() {
        let cluster = Cluster::start_mirrored(*volume, 3, 384 << 20);
        for round in 0..4 {
            work(&cluster.target, round);
            assert_mirrored(&cluster, &format!("{volume:?}, round {round}"));
        }
        await_whole(&cluster, "nothing went wrong");
    }
}

#[test]
fn a_node_that_is_killed_while_others_write_has_both_copies_equal_again_when_it_is_back() {
    let mut cluster = Cluster::start_mirrored(VolumeKind::Directory, 3, 384 << 20);
    for round in 0..3 {
        let n = usize::try_from(round).unwrap();
        let target = cluster.target.clone();
        let working = std::thread::spawn(move || work(&target, round));
        std::thread::sleep(Duration::from_millis(50));
        cluster.servers[n].shutdown();
        restart(&mut cluster, n);
        working.join().unwrap();
        await_whole(&cluster, "both copies are equal again");
        assert_mirrored(&cluster, &format!("node {n} was away"));
    }
}

#[test]
fn without_the_mirror_work_goes_on_and_what_it_lacks_is_copied_when_it_is_back() {
    let mut cluster = Cluster::start_mirrored(VolumeKind::Directory, 2, 384 << 20);
    let client = cluster.client();
    // Stripes of the first 64 KiB are on the first node, whose mirror is on the second.
    let ino = make(&client, "file");
    client.write(ino, 0, &pattern(64 << 10, 1)).unwrap();
    await_whole(&cluster, "before");
    cluster.servers[1].shutdown();

    let begun = Instant::now();
    client.write(ino, 0, &pattern(60 << 10, 2)).unwrap();
    assert!(begun.elapsed() < BOUND, "a write waited for {:?}", begun.elapsed());
    let again = Instant::now();
    client.write(ino, 1, &pattern(50 << 10, 3)).unwrap();
    assert!(again.elapsed() < Duration::from_secs(2), "it is waited for once, not {:?}", again.elapsed());
    await_mirror(&cluster, 0, "at risk", |mirror| {
        !mirror.whole && mirror.mirror == "n1" && mirror.error.is_some() && mirror.making_ms.is_none()
    });
    let note = cluster.fragment(0).join("mirrored/0/meta.alone");
    assert!(fs::metadata(&note).is_ok(), "it is noted durably");

    restart(&mut cluster, 1);
    await_whole(&cluster, "up to date");
    assert!(fs::metadata(&note).is_err(), "the note is taken back");
    assert_mirrored(&cluster, "the mirror was away");
}

#[test]
fn a_mirror_that_is_being_made_with_its_buffer_is_not_said_to_lack_something() {
    let cluster = Cluster::start_mirrored(VolumeKind::Directory, 2, 384 << 20);
    for n in 0..2 {
        await_mirror(&cluster, n, "it is whole at last", |mirror| {
            assert!(mirror.whole != mirror.making_ms.is_some(), "{mirror:?}");
            mirror.whole
        });
    }
}

#[test]
fn a_mirror_that_lost_its_power_or_its_bytes_is_made_anew() {
    let mut cluster = Cluster::start_mirrored(VolumeKind::Directory, 2, 384 << 20);
    work(&cluster.target, 1);
    await_whole(&cluster, "before");
    cluster.servers[1].shutdown();
    fs::remove_file(cluster.fragment(1).join("verifier.json")).unwrap();
    let [_, mirror] = both(&cluster, 0);
    for folder in fs::read_dir(&mirror).unwrap() {
        for object in fs::read_dir(folder.unwrap().path()).unwrap() {
            fs::write(object.unwrap().path(), b"what a power loss has left").unwrap();
        }
    }
    await_mirror(&cluster, 0, "away", |mirror| !mirror.whole);
    restart(&mut cluster, 1);
    await_whole(&cluster, "made anew");
    assert_mirrored(&cluster, "the mirror lost its power");
}

#[test]
fn a_mirror_is_filled_beside_files_that_are_written_all_the_time() {
    let mut cluster = Cluster::start_mirrored(VolumeKind::Directory, 2, 384 << 20);
    let client = cluster.client();
    let ino = make(&client, "busy");
    let target = cluster.target.clone();
    let (ends, opened) = (AtomicBool::new(false), Barrier::new(9));
    await_whole(&cluster, "before");
    std::thread::scope(|scope| {
        for worker in 0..8 {
            let (target, ends, opened) = (&target, &ends, &opened);
            scope.spawn(move || {
                let client = Client::connect(target).unwrap();
                client.open(ino, true).unwrap();
                opened.wait();
                // Overlapping halves of one stripe, which the first node has.
                let bytes = pattern(40 << 10, worker);
                while !ends.load(Ordering::Relaxed) {
                    client.write(ino, (worker as u64 % 3) * 8 * KIB, &bytes).unwrap();
                }
                client.close(ino, true).unwrap();
            });
        }
        opened.wait();
        cluster.lose_power(1);
        let begun = Instant::now();
        let is_whole = |n| mirror_of(&cluster, n).is_some_and(|mirror| mirror.whole);
        while begun.elapsed() < BOUND && !(is_whole(0) && is_whole(1)) {
            std::thread::sleep(Duration::from_millis(10));
        }
        let status = mirror_of(&cluster, 0);
        ends.store(true, Ordering::Relaxed);
        assert!(begun.elapsed() < BOUND, "it is filled while they write: {status:?}");
    });
    assert_mirrored(&cluster, "beside writers");
}
