//! What is promised while a metadata log is replaced by a shorter one.

use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use tests::disk::Disk;
use tests::site::{HANGS_AFTER, Plan, Site};
use tests::xattr;

const ONE: Plan =
    Plan { storage_nodes: 1, mounts: 1, volume: "directory", grace_ms: 1000, capacity: 256 << 20 };

/// How many files are made and synced after the log was replaced, before the power fails.
const AFTER: usize = 40;

/// Makes files, each with an fsync, from two threads, beside attributes that make the log grow, until so many were
/// confirmed after the log became another file. Names that were confirmed.
fn work(folder: &Path, log: &Path) -> Vec<String> {
    let (next, over) = (AtomicU64::new(0), AtomicBool::new(false));
    let confirmed = Mutex::new(Vec::new());
    let first = fs::metadata(log).expect("the node has it").ino();
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    let name = format!("file-{}", next.fetch_add(1, Ordering::Relaxed));
                    let made = File::create_new(folder.join(&name)).expect("the name is new");
                    made.sync_all().expect("the disk works");
                    confirmed.lock().expect("no writer panics").push(name);
                }
            });
        }
        let growing = folder.join("growing");
        fs::write(&growing, "").expect("there is room");
        let begin = Instant::now();
        while fs::metadata(log).expect("the node has it").ino() == first {
            assert!(begin.elapsed() < HANGS_AFTER, "the log was never replaced");
            xattr::set(&growing, "user.grows", &[7; 60_000]).expect("there is room");
        }
        let before = confirmed.lock().expect("no writer panics").len();
        while confirmed.lock().expect("no writer panics").len() < before + AFTER
            && begin.elapsed() < HANGS_AFTER
        {
            std::thread::yield_now();
        }
        over.store(true, Ordering::Relaxed);
    });
    confirmed.into_inner().expect("no writer panics")
}

#[test]
fn what_fsync_confirmed_beside_a_log_that_is_replaced_survives_a_power_loss() {
    let mut disk = Disk::xfs();
    let mut site = Site::start(ONE, Some(&disk.folder()));
    let log = site.storage[0].folder().join("fragments/i1/namespaces/0/meta.log");
    let confirmed = work(&site.mountpoint(0), &log);
    disk.lose_power();
    site.storage[0].kill();
    disk.restore();
    site.storage[0].start();
    let fresh = site.add_mount();
    let lost: Vec<_> = confirmed.iter().filter(|name| !site.mountpoint(fresh).join(name).is_file()).collect();
    assert!(lost.is_empty(), "{} of {} confirmed files are lost: {lost:?}", lost.len(), confirmed.len());
}
