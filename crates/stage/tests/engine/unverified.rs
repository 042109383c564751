//! Files of the buffer of which nobody knows whether they are what was written.

use std::fs;
use std::os::unix::fs::MetadataExt;

use model::Ino;
use model::phase::{Direction, StageKind, StageState};
use wire::control::{ErrorCode, Side};

use crate::faults::assert_one_failure;
use crate::support::Site;

/// Makes two files in the buffer, of which one is bad and has this text. Its inode.
fn bad_and_good(site: &Site, text: &str) -> Ino {
    fs::create_dir(site.pfs("out")).unwrap();
    for (name, text) in [("bad", text), ("good", "what was written")] {
        fs::write(site.buffer(name), text).unwrap();
    }
    Ino(fs::metadata(site.buffer("bad")).unwrap().ino())
}

#[test]
fn no_file_whose_checksums_were_lost_is_called_verified_also_where_that_happened_meanwhile() {
    let site = Site::new();
    let bad = bad_and_good(&site, "what the disk has");
    fs::write(site.pfs("out/bad"), b"the old version").unwrap();
    // Lost while the stage copies: it cannot say any more whether it copied that.
    let faults = site.faults.clone();
    let lose = move || *faults.unverified.lock().unwrap() = vec![bad];
    let spec = site.spec(Direction::Out, StageKind::Directory, "out", "");
    *site.faults.after_read.lock().unwrap() = Some(("bad".into(), Box::new(lose)));
    let status = site.run(&spec);
    assert_eq!(status.state, StageState::Failed, "{status:?}");
    assert_eq!(status.error.map(|error| error.code), Some(ErrorCode::StageUnverified));
    // Lost before: it is named, and the rest is copied. What an earlier run made of it is no excuse.
    let status = site.run(&spec);
    assert_one_failure(&status, "$DW_JOB_STRIPED/bad", Side::Buffer, 0);
    assert!(status.failures[0].message.contains("checksums"), "{status:?}");
    assert_eq!((status.progress.entries_done, status.error), (1, None));
    // Somebody took it as it is.
    site.faults.unverified.lock().unwrap().clear();
    assert_eq!(site.run(&spec).state, StageState::Complete);
    assert_eq!(fs::read(site.pfs("out/bad")).unwrap(), b"what the disk has");
}

#[test]
fn no_file_that_lost_writes_is_called_verified_before_somebody_was_told() {
    let site = Site::new();
    let bad = bad_and_good(&site, "\0\0\0\0");
    let spec = site.spec(Direction::Out, StageKind::Directory, "out", "");
    *site.faults.lost_writes.lock().unwrap() = vec![bad];
    let status = site.run(&spec);
    assert_one_failure(&status, "$DW_JOB_STRIPED/bad", Side::Buffer, 0);
    let failure = &status.failures[0];
    assert!(
        failure.message.contains("no fsync had confirmed") && failure.advice.contains("sync FILE"),
        "{status:?}"
    );
    assert!(!site.pfs("out/bad").exists() && site.pfs("out/good").exists());
    // What may be any file is all of them.
    *site.faults.lost_writes.lock().unwrap() = vec![Ino(0)];
    let status = site.run(&spec);
    assert_eq!(status.error.map(|error| error.code), Some(ErrorCode::StageUnverified));
    site.faults.lost_writes.lock().unwrap().clear();
    assert_eq!(site.run(&spec).state, StageState::Complete);
}

#[test]
fn what_a_disk_loses_as_nobody_asked_yet_is_not_copied() {
    let site = Site::new();
    let bad = bad_and_good(&site, "\0\0\0\0");
    *site.faults.lost_by_disk.lock().unwrap() = vec![bad];
    let status = site.run(&site.spec(Direction::Out, StageKind::Directory, "out", ""));
    let failed: Vec<&str> = status.failures.iter().map(|failure| failure.path.as_str()).collect();
    assert_eq!((status.state, failed), (StageState::Failed, vec!["$DW_JOB_STRIPED/bad"]), "{status:?}");
    assert!(status.failures[0].message.contains("no fsync had confirmed"), "{status:?}");
    assert_eq!(status.error, None, "nothing of it was copied");
    assert!(!site.pfs("out/bad").exists() && site.pfs("out/good").exists());
}
