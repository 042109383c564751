//! Files that are passed through to the kernel, which writes past everybody: what a power loss took of them is told,
//! and nobody writes into a file system that is not there any more.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use rustix::io::Errno;

use tests::disk::Disk;
use tests::processes::wait_until;
use tests::site::{HANGS_AFTER, Plan, Site};

use crate::one_node::lose_power_of;

const IMAGE: Plan =
    Plan { storage_nodes: 1, mounts: 1, volume: "image", grace_ms: 20_000, capacity: 512 << 20 };

const LEN: usize = 200_000;

/// A site whose only node, with its volume, is on a disk of its own.
struct Sick {
    // Dropped in this order: the disk, when nobody uses it any more.
    site: Site,
    disk: Disk,
}

impl Sick {
    fn start() -> Sick {
        let disk = Disk::xfs();
        let site = Site::start(IMAGE, Some(&disk.folder()));
        Sick { site, disk }
    }

    fn lose_power(&mut self) {
        lose_power_of(&mut self.site, 0, &mut self.disk);
    }

    fn path(&self, name: &str) -> PathBuf {
        self.site.mountpoint(0).join(name)
    }

    /// What a mount that was not there before reads.
    fn found(&mut self, name: &str) -> io::Result<Vec<u8>> {
        let fresh = self.site.add_mount();
        fs::read(self.site.mountpoint(fresh).join(name))
    }
}

fn create(path: &Path) -> io::Result<File> {
    File::options().read(true).write(true).create_new(true).open(path)
}

fn write(path: &Path) -> io::Result<File> {
    File::options().read(true).write(true).open(path)
}

#[track_caller]
fn assert_eio(result: io::Result<()>, what: &str) {
    let error = result.expect_err(what);
    assert_eq!(error.raw_os_error(), Some(Errno::IO.raw_os_error()), "{what}: {error}");
}

/// A file with bytes of one value that an fsync confirmed.
fn confirmed(path: &Path, value: u8) {
    let file = create(path).expect("the node is there");
    file.write_all_at(&vec![value; LEN], 0).and_then(|()| file.sync_all()).expect("the node is there");
}

#[test]
fn what_the_kernel_wrote_and_a_power_loss_took_is_an_error_at_fsync() {
    let mut sick = Sick::start();
    let files = ["held-a", "held-b"].map(|name| {
        confirmed(&sick.path(name), 1);
        let file = write(&sick.path(name)).expect("the node is there");
        file.write_all_at(&vec![2; LEN], 0).expect("the node is there");
        (name, file)
    });
    let closed = ["closed-a", "closed-b", "closed-c"];
    for name in closed {
        confirmed(&sick.path(name), 1);
        let file = write(&sick.path(name)).expect("the node is there");
        file.write_all_at(&vec![2; LEN], 0).expect("the node is there");
    }
    sick.lose_power();
    for (name, file) in &files {
        assert_eio(file.sync_all(), &format!("{name} has lost what was written to it"));
    }
    for name in closed {
        let file = write(&sick.path(name)).expect("nobody has it open");
        assert_eio(file.sync_all(), &format!("{name} has lost what was written to it before it was closed"));
        file.sync_all().expect("it was told");
    }
}

