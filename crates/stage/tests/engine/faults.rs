//! What goes wrong is caught, named, and harms nothing else.

use std::fs;
use std::os::unix::fs::{FileExt, PermissionsExt, chown};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use model::phase::{Direction, StageKind, StageState};
use stage::engine::Engine;
use stage::identity;
use stage::monitor::Monitor;
use wire::control::{Blame, ErrorCode, FileFailure, Owner, Side, StageStatus};
use wire::node::Verify;

use crate::support::Site;
use crate::support::faulty_pfs::FaultyPfs;
use crate::support::folder_namespace::FolderNamespace;
use crate::support::forest::bytes;

fn site_with(files: usize, length: usize) -> Site {
    let site = Site::new();
    fs::create_dir(site.pfs("set")).unwrap();
    for index in 0..files {
        fs::write(site.pfs(&format!("set/f{index}")), bytes(index as u64, length)).unwrap();
    }
    site
}

pub fn assert_one_failure(status: &StageStatus, name: &str, side: Side, errno: i32) {
    assert_eq!(status.state, StageState::Failed);
    assert_eq!(status.failures.len(), 1, "{status:?}");
    let failure = &status.failures[0];
    assert!(failure.path.ends_with(name), "{failure:?}");
    assert_eq!((failure.side, failure.errno), (side, errno), "{failure:?}");
    assert!(!failure.advice.is_empty());
    assert_eq!(status.progress.entries_failed, 1);
}

#[test]
fn a_bit_that_the_buffer_flips_is_caught_and_the_bad_copy_removed() {
    let site = site_with(5, 100_000);
    *site.faults.flipped.lock().unwrap() = Some("f3".into());
    let status = site.stage_in(StageKind::Directory, "set", "");
    assert_one_failure(&status, "$DW_JOB_STRIPED/f3", Side::Buffer, 0);
    assert!(status.failures[0].message.contains("checksum"), "{status:?}");
    assert!(!site.buffer("f3").exists());
    assert_eq!(status.progress.entries_done, 4);
    assert_eq!(status.progress.bytes_verified, 400_000);
}

#[test]
fn a_bit_that_the_pfs_flips_is_caught_and_nothing_gets_the_name() {
    let site = Site::new();
    fs::write(site.buffer("good"), bytes(1, 200_000)).unwrap();
    fs::write(site.buffer("bad"), bytes(1, 300_000)).unwrap();
    fs::create_dir(site.pfs("out")).unwrap();
    fs::write(site.pfs("out/bad"), b"the old version").unwrap();
    let spec = site.spec(Direction::Out, StageKind::Directory, "out", "");
    let status = site.run_on(FaultyPfs { flipped_size: 300_000, ..FaultyPfs::default() }, &spec);
    assert_one_failure(&status, "out/bad", Side::Pfs, 0);
    assert_eq!(fs::read(site.pfs("out/bad")).unwrap(), b"the old version");
    assert_eq!(fs::read(site.pfs("out/good")).unwrap(), bytes(1, 200_000));
    assert_eq!(fs::read_dir(site.pfs("out")).unwrap().count(), 2, "a part was left behind");
}

#[test]
fn a_folder_that_could_not_be_looked_at_is_not_taken_for_one_that_the_stage_made() {
    let site = Site::new();
    fs::write(site.buffer("f"), b"new").unwrap();
    let folder = site.pfs("out");
    fs::create_dir(&folder).unwrap();
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o711)).unwrap();
    let spec = site.spec(Direction::Out, StageKind::Directory, "out", "");
    let faulty = FaultyPfs::default();
    faulty.shared.failing_looks.store(1, Ordering::Relaxed);
    let status = site.run_on(faulty, &spec);
    assert_eq!((status.state, status.failures[0].errno), (StageState::Failed, 5), "{status:?}");
    let status = site.run_on(FaultyPfs::default(), &spec);
    assert_eq!(status.state, StageState::Complete, "{status:?}");
    assert_eq!(fs::metadata(&folder).unwrap().permissions().mode() & 0o7777, 0o711);
}

#[test]
fn an_error_that_passes_is_tried_again() {
    let site = site_with(3, 50_000);
    site.faults.failing_writes.store(2, Ordering::Relaxed);
    site.faults.failing_reads.store(2, Ordering::Relaxed);
    site.faults.failing_syncs.store(2, Ordering::Relaxed);
    let status = site.stage_in(StageKind::Directory, "set", "");
    assert_eq!(status.state, StageState::Complete, "{status:?}");
    assert_eq!(status.progress.bytes_done, 150_000);
    assert_eq!(status.progress.bytes_verified, 150_000);
    for index in 0..3 {
        let contents = fs::read(site.buffer(&format!("f{index}"))).unwrap();
        assert!(contents == bytes(index, 50_000));
    }
}

