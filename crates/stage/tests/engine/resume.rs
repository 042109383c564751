//! A stage that was stopped goes on where it was.

use std::fs;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use client::Names;
use model::phase::{Direction, StageKind, StageState};
use stage::monitor::Monitor;
use wire::control::{Blame, ErrorCode};
use wire::data::ROOT;
use wire::node::{StageSpec, Verify};

use crate::support::Site;
use crate::support::forest::{assert_same, bytes, grow, survey};
use crate::worker::Work;

const FILES: u64 = 200;

fn stopped_after(made: u64) -> (Site, u64) {
    let site = Site::new();
    fs::create_dir(site.pfs("set")).unwrap();
    for index in 0..FILES {
        fs::write(site.pfs(&format!("set/f{index}")), bytes(index, 1000)).unwrap();
    }
    let spec = site.spec(Direction::In, StageKind::Directory, "set", "");
    let monitor = Arc::new(Monitor::new(&spec.policy));
    let watched = monitor.clone();
    *site.faults.after_create.lock().unwrap() = Some(Box::new(move |now| {
        if now == made {
            watched.cancel();
        }
    }));
    let status = site.run_watched(&spec, &monitor);
    *site.faults.after_create.lock().unwrap() = None;
    assert_eq!(status.state, StageState::Failed);
    assert_eq!(status.error.unwrap().code, ErrorCode::Cancelled);
    assert!(status.failures.is_empty());
    let done = status.progress.entries_done;
    assert!((1..FILES).contains(&done), "{done} done");
    site.faults.files_made.store(0, Ordering::Relaxed);
    (site, done)
}

#[test]
fn what_was_done_is_not_copied_again() {
    let (site, done) = stopped_after(FILES - 10);
    let status = site.stage_in(StageKind::Directory, "set", "");
    assert_eq!(status.state, StageState::Complete, "{status:?}");
    assert_eq!(site.faults.files_made.load(Ordering::Relaxed), FILES - done);
    assert_eq!(status.progress.entries_done, FILES);
    assert_eq!(status.progress.bytes_verified, FILES * 1000);
    assert_same(&survey(&site.pfs("set")), &site.buffer(""));
}

#[test]
fn what_changed_on_either_side_since_is_copied_again() {
    let (site, _) = stopped_after(FILES - 10);
    assert_eq!(site.stage_in(StageKind::Directory, "set", "").state, StageState::Complete);
    site.faults.files_made.store(0, Ordering::Relaxed);
    fs::write(site.pfs("set/f0"), b"new source").unwrap();
    fs::write(site.buffer("f2"), b"spoilt").unwrap();
    fs::remove_file(site.buffer("f3")).unwrap();
    assert_eq!(site.stage_in(StageKind::Directory, "set", "").state, StageState::Complete);
    assert_eq!(site.faults.files_made.load(Ordering::Relaxed), 3);
    assert_same(&survey(&site.pfs("set")), &site.buffer(""));
}

#[test]
fn a_stage_out_that_is_run_again_removes_the_parts_that_a_killed_one_left() {
    let site = Site::new();
    grow(&site.buffer("set"));
    let spec = site.spec(Direction::Out, StageKind::Directory, "out", "set");
    assert_eq!(site.run(&spec).state, StageState::Complete);
    // As kill -9 leaves them; the second is another stage's and none of our business.
    fs::write(site.pfs("out/.forebay.7.0.1-99.part"), b"half").unwrap();
    fs::write(site.pfs("out/deep/.forebay.7.0.1-98.part"), b"half").unwrap();
    fs::write(site.pfs("out/.forebay.8.0.1-1.part"), b"another").unwrap();
    assert_eq!(site.run(&spec).state, StageState::Complete);
    fs::remove_file(site.pfs("out/.forebay.8.0.1-1.part")).unwrap();
    // The folder has a new time only because that file was just taken away.
    assert_same(&survey(&site.buffer("set")), &site.pfs("out"));
}

