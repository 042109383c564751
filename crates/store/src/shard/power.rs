//! A shard on a disk that fails and loses power at any operation: while it changes, syncs, and replaces its log.

pub mod disk;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use model::{Ino, SessionId};
use wire::data::{Creator, ROOT};

use super::fixture::Parts;
use super::*;
use disk::{Disk, SimFolder, Trouble};

fn open(folder: &SimFolder, expect: Expect) -> Result<Arc<Shard>, LogError> {
    let fragment = tempfile::tempdir().unwrap();
    let Parts { namespace, objects, peers } = Parts::new(fragment.path(), 2);
    let shard = Shard::over(Arc::new(folder.clone()), &namespace, expect, objects, peers)?;
    // Its threads come at moments that no seed repeats.
    shard.close();
    Ok(shard)
}

/// What clients were told.
#[derive(Debug, Default)]
struct Told {
    /// Files that are there, with their inodes.
    made: BTreeMap<String, Ino>,
    /// Those whose fsync was confirmed.
    synced: BTreeSet<String>,
    /// Every number that any file had.
    numbers: BTreeSet<Ino>,
}

fn create(shard: &Shard, id: u64, told: &Mutex<Told>) -> bool {
    let name = format!("file-{id}");
    let creator = Creator { uid: 7, gid: 8, umask: 0 };
    let request = Request::Create { parent: ROOT, name: name.clone().into(), mode: 0o600, creator };
    match shard.handle(Caller::new(SessionId([3; 16]), id), request) {
        Reply::Made { inode, .. } | Reply::Inode(inode) => {
            let mut told = told.lock().unwrap();
            assert!(told.numbers.insert(inode.attr.ino), "{name} has the number of another file");
            told.made.insert(name, inode.attr.ino);
            true
        }
        Reply::Failed(_) => false,
        other => panic!("{other:?}"),
    }
}

fn fsync(shard: &Shard, told: &Mutex<Told>) {
    let before: Vec<String> = told.lock().unwrap().made.keys().cloned().collect();
    if shard.handle(Caller::new(SessionId([3; 16]), 0), Request::SyncMetadata) == Reply::Done {
        told.lock().unwrap().synced.extend(before);
    }
}

/// Every name that must be there is, with its number.
fn check<'a>(shard: &Shard, names: impl Iterator<Item = &'a String>, told: &Told, what: &str) {
    let state = shard.lock();
    for name in names {
        let found = names::lookup(&state.tree, ROOT, name.as_bytes()).ok();
        assert_eq!(found, told.made.get(name).copied(), "{name} was {what}");
    }
}

/// Changes, syncs and replacements of the log, one after the other, until the end or until the log takes no more.
fn work(shard: &Shard, first: u64, told: &Mutex<Told>) {
    for id in first..first + 12 {
        create(shard, id, told);
        match id % 6 {
            1 | 4 => fsync(shard, told),
            2 => drop(shard.replace_log()),
            _ => {}
        }
    }
    fsync(shard, told);
}

/// Two lives of a shard on a disk with trouble at the operation `at`, and a third on what is left. Whether the trouble
/// came.
fn lives(seed: u64, at: u64, trouble: Trouble) -> bool {
    let told = Mutex::new(Told::default());
    let disk = Disk::new(seed * 0x9e37_79b9 + 1, Some((at, trouble)));
    let mut folder = SimFolder::over(disk);
    let mut came = false;
    for life in 0..3 {
        let expect = if told.lock().unwrap().numbers.is_empty() { Expect::New } else { Expect::Existing };
        // An error at the start is a refusal; the next start has a disk without trouble.
        let opened = open(&folder, expect);
        if let Ok(shard) = &opened {
            let now = told.lock().unwrap();
            let must =
                if trouble == Trouble::PowerLoss { &now.synced } else { &now.made.keys().cloned().collect() };
            check(shard, must.iter(), &now, "confirmed");
            drop(now);
            work(shard, 100 * life, &told);
        } else if folder.disk().trouble.is_none() {
            panic!(
                "refused on a disk without trouble (seed {seed}, at {at}, life {life}): {:?}",
                opened.err()
            );
        }
        came |= folder.disk().operations >= at;
        let next =
            if folder.disk().is_dead { folder.disk().after_power_loss() } else { folder.disk().after_kill() };
        if folder.disk().is_dead {
            let mut now = told.lock().unwrap();
            let Told { made, synced, .. } = &mut *now;
            made.retain(|name, _| synced.contains(name));
        }
        folder = SimFolder::over(next);
    }
    came
}

#[test]
fn what_was_answered_survives_an_error_of_any_operation_of_the_disk() {
    for errno in [Errno::IO, Errno::NOSPC, Errno::MFILE] {
        for seed in 0..4 {
            let mut at = 1;
            while lives(seed, at, Trouble::Fails(errno)) {
                at += 1;
            }
            assert!(at > 60, "the scenario has more operations than {at}");
        }
    }
}

#[test]
fn a_log_whose_disk_had_no_room_for_a_change_takes_the_next() {
    for errno in [Errno::NOSPC, Errno::DQUOT] {
        let (folder, told) = (SimFolder::over(Disk::new(1, None)), Mutex::new(Told::default()));
        let shard = open(&folder, Expect::New).unwrap();
        assert!(create(&shard, 1, &told));
        let at = folder.disk().operations + 1;
        folder.disk().trouble = Some((at, Trouble::Fails(errno)));
        assert!(!create(&shard, 2, &told), "{errno}");
        assert!((3..6).all(|id| create(&shard, id, &told)), "{errno}");
    }
}

#[test]
fn what_was_synced_survives_a_power_loss_at_any_operation_of_the_disk() {
    for seed in 0..20 {
        let mut at = 1;
        while lives(seed, at, Trouble::PowerLoss) {
            at += 1;
        }
    }
}

#[test]
fn what_was_synced_beside_a_replacement_of_the_log_survives_a_power_loss() {
    for seed in 1..60 {
        let told = Mutex::new(Told::default());
        let folder = SimFolder::over(Disk::new(seed, None));
        let shard = open(&folder, Expect::New).unwrap();
        let (next, stop) = (AtomicU64::new(1), AtomicBool::new(false));
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    while !stop.load(Ordering::Relaxed) {
                        if !create(&shard, next.fetch_add(1, Ordering::Relaxed), &told) {
                            break;
                        }
                        fsync(&shard, &told);
                    }
                });
            }
            for _ in 0..seed % 7 {
                drop(shard.replace_log());
            }
            let at = folder.disk().operations + 1 + seed % 31;
            folder.disk().trouble = Some((at, Trouble::PowerLoss));
            while !folder.disk().is_dead {
                drop(shard.replace_log());
            }
            stop.store(true, Ordering::Relaxed);
        });
        let after = SimFolder::over(folder.disk().after_power_loss());
        let shard = open(&after, Expect::Existing).unwrap();
        let now = told.lock().unwrap();
        check(&shard, now.synced.iter(), &now, "confirmed");
        drop(now);
        assert!((0..20).all(|id| create(&shard, 1_000_000 + id, &told)));
    }
}
