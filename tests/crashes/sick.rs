//! A disk cannot write something back, and the kernel says so once, or to nobody.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::fs::Advice;

use tests::cluster::program_folder;
use tests::disk::Disk;
use tests::processes::wait_until;
use tests::site::{HANGS_AFTER, Site};

use crate::one_node::beside_a_sick_disk;
use crate::rot::objects;
use crate::unconfirmed::{SYNCED_WITHIN, failures};

/// A mount has synced what nobody has changed for this long, 30 s and a moment.
const SYNCED_WITH_AGE: Duration = Duration::from_secs(33);

#[test]
fn what_a_disk_could_not_write_back_is_not_staged_out_before_a_program_was_told() {
    let disk = Disk::sick(24 << 20);
    let (mut site, _rest) = beside_a_sick_disk(&disk);
    let (pfs, folder) = (tempfile::tempdir().expect("temporary folders are writable"), site.mountpoint(0));
    fs::write(folder.join("safe"), "safe").expect("both nodes are there");
    File::open(folder.join("safe")).and_then(|file| file.sync_all()).expect("both nodes are there");
    fs::write(folder.join("file"), vec![1; 96 << 20]).expect("the page cache has room");
    let handle = File::open(folder.join("file")).expect("both nodes are there");
    // Nobody asks: the node hears of it when it seals what is at rest.
    let log = |site: &Site| site.storage[1].log();
    let is_lost = || log(&site).contains("what was written to the object is lost");
    assert!(wait_until(HANGS_AFTER, is_lost), "{}", log(&site));
    let status = site.stage_out("1.0", pfs.path());
    assert_eq!(failures(&status), ["$DW_JOB_STRIPED/file"], "{status}");
    assert!(!pfs.path().join("file").exists(), "what is left of it has its name on the PFS");
    // Another process of the node has heard nothing.
    site.storage[1].kill();
    site.storage[1].start();
    // Once here, as its disk is still sick and may fail again.
    handle.sync_all().expect_err("it was lost");
}

#[test]
fn what_only_the_kernel_could_not_write_back_is_not_staged_out_before_a_program_was_told() {
    const BYTES: usize = 96 << 20;
    let disk = Disk::sick(24 << 20);
    let (mut site, _rest) = beside_a_sick_disk(&disk);
    let (pfs, folder) = (tempfile::tempdir().expect("temporary folders are writable"), site.mountpoint(0));
    seal_late(&mut site);
    fs::write(folder.join("safe"), "safe").expect("both nodes are there");
    fs::write(folder.join("file"), vec![1; BYTES]).expect("the page cache has room");
    // Before anybody of ours asks for a sync, which would be told.
    objects(&site, &folder.join("file")).iter().for_each(|object| reclaim(object));
    let status = site.stage_out("1.0", pfs.path());
    assert_eq!(failures(&status), ["$DW_JOB_STRIPED/file"], "{status}");
    assert!(!pfs.path().join("file").exists(), "what is left of it has its name on the PFS");
    assert_eq!(fs::read(pfs.path().join("safe")).expect("it was staged out"), b"safe");

    disk.recover();
    let file = File::options().write(true).open(folder.join("file")).expect("both nodes are there");
    file.sync_all().expect_err("nobody was told");
    file.write_all_at(&vec![2; BYTES], 0).and_then(|()| file.sync_all()).expect("the disk is well");
    // What is told is over: the home, which syncs what the job leaves, finds nothing new.
    file.write_all_at(&vec![3; BYTES], 0).expect("both nodes are there");
    drop(file);
    site.unmount(0);
    std::thread::sleep(SYNCED_WITHIN);
    assert_eq!(site.stage_out("2.0", pfs.path())["state"], "complete");
    assert!(fs::read(pfs.path().join("file")).expect("it was staged out") == vec![3; BYTES]);
    // Another mount, of which no program has asked, has it synced by itself.
    File::options()
        .write(true)
        .open(site.mountpoint(1).join("file"))
        .and_then(|file| file.write_all_at(&vec![4; BYTES], 0))
        .expect("the disk is well");
    std::thread::sleep(SYNCED_WITH_AGE);
    assert_eq!(site.stage_out("3.0", pfs.path())["state"], "complete");
    assert!(fs::read(pfs.path().join("file")).expect("it was staged out") == vec![4; BYTES]);
}

#[test]
fn what_a_disk_could_not_write_back_while_its_node_was_dead_is_lost_to_the_next_process() {
    let disk = Disk::sick(24 << 20);
    let (mut site, _rest) = beside_a_sick_disk(&disk);
    let folder = site.mountpoint(0);
    seal_late(&mut site);
    fs::write(folder.join("file"), vec![1; 96 << 20]).expect("the page cache has room");
    let handle = File::open(folder.join("file")).expect("both nodes are there");
    site.storage[1].kill();
    objects(&site, &folder.join("file")).iter().for_each(|object| reclaim(object));
    disk.recover();
    // The kernel gives up what it knows of the file, too.
    rustix::fs::sync();
    fs::write("/proc/sys/vm/drop_caches", "3").expect("we are root");
    site.storage[1].start();
    handle.sync_all().expect_err("it was lost");
}

