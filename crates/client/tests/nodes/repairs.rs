//! Something is damaged on one of the two nodes that have it: it is repaired from the other, and nobody notices.

use std::fs;
use std::io::ErrorKind::NotFound;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use client::{Client, Contents, Names, ROOT, RequestId::New};
use model::{Ino, InstanceId};
use rustix::io::Errno;
use wire::{control::VolumeKind, data::types::SetAttr, node::FsckSpec};

use crate::restored::{
    BYTES, DAMAGES, Damage, await_mirrors, cut_off, flip, mirror, read, remove, scrub, wait_until, write,
};
use crate::support::{Cluster, pattern};

/// Where node `n`'s object of a file is.
pub fn primary(cluster: &Cluster, n: usize, ino: Ino) -> PathBuf {
    cluster.fragment(n).join(format!("objects/0/{:02x}/{ino:016x}", ino.to_le_bytes()[0]))
}

/// Node `n` stops, `act` is done to its disk, and it is started again.
pub fn while_stopped(cluster: &mut Cluster, n: usize, act: impl FnOnce(&Cluster)) {
    cluster.servers[n].shutdown();
    act(cluster);
    let tcp = cluster.target.nodes[n].tcp.clone();
    cluster.servers[n] = cluster.serve(n, &tcp);
}

/// Two nodes that mirror each other, and these files, at rest on both.
fn at_rest(names: &[&str]) -> (Cluster, Vec<Ino>) {
    let cluster = Cluster::start_mirrored(VolumeKind::Directory, 2, 64 << 20);
    let client = cluster.client();
    let inos = names.iter().enumerate().map(|(k, name)| write(&client, name, BYTES, k)).collect();
    client.sync_metadata().unwrap();
    await_mirrors(&cluster);
    seal(&cluster);
    (cluster, inos)
}

pub fn seal(cluster: &Cluster) {
    for n in 0..cluster.servers.len() {
        assert_eq!(scrub(cluster, n).damaged, []);
    }
}

/// What node `n` has repaired, and what it knows to be damaged still.
fn told(cluster: &Cluster, n: usize) -> (u64, u64) {
    let status = cluster.servers[n].fragments().remove(0);
    (status.mirrors.iter().map(|mirror| mirror.repaired).sum(), status.integrity.damaged)
}

/// The first bytes of what node 0 has of a file, and where they are in it.
fn on_first_node(client: &Client, ino: Ino) -> client::Result<(u64, Vec<u8>)> {
    let is_there = |at: &u64| client.place(ino, *at, 1).is_some_and(|(fragment, _)| fragment == 0.into());
    let at = (0..BYTES as u64).step_by(65536).find(is_there).unwrap();
    let mut bytes = vec![0; 8192];
    client.read(ino, at, &mut bytes).map(|read| (at, bytes[..read].to_vec()))
}

#[test]
fn what_is_damaged_is_read_from_the_mirror_and_repaired_whatever_happened_to_it() {
    let (mut cluster, inos) = at_rest(&DAMAGES.map(|(name, _)| name));
    let were: Vec<Vec<u8>> = inos.iter().map(|ino| fs::read(primary(&cluster, 0, *ino)).unwrap()).collect();
    let times = |cluster: &Cluster| -> Vec<_> {
        inos.iter().map(|ino| cluster.client().getattr(*ino).unwrap().mtime).collect()
    };
    let before = times(&cluster);
    while_stopped(&mut cluster, 0, |cluster| {
        DAMAGES.iter().zip(&inos).for_each(|((_, damage), ino)| damage(&primary(cluster, 0, *ino)));
    });
    await_mirrors(&cluster);
    for (k, ((name, _), ino)) in DAMAGES.iter().zip(&inos).enumerate() {
        assert!(read(&cluster.client(), *ino, BYTES) == Ok(pattern(BYTES, k)), "{name}");
        assert!(
            fs::read(primary(&cluster, 0, *ino)).unwrap() == were[k],
            "{name}: it is good again on the disk"
        );
    }
    assert_eq!(times(&cluster), before);
    let (repaired, damaged) = told(&cluster, 0);
    assert!(repaired >= inos.len() as u64 && damaged == 0, "{repaired} were repaired, {damaged} are damaged");
    seal(&cluster);
}

