//! What a compacted log knows of losses.

use std::sync::Arc;
use std::time::{Duration, Instant};

use model::stripe::Layout;
use rustix::io::Errno;
use wire::data::{Creator, ROOT, Request};

use super::super::fixture::Parts;
use super::super::power::disk::{Disk, SimFolder, Trouble};
use super::super::record::losses::ToldOf;
use super::super::{Caller, Expect, Shard};
use super::*;

const SESSION: SessionId = SessionId([1; 16]);

/// All that matters of it.
fn known(losses: &Losses) -> impl PartialEq + std::fmt::Debug {
    let left = losses.left.iter().map(|(place, left)| (*place, left.inos.clone(), left.any, left.names));
    let left: Vec<_> = left.collect();
    (losses.lost.clone(), left, losses.left_files, losses.last, losses.begun.clone(), losses.quiet.clone())
}

/// What two sessions and three fragments make known.
fn records() -> [Record; 10] {
    let (one, two, session) = (FragmentIndex(1), FragmentIndex(2), SESSION);
    let (time, quiet) = (Time { seconds: 7, nanos: 0 }, SessionId([2; 16]));
    let inos = vec![Ino(7), Ino(8), EVERYTHING];
    let lost = LossRecord::Lost { first: 40, fragment: one, verifier: 11, time, inos, told: false };
    let left = |fragment, verifier, inos, any, names| {
        Record::Losses(LossRecord::Left { fragment, verifier, inos, any, names })
    };
    [
        Record::Losses(LossRecord::Serves { fragment: FragmentIndex(0), verifier: 5 }),
        Record::Began { session },
        Record::Began { session: quiet },
        Record::Losses(LossRecord::Heard { session, fragment: one, verifier: 11 }),
        Record::Losses(lost),
        Record::Losses(LossRecord::Told {
            losses: vec![ToldOf { ino: Ino(7), fragment: one, verifier: 11 }],
        }),
        left(one, 11, vec![Ino(9)], false, true),
        left(two, 20, vec![], true, false),
        Record::Destroyed { ino: Ino(8) },
        Record::Losses(LossRecord::Quiet { session: quiet }),
    ]
}

#[test]
fn a_log_that_was_replaced_says_the_same() {
    let followed = || Verifiers::from([(FragmentIndex(1), 10)]);
    let mut before = Losses::default();
    records().iter().for_each(|record| before.apply(record, followed));
    let heard = before.heard(&followed());
    let began = records().into_iter().filter(|record| matches!(record, Record::Began { .. }));
    let replaced = before.own().into_iter().chain(began).chain(heard);
    let replaced: Vec<Record> = replaced.chain(before.snapshot()).collect();
    let mut after = Losses::default();
    replaced.iter().for_each(|record| after.apply(record, followed));
    assert_eq!(known(&after), known(&before));
    assert_eq!(before.untold().len(), 1, "of 7 somebody was told, and 8 is gone: {before:?}");
}

#[test]
fn a_list_in_pages_has_no_loss_that_comes_after_one_that_is_not_listed_yet() {
    let (mut losses, time) = (Losses::default(), Time { seconds: 7, nanos: 0 });
    let inos: Vec<Ino> = (2..8).map(Ino).collect();
    let lost =
        LossRecord::Lost { first: 40, fragment: FragmentIndex(1), verifier: 11, time, inos, told: false };
    losses.apply(&Record::Losses(lost), Verifiers::new);
    let numbers = |after| -> Vec<u64> {
        losses.list(after, Some(Ino(7)), 4, time).iter().map(|loss| loss.number).collect()
    };
    assert_eq!(numbers(0), [40, 41, 42, 43], "who heard of 45 would never ask for 44");
    assert_eq!(numbers(43), [44, 45, 45]);
}

#[test]
fn a_client_whose_end_the_log_does_not_take_is_still_one_that_may_have_lost_something() {
    let fragment = tempfile::tempdir().unwrap();
    let Parts { namespace, objects, peers } = Parts::new(fragment.path(), 2);
    let (grace, folder) = (peers.grace(), SimFolder::over(Disk::new(1, None)));
    let home = Arc::new(folder.clone());
    let shard = Shard::over(home, &namespace, Expect::New, objects, peers).unwrap();
    shard.close();
    shard.lock().serve_as(FragmentIndex(0), 5);
    shard.connected(SESSION);
    let creator = Creator { uid: 7, gid: 8, umask: 0 };
    let create = Request::Create { parent: ROOT, name: b"f".to_vec(), mode: 0o600, creator };
    shard.handle(Caller::new(SESSION, 1), create);
    shard.disconnected(SESSION);
    let at = folder.disk().operations + 1;
    folder.disk().trouble = Some((at, Trouble::Fails(Errno::NOSPC)));
    shard.end_lost_sessions(Instant::now() + grace + Duration::from_secs(1));
    assert!(folder.disk().operations >= at, "the trouble came");
    let present = Verifiers::from([(FragmentIndex(0), 6)]);
    let silent = shard.lock().silent(SessionId([9; 16]), &Layout::striped(2), &present, true);
    assert_ne!(silent, [], "the home has lost its power since");
}