#[test]
fn an_fsync_that_fails_every_time_is_a_failure() {
    let site = site_with(1, 50_000);
    site.faults.failing_syncs.store(-1, Ordering::Relaxed);
    let status = site.stage_in(StageKind::Directory, "set", "");
    assert_one_failure(&status, "f0", Side::Buffer, 5);
    assert_eq!(status.failures[0].operation, "fsync");
    assert_eq!(site.faults.files_made.load(Ordering::Relaxed), 4, "one attempt and three more");
    assert_eq!((status.progress.bytes_done, status.progress.bytes_verified), (0, 0));
}

#[test]
fn a_file_whose_fsync_failed_is_written_again_and_not_only_synced_again() {
    // Alone, and larger than what one worker copies.
    for size in [1 << 20, 20 << 20] {
        let site = Site::new();
        fs::write(site.buffer("a"), bytes(1, size)).unwrap();
        let pfs = FaultyPfs::default();
        pfs.shared.failing_syncs.store(2, Ordering::Relaxed);
        let mut spec = site.spec(Direction::Out, StageKind::Directory, "out", "");
        // Nothing but the sync notices.
        spec.policy.verify = Verify::Off;
        let status = site.run_on(pfs, &spec);
        assert_eq!(status.state, StageState::Complete, "{status:?}");
        assert_eq!(status.notes.remarks_total, 2, "{:?}", status.notes);
        assert!(fs::read(site.pfs("out/a")).unwrap() == bytes(1, size), "what was lost was published");
        assert_eq!(fs::read_dir(site.pfs("out")).unwrap().count(), 1, "a part was left behind");
    }
}

#[test]
fn files_of_a_batch_that_the_buffer_could_not_sync_are_written_again() {
    let site = site_with(5, 50_000);
    // The first for all of them, two more for those that are then copied by themselves.
    site.faults.failing_syncs.store(3, Ordering::Relaxed);
    site.faults.lossy_syncs.store(true, Ordering::Relaxed);
    let mut spec = site.spec(Direction::In, StageKind::Directory, "set", "");
    spec.policy.verify = Verify::Off;
    assert_eq!(site.run(&spec).state, StageState::Complete);
    for index in 0..5 {
        assert!(fs::read(site.buffer(&format!("f{index}"))).unwrap() == bytes(index, 50_000), "f{index}");
    }
}

#[test]
fn a_folder_whose_fsync_failed_is_not_said_to_be_complete_until_its_names_were_looked_at_again() {
    let site = Site::new();
    for name in ["a", "b"] {
        fs::write(site.buffer(name), bytes(1, 1000)).unwrap();
    }
    let pfs = FaultyPfs::default();
    // Not the one that makes the folder itself: its names'.
    fs::create_dir(site.pfs("out")).unwrap();
    pfs.shared.failing_folder_syncs.store(1, Ordering::Relaxed);
    let spec = site.spec(Direction::Out, StageKind::Directory, "out", "");
    let status = site.run_on(pfs.clone(), &spec);
    assert_eq!(status.state, StageState::Failed, "{status:?}");
    let error = status.error.unwrap();
    assert!(error.message.contains("fsync folder") && error.message.contains("out"), "{error}");
    // A power loss took one of the two.
    fs::remove_file(site.pfs("out/a")).unwrap();
    assert_eq!(site.run_on(pfs, &spec).state, StageState::Complete);
    assert_eq!(fs::read(site.pfs("out/a")).unwrap(), bytes(1, 1000));
}

#[test]
fn a_source_that_cannot_be_read_fails_alone_and_nothing_of_it_stays() {
    let site = Site::new();
    fs::write(site.buffer("a"), bytes(1, 10_000)).unwrap();
    site.faults.failing_reads.store(-1, Ordering::Relaxed);
    let status = site.stage_out(StageKind::Directory, "", "out");
    assert_one_failure(&status, "$DW_JOB_STRIPED/a", Side::Buffer, 5);
    assert_eq!(status.failures[0].operation, "read");
    assert_eq!(fs::read_dir(site.pfs("out")).unwrap().count(), 0);
}