#[test]
fn a_scrub_repairs_what_is_damaged_on_either_node() {
    let (mut cluster, inos) = at_rest(&DAMAGES.map(|(name, _)| name));
    for n in [0, 1] {
        // What node 0 has, there and in its mirror.
        let object = if n == 0 { primary } else { |cluster: &Cluster, _, ino| mirror(cluster, 0, ino) };
        let were: Vec<Vec<u8>> =
            inos.iter().map(|ino| fs::read(object(&cluster, 0, *ino)).unwrap()).collect();
        for stopped in [true, false] {
            let damage = |cluster: &Cluster| {
                DAMAGES.iter().zip(&inos).for_each(|((_, damage), ino)| damage(&object(cluster, 0, *ino)));
            };
            match stopped {
                true => while_stopped(&mut cluster, n, damage),
                false => damage(&cluster),
            }
            await_mirrors(&cluster);
            let before = told(&cluster, n).0;
            let status = scrub(&cluster, n);
            assert_eq!((status.damaged, status.error), (vec![], None), "node {n}, stopped: {stopped}");
            // What a node that was started again is sent as a whole, or sends, is repaired on the way.
            let found = told(&cluster, n).0 - before;
            assert!(stopped || (found, status.repaired) == (4, 4), "{found} and {} on {n}", status.repaired);
            for ((name, _), (ino, was)) in DAMAGES.iter().zip(inos.iter().zip(&were)) {
                assert!(fs::read(object(&cluster, 0, *ino)).unwrap() == *was, "{name}, node {n}, {stopped}");
            }
            await_mirrors(&cluster);
            seal(&cluster);
        }
    }
}

#[test]
fn a_write_beside_damage_and_a_truncation_within_it_repair_it_first() {
    let (mut cluster, inos) = at_rest(&["written", "cut", "gone"]);
    while_stopped(&mut cluster, 0, |cluster| {
        flip(&primary(cluster, 0, inos[0]));
        flip(&primary(cluster, 0, inos[1]));
        remove(&primary(cluster, 0, inos[2]));
    });
    await_mirrors(&cluster);
    let client = cluster.client();
    let mut expected = pattern(BYTES, 0);
    for ino in &inos {
        client.open(*ino, true).unwrap();
    }
    client.write(inos[0], 6000, b"beside it").unwrap();
    expected[6000..6009].copy_from_slice(b"beside it");
    assert!(read(&client, inos[0], BYTES) == Ok(expected));
    let cut = SetAttr { size: Some(5500), ..SetAttr::default() };
    let _changed = client.setattr(New, inos[1], &cut).unwrap();
    assert!(read(&client, inos[1], BYTES) == Ok(pattern(5500, 1)));
    client.write(inos[2], 1, b"x").unwrap();
    let mut expected = pattern(BYTES, 2);
    expected[1] = b'x';
    assert!(read(&client, inos[2], BYTES) == Ok(expected));
    inos.iter().for_each(|ino| client.close(*ino, true).unwrap());
    seal(&cluster);
}

#[test]
fn nothing_is_repaired_from_a_mirror_that_is_damaged_there_or_has_older_bytes_or_is_away() {
    let (mut cluster, inos) = at_rest(&["both", "older", "away"]);
    // The mirror has what was there before, which matches what it was sealed as.
    let old = fs::read(mirror(&cluster, 0, inos[1])).unwrap();
    let client = cluster.client();
    client.open(inos[1], true).unwrap();
    client.write(inos[1], 0, &pattern(BYTES, 77)).unwrap();
    client.close(inos[1], true).unwrap();
    seal(&cluster);
    fs::File::options()
        .write(true)
        .open(mirror(&cluster, 0, inos[1]))
        .unwrap()
        .write_all_at(&old, 0)
        .unwrap();
    flip(&mirror(&cluster, 0, inos[0]));
    inos.iter().for_each(|ino| flip(&primary(&cluster, 0, *ino)));

    for ino in &inos[..2] {
        assert_eq!(on_first_node(&client, *ino), Err(Errno::IO));
    }
    let status = scrub(&cluster, 0);
    assert_eq!((status.damaged.len(), told(&cluster, 0).1), (2, 2), "{:?}", status.damaged);
    flip(&primary(&cluster, 0, inos[2]));
    cluster.servers[1].shutdown();
    assert_eq!(on_first_node(&client, inos[2]), Err(Errno::IO));
    let tcp = cluster.target.nodes[1].tcp.clone();
    cluster.servers[1] = cluster.serve(1, &tcp);
    let (at, bytes) = on_first_node(&client, inos[2]).unwrap();
    assert!(bytes == pattern(BYTES, 2)[usize::try_from(at).unwrap()..][..8192]);
    // What was written anew is good again, on both nodes.
    for ino in &inos[..2] {
        client.open(*ino, true).unwrap();
        client.write(*ino, 0, &pattern(BYTES, 3)).unwrap();
        client.close(*ino, true).unwrap();
    }
    await_mirrors(&cluster);
    seal(&cluster);
    assert_eq!(client.lookup(ROOT, b"both").unwrap().ino, inos[0]);
}