#[test]
fn what_only_the_kernel_could_not_write_back_is_not_drained_from_a_nodes_flash() {
    let disk = Disk::sick(24 << 20);
    let (from, pfs) = (disk.folder().join("sick/flash"), tempfile::tempdir().expect("there is room"));
    fs::create_dir(&from).expect("the disk is ours");
    fs::write(from.join("safe"), "safe")
        .and_then(|()| File::open(from.join("safe"))?.sync_all())
        .expect("a new disk");
    fs::write(from.join("file"), vec![1; 96 << 20]).expect("the page cache has room");
    reclaim(&from.join("file"));
    disk.recover();
    let log = pfs.path().join("log");
    let mut drainer = drainer(&from, pfs.path(), &log);
    let said = || fs::read_to_string(&log).unwrap_or_default();
    let drained = |name: &str| fs::read(pfs.path().join(name)).is_ok();
    wait_until(HANGS_AFTER, || {
        drained("safe") && (said().contains("could not write back") || drained("file"))
    });
    drainer.kill().and_then(|()| drainer.wait()).expect("it runs");
    assert!(drained("safe") && said().contains("file: the node's flash could not write back"), "{}", said());
    assert!(!drained("file"), "what is left of it has its name on the PFS");
}

#[test]
fn what_only_the_kernel_could_not_write_back_of_a_file_that_it_forgot_is_no_complete_drain() {
    let disk = Disk::sick(24 << 20);
    let (from, pfs) = (disk.folder().join("sick/flash"), tempfile::tempdir().expect("there is room"));
    fs::create_dir(&from).expect("the disk is ours");
    fs::write(from.join("file"), vec![1; 96 << 20]).expect("the page cache has room");
    reclaim(&from.join("file"));
    disk.recover();
    // The kernel gives up what it knows of the file, too.
    rustix::fs::sync();
    fs::write("/proc/sys/vm/drop_caches", "3").expect("we are root");
    let log = pfs.path().join("log");
    let mut first = drainer(&from, pfs.path(), &log);
    wait_until(HANGS_AFTER, || pfs.path().join("file").exists());
    let mut wait = Command::new(program_folder().join("forebay"));
    wait.args(["drain", "wait", "--session", "s", "--timeout", "60", "--to"]).arg(pfs.path());
    let waited = wait.output().expect("it is built");
    first.kill().and_then(|()| first.wait()).expect("it runs");
    let said = String::from_utf8_lossy(&waited.stderr);
    assert!(!waited.status.success(), "zeros are called drained: {said}");
    assert!(said.contains("the node's flash has failed (it could not write back something"), "{said}");
    let next = drainer(&from, pfs.path(), &log).wait().expect("it is built");
    let said = fs::read_to_string(&log).expect("it has said something");
    assert!(!next.success() && said.contains("the node's flash has failed"), "it goes on: {said}");
    // What the advice says.
    let is_note = |path: &PathBuf| path.extension().is_some_and(|end| end == "flash-failed");
    let mut own =
        fs::read_dir(pfs.path().join(".forebay-drain")).expect("it is there").map(|it| it.unwrap().path());
    fs::remove_file(own.find(is_note).expect("it is noted")).expect("it is ours");
    let mut last = drainer(&from, pfs.path(), &log);
    // As `forebay drain start` does: until then the refusal of the former one is its node's answer.
    let (status, pid) = (pfs.path().join(".forebay-drain/s/n1.status"), format!("\"pid\":{},", last.id()));
    wait_until(HANGS_AFTER, || fs::read_to_string(&status).is_ok_and(|said| said.contains(&pid)));
    let waited = wait.output().expect("it is built");
    last.kill().and_then(|()| last.wait()).expect("it runs");
    assert!(waited.status.success(), "{}", String::from_utf8_lossy(&waited.stderr));
}

fn drainer(from: &Path, to: &Path, log: &Path) -> Child {
    let mut drainer = Command::new(program_folder().join("forebay-drain"));
    drainer.args(["--host", "n1", "--session", "s", "--bursts", "ignore", "--from"]).arg(from);
    drainer.arg("--to").arg(to).stdin(Stdio::null()).stderr(File::create(log).expect("there is room"));
    drainer.spawn().expect("it is built")
}

/// The node with the sick disk syncs nothing by itself for ten seconds: sealing does.
#[track_caller]
fn seal_late(site: &mut Site) {
    site.storage[1].stop();
    site.storage[1].rest_ms = 10_000;
    site.storage[1].start();
    // A node that has just started looks at what it has, and syncs that.
    std::thread::sleep(Duration::from_secs(2));
}

/// Has the kernel write back what it holds of a file, and give up the pages.
fn reclaim(file: &Path) {
    let file = File::open(file).expect("the node has it");
    for _ in 0..50 {
        rustix::fs::fadvise(&file, 0, None, Advice::DontNeed).expect("the kernel has it in memory");
        std::thread::sleep(Duration::from_millis(20));
    }
}