#[test]
fn a_buffer_that_is_too_small_ends_the_stage_and_says_how_large_the_set_is() {
    let site = site_with(40, 100_000);
    fs::create_dir(site.pfs("set/more")).unwrap();
    fs::write(site.pfs("set/more/last"), bytes(9, 100_000)).unwrap();
    *site.faults.room.lock().unwrap() = Some(1_000_000);
    let status = site.stage_in(StageKind::Directory, "set", "");
    assert_eq!(status.state, StageState::Failed);
    let error = status.error.unwrap();
    assert_eq!((&error.code, error.blame), (&ErrorCode::BufferFull, Blame::User));
    assert!(error.message.contains("4100000 bytes in 42 entries"), "{error}");
    assert!(error.message.contains("it may hold 3000000 bytes"), "{error}");
    assert!(error.advice.contains("larger capacity"), "{error}");
    assert_eq!(status.failures[0].errno, 28);
}

#[test]
fn a_source_that_changes_while_it_is_copied_is_copied_again() {
    let site = site_with(1, 3 << 20);
    let path = site.pfs("set/f0");
    *site.faults.after_create.lock().unwrap() = Some(Box::new(move |made| {
        if made < 3 {
            // After the source was looked at, before it is read.
            let file = fs::File::options().write(true).open(&path).unwrap();
            file.write_all_at(&[made as u8; 10], 1_000_000 * made).unwrap();
            file.set_modified(std::time::UNIX_EPOCH + Duration::from_secs(made)).unwrap();
        }
    }));
    let status = site.stage_in(StageKind::Directory, "set", "");
    assert_eq!(status.state, StageState::Complete, "{status:?}");
    assert_eq!(site.faults.files_made.load(Ordering::Relaxed), 3);
    assert!(fs::read(site.buffer("f0")).unwrap() == fs::read(site.pfs("set/f0")).unwrap());
}

#[test]
fn a_source_that_never_stops_changing_is_a_failure() {
    let site = site_with(1, 100);
    let path = site.pfs("set/f0");
    *site.faults.after_create.lock().unwrap() = Some(Box::new(move |made| {
        fs::write(&path, bytes(made, 100 + made as usize)).unwrap();
    }));
    let status = site.stage_in(StageKind::Directory, "set", "");
    assert_one_failure(&status, "set/f0", Side::Pfs, 0);
    assert!(status.failures[0].message.contains("changed while it was copied"));
    assert!(!site.buffer("f0").exists());
}

#[test]
fn a_folder_that_changes_while_it_is_listed_is_listed_again() {
    let site = site_with(3, 100);
    let pfs = FaultyPfs::default();
    pfs.shared.growing.store(2, Ordering::Relaxed);
    let status = site.run_on(pfs, &site.spec(Direction::In, StageKind::Directory, "set", ""));
    assert_eq!((status.state, status.progress.entries_done), (StageState::Complete, 5), "{status:?}");
    assert!(site.buffer("late1").exists() && site.buffer("late2").exists());
}

#[test]
fn a_folder_that_never_stops_changing_is_a_failure() {
    let site = site_with(3, 100);
    let pfs = FaultyPfs::default();
    pfs.shared.growing.store(-1, Ordering::Relaxed);
    let status = site.run_on(pfs, &site.spec(Direction::In, StageKind::Directory, "set", ""));
    assert_one_failure(&status, "set", Side::Pfs, 0);
    assert!(status.failures[0].message.contains("list folder"), "{status:?}");
    assert!(status.failures[0].message.contains("changed"), "{status:?}");
}

#[test]
fn attributes_that_the_target_cannot_hold_are_remarked_and_fail_nothing() {
    let site = site_with(1, 100);
    let flags = rustix::fs::XattrFlags::empty();
    rustix::fs::setxattr(site.pfs("set/f0"), "user.origin", b"x", flags).unwrap();
    site.faults.no_xattrs.store(true, Ordering::Relaxed);
    let status = site.stage_in(StageKind::Directory, "set", "");
    assert_eq!(status.state, StageState::Complete);
    assert_eq!(status.notes.remarks_total, 1);
    let journal = fs::read_to_string(site.path().join("journal")).unwrap();
    let remark = journal.lines().find(|line| line.contains("remark")).unwrap();
    assert!(remark.contains("$DW_JOB_STRIPED/f0") && remark.contains("user.origin"), "{remark}");
}