#[test]
fn an_object_that_is_cut_off_while_somebody_writes_elsewhere_into_it_gets_nothing_old_back() {
    let (mut cluster, inos) = at_rest(&["file"]);
    while_stopped(&mut cluster, 0, |cluster| cut_off(&primary(cluster, 0, inos[0])));
    await_mirrors(&cluster);
    let client = cluster.client();
    client.open(inos[0], true).unwrap();
    let mut expected = pattern(BYTES, 0);
    for (round, at) in [(1_usize, 0), (2, 300_000), (3, 5_000), (4, 299_000)] {
        client.write(inos[0], at as u64, &pattern(3_000, round)).unwrap();
        expected[at..at + 3_000].copy_from_slice(&pattern(3_000, round));
        assert!(read(&client, inos[0], BYTES).as_ref() == Ok(&expected), "round {round}");
    }
    client.close(inos[0], true).unwrap();
    seal(&cluster);
    assert!(read(&cluster.client(), inos[0], BYTES) == Ok(expected));
}

/// Nodes that stop one after the other; `act` is done to their disks, and all are started again.
fn while_all_stopped(cluster: &mut Cluster, act: impl FnOnce(&Cluster)) {
    cluster.servers.iter().for_each(|server| server.shutdown());
    act(cluster);
    for n in (0..cluster.servers.len()).rev() {
        let tcp = cluster.target.nodes[n].tcp.clone();
        cluster.servers[n] = cluster.serve(n, &tcp);
    }
}

pub fn flip_at(object: &Path, at: u64) {
    let file = fs::File::options().read(true).write(true).open(object).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).unwrap();
    file.write_all_at(&[byte[0] ^ 4], at).unwrap();
}

/// The log of seals is lost.
const LOG_LOSSES: [Damage; 2] = [("gone", remove), ("flipped", |log| flip_at(log, 60))];

#[test]
fn what_lost_its_checksums_here_is_had_from_the_mirror_and_never_put_over_it() {
    for (how, lose_log) in LOG_LOSSES {
        let (mut cluster, inos) = at_rest(&DAMAGES.map(|(name, _)| name));
        let objects = |cluster: &Cluster| -> Vec<Vec<u8>> {
            let paths = inos.iter().flat_map(|ino| [primary(cluster, 0, *ino), mirror(cluster, 0, *ino)]);
            paths.map(|path| fs::read(path).unwrap_or_default()).collect()
        };
        let were = objects(&cluster);
        while_stopped(&mut cluster, 0, |cluster| {
            lose_log(&cluster.fragment(0).join("sums/0.log"));
            DAMAGES.iter().zip(&inos).for_each(|((_, damage), ino)| damage(&primary(cluster, 0, *ino)));
        });
        await_mirrors(&cluster);
        for (k, ((name, _), ino)) in DAMAGES.iter().zip(&inos).enumerate() {
            assert!(read(&cluster.client(), *ino, BYTES) == Ok(pattern(BYTES, k)), "{how}: {name}");
        }
        assert!(objects(&cluster) == were, "{how}: all copies are what they were");
        let status = scrub(&cluster, 0);
        assert_eq!((status.damaged, status.unverified, status.seals_lost), (vec![], vec![], None), "{how}");
        assert_eq!(cluster.servers[0].fragments().remove(0).integrity.seals_lost, None, "{how}");
    }
}

#[test]
fn where_nobody_can_tell_which_copy_is_good_neither_is_put_over_the_other() {
    let (mut cluster, inos) = at_rest(&["flipped", "removed", "other"]);
    let mirrored: Vec<Vec<u8>> =
        inos.iter().map(|ino| fs::read(mirror(&cluster, 0, *ino)).unwrap()).collect();
    // The first node is alone, and answers changes that its mirror lacks: of any file, for all that it knows then.
    cluster.servers[1].shutdown();
    let client = cluster.client();
    client.open(inos[2], true).unwrap();
    let is_there = |at: &u64| client.place(inos[2], *at, 1).is_some_and(|(n, _)| n == 0.into());
    let at = (0..BYTES as u64).step_by(65536).find(is_there).unwrap();
    client.write(inos[2], at, b"alone").unwrap();
    drop(client);
    while_all_stopped(&mut cluster, |cluster| {
        remove(&cluster.fragment(0).join("sums/0.log"));
        flip(&primary(cluster, 0, inos[0]));
        remove(&primary(cluster, 0, inos[1]));
    });
    let flipped = fs::read(primary(&cluster, 0, inos[0])).unwrap();
    let is_named = || {
        let mirrors = cluster.servers[0].fragments().remove(0).mirrors;
        let is_named = |error: &String| error.contains("checksums were lost");
        mirrors.iter().any(|mirror| !mirror.whole && mirror.error.as_ref().is_some_and(is_named))
    };
    wait_until("status says that the mirror is not whole, and why", is_named);
    for ino in &inos[..2] {
        let status = scrub(&cluster, 0);
        let named: Vec<Ino> = status.damaged.iter().chain(&status.unverified).map(|one| one.ino).collect();
        assert!(named.contains(ino), "{named:?}");
    }
    assert_eq!(on_first_node(&cluster.client(), inos[1]), Err(Errno::IO));
    assert!(fs::read(primary(&cluster, 0, inos[0])).unwrap() == flipped);
    for (ino, was) in inos.iter().zip(&mirrored) {
        assert!(fs::read(mirror(&cluster, 0, *ino)).unwrap() == *was, "the mirror is what it was");
    }
    // What is removed, and what a person takes as it is, is in nobody's way any more.
    cluster.client().unlink(New, ROOT, b"removed").unwrap();
    drop(cluster.servers[0].fsck(&InstanceId::literal("i1"), FsckSpec { repair: true }).unwrap());
    await_mirrors(&cluster);
    assert!(fs::read(mirror(&cluster, 0, inos[0])).unwrap() == flipped);
}

