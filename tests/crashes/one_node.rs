//! One storage node loses its power, or its disk fails, while the others, the mounts and their open files live on: an
//! fsync that says OK is true, for whoever wrote and through whichever descriptor.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::io::Errno;
use tempfile::TempDir;

use tests::disk::Disk;
use tests::random::Random;
use tests::site::{Plan, Site};
use tests::writers::Writer;

use crate::setting;

/// As many files as a loss is shown on.
pub const FILES: usize = 20;

/// Stripes of 64 KiB on every node.
pub const BYTES: usize = 1_000_000;

const FOUR: Plan =
    Plan { storage_nodes: 4, mounts: 1, volume: "directory", grace_ms: 20_000, capacity: 256 << 20 };

/// Starts a site of which storage node `n` is in the folder `place`, and the others' are elsewhere, until `rest` is
/// dropped.
#[track_caller]
fn start(plan: Plan, n: usize, place: &Path) -> (Site, TempDir) {
    let rest = tempfile::Builder::new().prefix("fbr").tempdir().expect("temporary folders are writable");
    let site = Site::start_on(plan, |node| Some(if node == n { place } else { rest.path() }));
    (site, rest)
}

/// A site with two mounts, whose node n1 is on a disk that fails when it writes back, and the home is not.
#[track_caller]
pub fn beside_a_sick_disk(disk: &Disk) -> (Site, TempDir) {
    let plan = Plan { storage_nodes: 2, mounts: 2, capacity: 1 << 30, ..FOUR };
    start(plan, 1, &disk.folder().join("sick"))
}

/// A site of which storage node `n` has a disk of its own.
pub struct Sick {
    // Dropped in this order: the disk, when nobody uses it any more.
    /// All nodes and mounts.
    pub site: Site,
    disk: Disk,
    n: usize,
    _rest: TempDir,
}

impl Sick {
    /// Starts it, with one mount, which has the namespace for itself.
    #[track_caller]
    pub fn start(n: usize) -> Sick {
        Sick::start_as(FOUR, n)
    }

    /// Starts it, with two mounts.
    #[track_caller]
    pub fn start_shared(n: usize) -> Sick {
        Sick::start_as(Plan { mounts: 2, ..FOUR }, n)
    }

    /// The same, where a mount that is away is waited for longer than a test takes.
    #[track_caller]
    pub fn start_patient(n: usize) -> Sick {
        Sick::start_as(Plan { mounts: 2, grace_ms: 600_000, ..FOUR }, n)
    }

    #[track_caller]
    fn start_as(plan: Plan, n: usize) -> Sick {
        let disk = Disk::xfs();
        let (site, rest) = start(plan, n, &disk.folder());
        // On a cluster a node's port is in its configuration, which is older than its first write.
        disk.sync();
        Sick { site, disk, n, _rest: rest }
    }

    /// The node's power fails, and comes back.
    #[track_caller]
    pub fn lose_power(&mut self) {
        lose_power_of(&mut self.site, self.n, &mut self.disk);
    }
}

/// The power of storage node `n`, which has this disk, fails, and comes back.
#[track_caller]
pub fn lose_power_of(site: &mut Site, n: usize, disk: &mut Disk) {
    // Dead first: a machine without power answers nothing any more.
    site.storage[n].kill();
    disk.lose_power();
    disk.restore();
    site.storage[n].start();
}

/// What file `n` has.
pub fn contents(n: usize) -> Vec<u8> {
    tests::tree::bytes(n as u64, BYTES)
}

/// Makes a file with its contents, through two descriptors that stay open.
pub fn written(folder: &Path, name: &str, n: usize) -> io::Result<[File; 2]> {
    let file = File::create_new(folder.join(name))?;
    let second = File::options().read(true).write(true).open(folder.join(name))?;
    file.write_all_at(&contents(n)[..BYTES / 2], 0)?;
    second.write_all_at(&contents(n)[BYTES / 2..], (BYTES / 2) as u64)?;
    Ok([file, second])
}

#[track_caller]
fn assert_lost(file: &File, what: &str) {
    let error = file.sync_all().map(drop).expect_err(what);
    assert_eq!(error.raw_os_error(), Some(Errno::IO.raw_os_error()), "{what}: {error}");
}