#[test]
fn the_destination_folder_gets_its_mode_also_when_a_later_run_finishes() {
    let site = Site::new();
    fs::create_dir(site.buffer("set")).unwrap();
    for index in 0..50 {
        fs::write(site.buffer(&format!("set/f{index}")), b"x").unwrap();
    }
    fs::set_permissions(site.buffer("set"), fs::Permissions::from_mode(0o550)).unwrap();
    let spec = site.spec(Direction::Out, StageKind::Directory, "out", "set");
    let monitor = Arc::new(Monitor::new(&spec.policy));
    site.faults.failing_reads.store(-1, Ordering::Relaxed);
    assert_eq!(site.run_watched(&spec, &monitor).state, StageState::Failed);
    site.faults.failing_reads.store(0, Ordering::Relaxed);
    assert_eq!(site.run(&spec).state, StageState::Complete);
    assert_eq!(fs::metadata(site.pfs("out")).unwrap().permissions().mode() & 0o7777, 0o550);
}

const CHUNK: usize = 16 << 20;

/// Two chunks and a bit in the buffer, and what a killed stage-out left: the first chunk, as `found` at the PFS.
fn killed_in_the_second_chunk(found: impl FnOnce(&[u8]) -> Vec<u8>) -> (Site, StageSpec, PathBuf) {
    let site = Site::new();
    fs::create_dir(site.pfs("out")).unwrap();
    let contents = bytes(1, 2 * CHUNK + 5);
    fs::write(site.buffer("large"), &contents).unwrap();
    let spec = site.spec(Direction::Out, StageKind::Directory, "out", "");
    let place = site.pfs("out/.forebay.7.0.1-0.part");
    fs::write(&place, found(&contents[..CHUNK])).unwrap();
    let journal = site.journal(&spec);
    let source = site.namespace().lookup(ROOT, b"large").unwrap();
    journal.begin(&site.pfs("out/large"), &place, &source);
    let sums: Vec<u32> = contents[..CHUNK].chunks(1 << 20).map(crc32c::crc32c).collect();
    journal.blocks(&site.pfs("out/large"), 0..16, &sums);
    (site, spec, place)
}

fn assert_only_large(site: &Site) {
    assert!(fs::read(site.buffer("large")).unwrap() == fs::read(site.pfs("out/large")).unwrap());
    assert_eq!(fs::read_dir(site.pfs("out")).unwrap().count(), 1, "something was left behind");
}

#[test]
fn a_chunk_that_was_copied_before_is_not_copied_again() {
    let (site, mut spec, _) = killed_in_the_second_chunk(<[u8]>::to_vec);
    spec.policy.verify = Verify::Off;
    let status = site.run(&spec);
    assert_eq!(status.state, StageState::Complete, "{status:?}");
    assert_eq!(status.progress.bytes_moved, CHUNK as u64 + 5);
    assert_eq!(
        status.progress.bytes_verified, CHUNK as u64,
        "what another life wrote is read back in any case"
    );
    assert_only_large(&site);
}

#[test]
fn a_chunk_that_the_journal_has_and_the_pfs_lost_is_noticed_and_copied() {
    let (site, spec, _) = killed_in_the_second_chunk(|chunk| vec![0; chunk.len()]);
    let status = site.run(&spec);
    assert_eq!(status.state, StageState::Complete, "{status:?}");
    assert_eq!(status.progress.bytes_moved, 3 * CHUNK as u64 + 10, "first the rest, then all of it");
    assert_only_large(&site);
}

#[test]
fn a_part_is_of_no_use_once_the_source_has_changed() {
    let (site, spec, place) = killed_in_the_second_chunk(<[u8]>::to_vec);
    fs::write(site.buffer("large"), bytes(2, 2 * CHUNK)).unwrap();
    let status = site.run(&spec);
    assert_eq!(status.state, StageState::Complete, "{status:?}");
    assert_eq!(status.progress.bytes_moved, 2 * CHUNK as u64);
    assert!(!place.exists());
    assert_only_large(&site);
}