#[test]
fn nothing_is_confirmed_that_goes_to_a_file_system_which_is_gone() {
    let mut sick = Sick::start();
    confirmed(&sick.path("file"), 1);
    let old = write(&sick.path("file")).expect("the node is there");
    old.write_all_at(&vec![2; LEN], 0).and_then(|()| old.sync_all()).expect("the node is there");
    sick.lose_power();
    // Told once, as to everybody; after that no fsync may be believed, as these bytes go where nobody looks again.
    assert_eio(old.sync_all(), "the node has lost its power");
    for _ in 0..2 {
        let confirmed = old.write_all_at(&vec![3; LEN], 0).and_then(|()| old.sync_all());
        assert_eio(confirmed, "what it writes to is not the file any more");
    }
    // Nor does who opens it beside get that file: an error, or the true one.
    if let Ok(second) = write(&sick.path("file")) {
        second
            .write_all_at(&vec![4; LEN], 0)
            .and_then(|()| second.sync_all())
            .expect_err("it is the dead file");
    }
    drop(old);
    let new = write(&sick.path("file")).expect("nobody has the dead one open");
    let mut found = vec![0; LEN];
    new.read_exact_at(&mut found, 0).expect("the node is there");
    assert!(found == vec![2; LEN], "the last that an fsync confirmed");
    // What the old one wrote after its last fsync is lost too, as far as anybody knows.
    assert_eio(new.sync_all(), "nobody was told");
    new.write_all_at(&vec![5; LEN], 0).and_then(|()| new.sync_all()).expect("the node is there");
    sick.lose_power();
    assert!(sick.found("file").expect("it was confirmed") == vec![5; LEN]);
    let log = sick.site.mount_log(0);
    assert!(log.lines().any(|line| line.contains("ERROR") && line.contains("close")), "{log}");
}

#[test]
fn no_stage_out_calls_a_file_good_that_was_written_in_a_file_system_which_is_gone() {
    let mut sick = Sick::start();
    let pfs = tempfile::tempdir().expect("temporary folders are writable");
    let file = create(&sick.path("file")).expect("the node is there");
    file.write_all_at(&vec![1; LEN], 0).and_then(|()| file.sync_all()).expect("the node is there");
    sick.lose_power();
    assert_eio(file.sync_all(), "it has lost what went there since");
    // No call says that this goes nowhere.
    file.write_all_at(&vec![2; LEN], 0).expect("the kernel takes it");
    assert_eq!(sick.site.stage_out("1.0", pfs.path())["state"], "failed");
    drop(file);
    assert_eq!(sick.site.stage_out("2.0", pfs.path())["state"], "failed");
    let file = write(&sick.path("file")).expect("the node is there");
    assert_eio(file.sync_all(), "what was written last is lost");
    file.write_all_at(&vec![3; LEN], 0).and_then(|()| file.sync_all()).expect("the node is there");
    drop(file);
    assert_eq!(sick.site.stage_out("3.0", pfs.path())["state"], "complete");
    assert_eq!(fs::read(pfs.path().join("file")).expect("it was staged out"), vec![3; LEN]);
}

#[test]
fn a_successor_confirms_nothing_that_goes_to_a_file_system_which_is_gone() {
    let mut sick = Sick::start();
    confirmed(&sick.path("file"), 1);
    let old = write(&sick.path("file")).expect("the node is there");
    old.write_all_at(&vec![2; LEN], 0).and_then(|()| old.sync_all()).expect("the node is there");
    sick.site.compute[0].kill_mount();
    old.sync_all().expect("a successor took over, and nothing was lost");
    sick.lose_power();
    for value in 3..6 {
        let confirmed = old.write_all_at(&vec![value; LEN], 0).and_then(|()| old.sync_all());
        assert_eio(confirmed, "what it writes to is not the file any more");
    }
}

#[test]
fn a_successor_knows_that_what_the_kernel_has_died_before_it_came() {
    let mut sick = Sick::start();
    confirmed(&sick.path("file"), 1);
    let old = write(&sick.path("file")).expect("the node is there");
    sick.lose_power();
    // The mount's process hears of it, and dies.
    assert_eio(old.sync_all(), "the node has lost its power");
    sick.site.compute[0].kill_mount();
    for value in 3..6 {
        let confirmed = old.write_all_at(&vec![value; LEN], 0).and_then(|()| old.sync_all());
        assert_eio(confirmed, "what it writes to is not the file any more");
    }
    write(&sick.path("file")).map(drop).expect_err("the kernel has the dead one");
}