#[test]
fn an_fsync_after_a_power_loss_of_one_node_is_an_error_for_every_descriptor_once() {
    let mut sick = Sick::start(2);
    let folder = sick.site.mountpoint(0);
    let before = written(&folder, "before", 99).expect("all nodes are there");
    before[0].sync_all().expect("all nodes are there");
    let files: Vec<[File; 2]> =
        (0..FILES).map(|n| written(&folder, &format!("file-{n}"), n).expect("all nodes are there")).collect();
    sick.lose_power();

    // Not through the descriptors that wrote alone: as the kernel does it since Linux 4.13.
    for (n, [first, second]) in files.iter().enumerate() {
        assert_lost(first, &format!("file {n} has lost its stripes of n2, and fsync says that it is safe"));
        assert_lost(
            second,
            &format!("file {n} has lost its stripes of n2, and its second descriptor's fsync says OK"),
        );
    }
    for [first, second] in &files {
        first.sync_all().and_then(|()| second.sync_all()).expect("the loss was told, once to each");
    }
    before[0].sync_all().and_then(|()| before[1].sync_all()).expect("it was confirmed before the power loss");
    let log = sick.site.mount_log(0);
    let loss = log.lines().find(|line| line.contains("ERROR") && line.contains("n2"));
    assert!(loss.is_some(), "the log does not name the node that lost what was written:\n{log}");

    // What is written from now on is safe, also in a file that lost something.
    for (n, [first, _]) in files.iter().enumerate() {
        first.write_all_at(&contents(n), 0).and_then(|()| first.sync_all()).expect("all nodes are there");
    }
    sick.lose_power();
    let fresh = sick.site.add_mount();
    for n in 0..FILES {
        let found =
            fs::read(sick.site.mountpoint(fresh).join(format!("file-{n}"))).expect("it was confirmed");
        assert!(found == contents(n), "file {n} was confirmed and differs");
    }
    assert!(fs::read(sick.site.mountpoint(fresh).join("before")).expect("it was confirmed") == contents(99));
}

#[test]
fn names_that_the_home_node_lost_are_an_error_at_fsync_of_files_and_folders() {
    let mut sick = Sick::start(0);
    let folder = sick.site.mountpoint(0);
    let before = File::create_new(folder.join("before")).expect("all nodes are there");
    before.write_all_at(b"before", 0).and_then(|()| before.sync_all()).expect("all nodes are there");
    let files: Vec<[File; 2]> =
        (0..FILES).map(|n| written(&folder, &format!("file-{n}"), n).expect("all nodes are there")).collect();
    let listing = File::open(&folder).expect("all nodes are there");
    sick.lose_power();
    for (n, [first, second]) in files.iter().enumerate() {
        assert_lost(first, &format!("the name of file {n} may be lost, and fsync says that it is safe"));
        assert_lost(second, &format!("the name of file {n} may be lost, and fsync says that it is safe"));
    }
    assert_lost(&listing, "names in the folder may be lost, and its fsync says that they are safe");
    listing.sync_all().expect("the loss was told");
    let log = sick.site.mount_log(0);
    assert!(log.lines().any(|line| line.contains("ERROR") && line.contains("n0")), "{log}");

    // Whoever comes later is not concerned.
    let mut after = File::create_new(folder.join("after")).expect("all nodes are there");
    after.write_all(b"after").and_then(|()| after.sync_all()).expect("it was made after the loss");
    sick.lose_power();
    let fresh = sick.site.add_mount();
    for name in ["before", "after"] {
        let found = fs::read(sick.site.mountpoint(fresh).join(name)).expect("it was confirmed");
        assert_eq!(String::from_utf8_lossy(&found), name);
    }
}

#[test]
fn a_storage_node_that_is_killed_or_stopped_cleanly_is_no_reason_for_an_error() {
    let mut sick = Sick::start(2);
    let folder = sick.site.mountpoint(0);
    let files = written(&folder, "file", 1).expect("all nodes are there");
    sick.site.storage[2].kill();
    sick.site.storage[2].start();
    files.iter().for_each(|file| file.sync_all().expect("kill -9 loses nothing"));
    files[0].write_all_at(&contents(2), 0).expect("all nodes are there");
    // Stopped cleanly, it has synced what it had; then its power may fail.
    sick.site.storage[2].stop();
    sick.disk.lose_power();
    sick.disk.restore();
    sick.site.storage[2].start();
    files.iter().for_each(|file| file.sync_all().expect("a clean stop loses nothing"));
    assert!(fs::read(folder.join("file")).expect("all nodes are there") == contents(2));
}