#[test]
fn a_part_is_of_no_use_once_the_source_has_changed_and_been_given_its_old_time() {
    let (site, spec, _) = killed_in_the_second_chunk(<[u8]>::to_vec);
    let large = fs::File::options().write(true).open(site.buffer("large")).unwrap();
    let times = fs::FileTimes::new().set_modified(large.metadata().unwrap().modified().unwrap());
    large.write_all_at(b"another beginning", 0).unwrap();
    large.set_times(times).unwrap();
    let status = site.run(&spec);
    assert_eq!(status.state, StageState::Complete, "{status:?}");
    assert_only_large(&site);
}

#[test]
fn a_part_of_a_file_that_is_gone_is_removed() {
    let (site, spec, place) = killed_in_the_second_chunk(<[u8]>::to_vec);
    fs::remove_file(site.buffer("large")).unwrap();
    assert_eq!(site.run(&spec).state, StageState::Complete);
    assert!(!place.exists());
}

#[test]
fn a_copy_that_another_has_changed_and_given_its_old_time_is_made_again() {
    let site = Site::new();
    fs::create_dir(site.buffer("set")).unwrap();
    for name in ["kept", "changed"] {
        fs::write(site.buffer(&format!("set/{name}")), b"result").unwrap();
    }
    let spec = site.spec(Direction::Out, StageKind::Directory, "out", "set");
    assert_eq!(site.run(&spec).state, StageState::Complete);
    let inode = |name| fs::metadata(site.pfs(&format!("out/{name}"))).unwrap().ino();
    let kept = inode("kept");
    let changed = fs::File::options().write(true).open(site.pfs("out/changed")).unwrap();
    let times = fs::FileTimes::new().set_modified(changed.metadata().unwrap().modified().unwrap());
    changed.write_all_at(b"spoilt", 0).unwrap();
    changed.set_times(times).unwrap();
    assert_eq!(site.run(&spec).state, StageState::Complete);
    assert_eq!(fs::read(site.pfs("out/changed")).unwrap(), b"result", "called verified");
    assert_eq!(inode("kept"), kept, "copied again");
}

#[test]
fn names_of_one_file_are_not_copied_again() {
    let site = Site::new();
    fs::write(site.pfs("a"), b"x").unwrap();
    fs::create_dir(site.pfs("set")).unwrap();
    for name in ["first", "second", "third"] {
        fs::hard_link(site.pfs("a"), site.pfs(&format!("set/{name}"))).unwrap();
    }
    let spec = site.spec(Direction::In, StageKind::Directory, "set", "");
    assert_eq!(site.run(&spec).state, StageState::Complete);
    site.faults.files_made.store(0, Ordering::Relaxed);
    assert_eq!(site.run(&spec).state, StageState::Complete);
    assert_eq!(site.faults.files_made.load(Ordering::Relaxed), 0);
    assert_eq!(fs::metadata(site.buffer("first")).unwrap().nlink(), 3);
}

#[test]
fn a_worker_that_cannot_go_on_with_its_journal_says_why_and_leaves_it_as_it_is() {
    let work = Work::new(1, 64 << 20);
    fs::create_dir(work.site.pfs("set")).unwrap();
    fs::write(work.site.pfs("set/a"), "data").unwrap();
    let spec = work.spec("1.0", Direction::In, "set", "");
    assert_eq!(work.run(&spec).state, StageState::Complete);
    let whole = fs::read_to_string(work.journal(&spec)).unwrap();
    for (text, said, advised) in [
        (
            whole.replace("\"format\":1", "\"format\":2"),
            "a newer one wrote it",
            "install the Forebay that wrote it, or a newer one, then retry the stage",
        ),
        (format!("garbage\n{whole}"), "line 1 is damaged", "remove it; then retry the stage"),
    ] {
        fs::write(work.journal(&spec), &text).unwrap();
        let error = work.run(&spec).error.unwrap();
        assert_eq!((&error.code, error.blame), (&ErrorCode::StageJournal, Blame::Site), "{error}");
        assert!(error.message.contains("1.0.journal") && error.message.contains(said), "{error}");
        assert!(error.advice.contains(advised), "{}", error.advice);
        assert_eq!(fs::read_to_string(work.journal(&spec)).unwrap(), text);
    }
    fs::remove_file(work.journal(&spec)).unwrap();
    assert_eq!(work.run(&spec).state, StageState::Complete, "as it was advised");
}