#[test]
fn whoever_watches_the_target_never_sees_a_part_under_a_files_name() {
    let site = Site::new();
    let contents = bytes(3, 5_000_000);
    for index in 0..20 {
        fs::write(site.buffer(&format!("f{index}")), &contents).unwrap();
    }
    fs::create_dir(site.pfs("out")).unwrap();
    let over = AtomicBool::new(false);
    let watch = || {
        let mut seen = 0;
        while !over.load(Ordering::Acquire) {
            for index in 0..20 {
                if let Ok(found) = fs::read(site.pfs(&format!("out/f{index}"))) {
                    assert!(found == contents, "f{index} has {} bytes", found.len());
                    seen += 1;
                }
            }
        }
        seen
    };
    std::thread::scope(|scope| {
        let watcher = scope.spawn(watch);
        let status = site.stage_out(StageKind::Directory, "", "out");
        over.store(true, Ordering::Release);
        assert_eq!(status.state, StageState::Complete);
        watcher.join().unwrap();
    });
    assert_eq!(fs::read_dir(site.pfs("out")).unwrap().count(), 20);
}

#[test]
fn a_pfs_that_is_full_for_a_moment_is_waited_for() {
    let site = Site::new();
    fs::write(site.buffer("a"), bytes(1, 10_000)).unwrap();
    let pfs = FaultyPfs::default();
    pfs.shared.no_room.store(3, Ordering::Relaxed);
    let spec = site.spec(Direction::Out, StageKind::Directory, "out", "");
    let status = site.run_on(pfs, &spec);
    assert_eq!(status.state, StageState::Complete, "{status:?}");
    assert_eq!(status.notes.remarks_total, 3);
    assert!(status.notes.remarks[0].text.contains("No space left"), "{:?}", status.notes);
}

#[test]
fn a_pfs_that_stays_full_is_not_waited_for_with_each_file_anew() {
    let site = Site::new();
    for index in 0..200 {
        fs::write(site.buffer(&format!("f{index}")), bytes(index, 1000)).unwrap();
    }
    let pfs = FaultyPfs::default();
    pfs.shared.no_room.store(-1, Ordering::Relaxed);
    let spec = site.spec(Direction::Out, StageKind::Directory, "out", "");
    let status = site.run_on(pfs.clone(), &spec);
    assert_eq!((status.state, status.progress.entries_failed), (StageState::Failed, 200));
    assert_eq!((status.failures[0].side, status.failures[0].errno), (Side::Pfs, 28));
    // Each of at most eight workers may have been at its retries when the first gave up.
    let writes = pfs.shared.writes.load(Ordering::Relaxed);
    assert!(writes <= 200 + 8 * 3, "{writes} writes");
    assert_eq!(fs::read_dir(site.pfs("out")).unwrap().count(), 0, "parts were left behind");
}

#[test]
fn a_buffer_that_answers_with_errors_only_is_not_waited_for_with_each_file_anew() {
    const FILES: usize = 200;
    let site = site_with(FILES, 1000);
    site.faults.failing_writes.store(-1, Ordering::Relaxed);
    let status = site.stage_in(StageKind::Directory, "set", "");
    assert_eq!((status.state, status.progress.entries_failed), (StageState::Failed, FILES as u64));
    // Each of at most eight workers may have been at its retries when the first gave up.
    assert!(status.notes.remarks_total <= 8 * 4, "{} retries", status.notes.remarks_total);
}

#[test]
fn a_pfs_that_hangs_is_named_while_it_does() {
    let site = Site::new();
    fs::write(site.buffer("a"), bytes(1, 10_000)).unwrap();
    let pfs = FaultyPfs::default();
    let spec = site.spec(Direction::Out, StageKind::Directory, "out", "");
    let monitor = Arc::new(Monitor::new(&spec.policy).with_stall_after(Duration::from_millis(50)));
    std::thread::scope(|scope| {
        let hang = pfs.shared.hang.lock().unwrap();
        let stage = scope.spawn(|| site.watch_on(pfs.clone(), &spec, &monitor));
        let stall = loop {
            match monitor.status(&spec, StageState::Active).notes.stalled {
                Some(stall) if stall.operation == "write" => break stall,
                _ => std::thread::sleep(Duration::from_millis(5)),
            }
        };
        assert_eq!(stall.side, Side::Pfs);
        assert!(stall.path.starts_with(site.pfs("out").to_str().unwrap()), "{stall:?}");
        drop(hang);
        let status = stage.join().unwrap();
        assert_eq!((status.state, status.notes.stalled), (StageState::Complete, None));
    });
}