/// So often a node's power fails in a short run.
const POWER_LOSSES: u64 = 8;

#[test]
fn what_fsync_confirmed_survives_power_losses_of_single_nodes_while_the_others_work() {
    let seed = setting("FOREBAY_CRASH_SEED", u64::from(std::process::id()));
    let losses = setting("FOREBAY_CRASH_NODE_POWER_LOSSES", POWER_LOSSES);
    eprintln!("seed {seed}, {losses} power losses");
    let mut random = Random::new(seed);
    let mut disks: Vec<Disk> = (0..3).map(|_| Disk::xfs()).collect();
    let folders: Vec<_> = disks.iter().map(Disk::folder).collect();
    let plan = Plan { storage_nodes: 3, mounts: 2, ..FOUR };
    let mut site = Site::start_on(plan, |node| folders.get(node).map(PathBuf::as_path));
    disks.iter().for_each(Disk::sync);
    let mut confirmed = 0;
    for round in (0..losses).step_by(LOSSES_OF_A_WRITER) {
        let mut writers: Vec<Writer> = (0..2)
            .map(|n| Writer::start("confirmed", &site.mountpoint(n), n, seed + 2 * round + n as u64))
            .collect();
        for _ in 0..LOSSES_OF_A_WRITER {
            std::thread::sleep(Duration::from_millis(random.below(400)));
            let n = random.below(3) as usize;
            lose_power_of(&mut site, n, &mut disks[n]);
            writers.iter_mut().for_each(Writer::assert_works);
        }
        let counts: Vec<_> = writers.iter_mut().map(Writer::stop).collect();
        eprintln!("fsyncs that said OK, and not: {counts:?}");
        // Not what somebody has in memory.
        for (n, disk) in disks.iter_mut().enumerate() {
            lose_power_of(&mut site, n, disk);
        }
        for (n, writer) in writers.iter_mut().enumerate() {
            confirmed += writer.verify(&site.mountpoint(1 - n))[0];
        }
    }
    assert!(confirmed > 0, "nothing was ever confirmed");
}

/// So many losses one set of files lives through.
const LOSSES_OF_A_WRITER: usize = 4;

#[test]
fn a_new_file_never_shows_bytes_of_one_that_the_home_node_lost() {
    let mut sick = Sick::start(0);
    let folder = sick.site.mountpoint(0);
    for n in 0..FILES {
        // The names are lost with n0; the objects on the other nodes are not.
        drop(written(&folder, &format!("lost-{n}"), n).expect("all nodes are there"));
    }
    sick.lose_power();
    for n in 0..FILES {
        let path = folder.join(format!("new-{n}"));
        let file =
            File::options().read(true).write(true).create_new(true).open(&path).expect("all nodes are there");
        file.set_len(BYTES as u64).expect("all nodes are there");
        let found = fs::read(&path).expect("all nodes are there");
        assert!(found.iter().all(|byte| *byte == 0), "the new file {n} has bytes that nobody wrote to it");
    }
}

#[test]
fn an_error_of_writing_back_is_told_to_every_mount_and_every_descriptor_that_wrote() {
    let disk = Disk::sick(24 << 20);
    let (site, _rest) = beside_a_sick_disk(&disk);
    let path = |mount| site.mountpoint(mount).join("file");
    let opened = |mount| File::options().write(true).open(path(mount)).expect("both nodes are there");
    File::create_new(path(0)).and_then(|file| file.sync_all()).expect("both nodes are there");
    let files = [opened(0), opened(0), opened(1), opened(1)];
    for (n, file) in files.iter().enumerate() {
        // Into the page cache of n1: its disk fails when it is written back.
        file.write_all_at(&vec![1; 12 << 20], (n as u64) << 24).expect("the page cache has room");
    }
    for (n, file) in files.iter().enumerate() {
        let error = file.sync_all().expect_err(&format!("descriptor {n} has lost what it wrote"));
        let told = [Errno::IO, Errno::NOSPC].map(Errno::raw_os_error).map(Some);
        assert!(told.contains(&error.raw_os_error()), "{error}");
    }
    assert!(site.storage[1].log().contains("lost"), "{}", site.storage[1].log());
}