#[test]
fn after_the_mount_was_killed_each_closed_file_that_lost_something_is_told() {
    let mut sick = Sick::start();
    let names = ["open", "a", "b", "c"];
    names.iter().for_each(|name| confirmed(&sick.path(name), 1));
    let rewrite = |name: &str| {
        let file = write(&sick.path(name)).expect("the node is there");
        file.write_all_at(&vec![2; LEN], 0).expect("the kernel has it");
        file
    };
    let open = rewrite("open");
    names[1..].iter().for_each(|name| drop(rewrite(name)));
    sick.site.compute[0].kill_mount();
    open.metadata().expect("a successor took over");
    sick.lose_power();
    assert_eio(open.sync_all(), "it lost what was written");
    for name in &names[1..] {
        let file = write(&sick.path(name)).expect("nobody has it open");
        assert_eio(file.sync_all(), &format!("{name} lost what was written before the mount was killed"));
        file.sync_all().expect("it was told");
    }
    // What was made since is no such file.
    confirmed(&sick.path("new"), 3);
}

#[test]
fn an_error_of_writing_back_that_only_the_sealer_hears_is_told_at_the_next_fsync() {
    // No room below the image for what its file system is to write back.
    let disk = Disk::sick(200 << 20);
    let site = Site::start(Plan { capacity: 900 << 20, ..IMAGE }, Some(&disk.folder().join("sick")));
    let path = |name: &str| site.mountpoint(0).join(name);
    let names = ["a", "b"];
    names.iter().for_each(|name| confirmed(&path(name), 1));
    disk.sync();
    disk.fill();
    for name in names {
        let file = write(&path(name)).expect("the node is there");
        file.write_all_at(&vec![2; 8 << 20], 0).expect("the page cache has room");
    }
    let log = || site.storage[0].log();
    let lost =
        || log().lines().filter(|line| line.contains("what was written to the object is lost")).count();
    assert!(wait_until(HANGS_AFTER, || lost() >= names.len()), "{}", log());
    for name in names {
        let file = write(&path(name)).expect("the node is there");
        file.sync_all().expect_err(&format!("{name} has lost what was written, as the node's log says"));
    }
}

#[test]
fn kills_of_the_node_leave_files_that_are_passed_through_as_they_are() {
    let mut sick = Sick::start();
    confirmed(&sick.path("file"), 1);
    let file = write(&sick.path("file")).expect("the node is there");
    let removed = create(&sick.path("removed")).expect("the node is there");
    fs::remove_file(sick.path("removed")).expect("the node is there");
    for value in 2..4 {
        file.write_all_at(&vec![value; LEN], 0).expect("the kernel has it");
        removed.write_all_at(&vec![value; LEN], 0).expect("the kernel has it");
        sick.site.storage[0].kill();
        sick.site.storage[0].start();
        file.sync_all().and_then(|()| removed.sync_all()).expect("kill -9 loses nothing");
        let second = write(&sick.path("file")).expect("the node is there");
        second.sync_all().expect("kill -9 loses nothing");
    }
    sick.lose_power();
    assert!(sick.found("file").expect("it was confirmed") == vec![3; LEN]);
}

#[test]
fn what_was_written_with_o_sync_or_o_dsync_survives_with_its_name() {
    let flags = [("sync", OFlags::SYNC), ("dsync", OFlags::DSYNC)];
    let mut sick = Sick::start();
    for (name, flags) in flags {
        let flags = flags.bits().cast_signed();
        let new = sick.path(&format!("new-{name}"));
        let file = File::options().write(true).create_new(true).custom_flags(flags).open(new);
        file.expect("the node is there").write_all_at(&[7; LEN], 0).expect("the node is there");
        // Made without, and opened with it while its name is on no disk yet.
        let again = sick.path(&format!("again-{name}"));
        drop(create(&again).expect("the node is there"));
        let file = File::options().write(true).custom_flags(flags).open(again);
        file.expect("the node is there").write_all_at(&[7; LEN], 0).expect("the node is there");
    }
    sick.lose_power();
    let fresh = sick.site.add_mount();
    for name in ["new-sync", "again-sync", "new-dsync", "again-dsync"] {
        let found = fs::read(sick.site.mountpoint(fresh).join(name));
        assert!(found.unwrap_or_else(|error| panic!("{name}: {error}")) == [7; LEN], "{name}");
    }
}