/// Runs a stage with the rights of an ordinary user; only root can.
fn run_as_user(site: &Site, direction: Direction) -> StageStatus {
    const USER: u32 = 54_321;
    for folder in [site.pfs(""), site.buffer(""), site.path().to_owned()] {
        chown(folder, Some(USER), Some(USER)).unwrap();
    }
    let mut spec = site.spec(direction, StageKind::Directory, "set", "");
    spec.owner = Owner { uid: USER, gid: USER };
    let journal = site.journal(&spec);
    let namespace = FolderNamespace::new(&site.buffer(""), site.faults.clone());
    let worker = std::thread::spawn(move || {
        identity::assume(&spec.owner).unwrap();
        Engine::new(&spec, &[], namespace).run(&spec, journal, &Arc::new(Monitor::new(&spec.policy)))
    });
    worker.join().unwrap()
}

#[test]
fn a_user_gets_eacces_for_the_file_that_is_not_theirs_to_read_and_nothing_more() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let site = site_with(3, 1000);
    fs::set_permissions(site.pfs("set/f1"), fs::Permissions::from_mode(0o600)).unwrap();
    let status = run_as_user(&site, Direction::In);
    assert_one_failure(&status, "set/f1", Side::Pfs, 13);
    assert!(status.failures[0].advice.contains("permissions"));
    assert!(site.buffer("f0").exists() && site.buffer("f2").exists() && !site.buffer("f1").exists());
    let journal = fs::read_to_string(site.path().join("journal")).unwrap();
    assert_eq!(journal.matches("cannot be kept").count(), 1, "{journal}");
}

#[test]
fn a_folder_of_the_pfs_that_is_closed_meanwhile_fails_what_is_left_and_only_that_is_copied_later() {
    const FILES: u64 = 400;
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let site = Site::new();
    for folder in [site.pfs(""), site.path().to_owned()] {
        chown(folder, Some(54_321), None).unwrap();
    }
    for index in 0..FILES {
        fs::write(site.buffer(&format!("f{index}")), bytes(index, 1000)).unwrap();
    }
    let spec = site.spec(Direction::Out, StageKind::Directory, "out", "");
    let run = |pfs: FaultyPfs| {
        std::thread::scope(|scope| {
            let stage = scope.spawn(|| {
                identity::assume(&Owner { uid: 54_321, gid: 54_321 }).unwrap();
                site.run_on(pfs, &spec)
            });
            stage.join().unwrap()
        })
    };
    let pfs = FaultyPfs::default();
    let mode = |mode| {
        let out = site.pfs("out");
        move || fs::set_permissions(out, fs::Permissions::from_mode(mode)).unwrap()
    };
    *pfs.shared.at_write.lock().unwrap() = Some((FILES / 2, Box::new(mode(0o000))));
    let status = run(pfs);
    assert_eq!(status.state, StageState::Failed);
    let is_closed = |failure: &FileFailure| (failure.side, failure.errno) == (Side::Pfs, 13);
    assert!(status.failures.iter().all(is_closed), "{status:?}");
    let done = status.progress.entries_done;
    assert!(0 < done && done < FILES, "{done}");

    mode(0o755)();
    let again = run(FaultyPfs::default());
    assert_eq!((again.state, &again.failures), (StageState::Complete, &vec![]));
    // A worker that had just given a file its name may not have been let to look at it.
    let twice = again.progress.bytes_moved / 1000 - (FILES - done);
    assert!(twice <= 8, "{twice} files that were done are copied again");
    assert_eq!(fs::read_dir(site.pfs("out")).unwrap().count() as u64, FILES, "a part was left behind");
}

#[test]
fn a_user_cannot_make_a_device_or_lend_root_rights_through_the_buffer() {
    use std::os::unix::fs::MetadataExt;
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let site = site_with(1, 1000);
    fs::set_permissions(site.pfs("set/f0"), fs::Permissions::from_mode(0o6755)).unwrap();
    let mode = rustix::fs::Mode::from_raw_mode(0o666);
    let kind = rustix::fs::FileType::CharacterDevice;
    rustix::fs::mknodat(rustix::fs::CWD, site.pfs("set/null"), kind, mode, 0x103).unwrap();
    let status = run_as_user(&site, Direction::In);
    assert_one_failure(&status, "$DW_JOB_STRIPED/null", Side::Buffer, 1);
    let copy = fs::metadata(site.buffer("f0")).unwrap();
    assert_eq!((copy.uid(), copy.mode() & 0o7777), (54_321, 0o755));
}