#[test]
fn copies_that_are_damaged_in_different_places_repair_each_other_and_no_damage_is_taken_for_good() {
    let (mut cluster, inos) = at_rest(&["crosswise", "both"]);
    let were: Vec<Vec<u8>> = inos.iter().map(|ino| fs::read(primary(&cluster, 0, *ino)).unwrap()).collect();
    while_all_stopped(&mut cluster, |cluster| {
        flip_at(&primary(cluster, 0, inos[0]), 5000);
        flip_at(&mirror(cluster, 0, inos[0]), 10);
        cut_off(&primary(cluster, 0, inos[1]));
        remove(&mirror(cluster, 0, inos[1]));
    });
    let named = |n| -> Vec<Ino> { scrub(&cluster, n).damaged.iter().map(|one| one.ino).collect() };
    wait_until("node 0 is served", || !cluster.servers[0].fragments()[0].starting);
    wait_until("the mirror's object is gone, and only that is wrong there", || named(1) == [inos[1]]);
    for _ in 0..2 {
        assert_eq!((named(0), named(1)), (vec![inos[1]], vec![inos[1]]), "neither is taken for good");
    }
    assert!(read(&cluster.client(), inos[0], BYTES) == Ok(pattern(BYTES, 0)));
    for object in [primary(&cluster, 0, inos[0]), mirror(&cluster, 0, inos[0])] {
        assert!(fs::read(&object).unwrap() == were[0], "{}", object.display());
    }
    assert_eq!(on_first_node(&cluster.client(), inos[1]), Err(Errno::IO));
    let object = fs::metadata(mirror(&cluster, 0, inos[1]));
    assert!(object.is_err_and(|error| error.kind() == NotFound), "there are no zeros that look good");
}

#[test]
fn a_file_that_lies_among_the_folders_of_a_mirror_is_named_and_in_nobodys_way() {
    let (mut cluster, inos) = at_rest(&["file"]);
    while_stopped(&mut cluster, 1, |cluster| {
        for objects in ["mirror/0/README", "objects/0/README"] {
            fs::write(cluster.fragment(1).join(objects), b"what is this?").unwrap();
        }
    });
    await_mirrors(&cluster);
    assert!(read(&cluster.client(), inos[0], BYTES) == Ok(pattern(BYTES, 0)));
    let report = cluster.servers[1].fsck(&InstanceId::literal("i1"), FsckSpec::default()).unwrap();
    let named: Vec<&Path> = report.strays.iter().map(|stray| stray.path.as_path()).collect();
    for objects in ["mirror/0/README", "objects/0/README"] {
        assert!(named.iter().any(|path| path.ends_with(objects)), "{named:?}");
    }
}

#[test]
fn a_note_of_a_mirror_that_is_damaged_is_named_and_kept() {
    let (mut cluster, inos) = at_rest(&["file"]);
    let note = cluster.fragment(1).join("mirrors/0.json");
    let was = fs::read(&note).unwrap();
    let error = |cluster: &Cluster| cluster.servers[1].fragments()[0].error.clone();
    while_stopped(&mut cluster, 1, |_| fs::write(&note, "{}").unwrap());
    wait_until("it is refused", || error(&cluster).is_some());
    let error = error(&cluster).unwrap();
    assert!(error.contains(note.to_str().unwrap()) && error.contains("missing field"), "{error}");
    assert_eq!(fs::read(&note).unwrap(), b"{}");
    while_stopped(&mut cluster, 1, |_| fs::write(&note, &was).unwrap());
    await_mirrors(&cluster);
    assert!(read(&cluster.client(), inos[0], BYTES) == Ok(pattern(BYTES, 0)));
}
