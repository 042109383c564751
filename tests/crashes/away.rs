//! A storage node that stays away, and one that hangs.

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::Signal;
use tests::processes::wait_until;
use tests::site::{HANGS_AFTER, Plan, Site};

/// A node that hangs is named within this time.
const NAMED_WITHIN: Duration = Duration::from_secs(5);

const TWO: Plan =
    Plan { storage_nodes: 2, mounts: 1, volume: "directory", grace_ms: 1000, capacity: 64 << 20 };

#[test]
fn after_the_grace_period_calls_fail_and_the_log_names_the_node() {
    let mut site = Site::start(TWO, None);
    let file = site.mountpoint(0).join("file");
    fs::write(&file, vec![7; 300_000]).expect("both nodes are there");
    site.storage[1].kill();
    let error = fs::read(&file).expect_err("half of it is away");
    assert_eq!(error.raw_os_error(), Some(Errno::IO.raw_os_error()), "{error}");
    let log = site.mount_log(0);
    assert!(log.lines().any(|line| line.contains("ERROR") && line.contains("n1")), "{log}");
    assert!(!log.lines().any(|line| line.contains("ERROR") && line.contains("n0")), "{log}");
    site.storage[1].start();
    // The mount looks for it twice a second.
    assert!(wait_until(HANGS_AFTER, || fs::read(&file).is_ok()), "the node is not found to be back");
    assert_eq!(fs::read(&file).expect("both are back"), vec![7; 300_000]);
}

#[test]
fn names_are_listed_though_a_node_is_away_that_knows_the_size_of_a_file() {
    let mut site = Site::start(Plan { mounts: 2, ..TWO }, None);
    let file = site.mountpoint(0).join("file");
    // How long it is only its nodes know, as it is open for writing.
    let open = fs::File::create(&file).expect("the buffer is writable");
    open.write_all_at(&[7; 300_000], 0).expect("both nodes are there");
    site.storage[1].kill();
    for mount in 0..2 {
        let listed = fs::read_dir(site.mountpoint(mount)).and_then(Iterator::collect::<Result<Vec<_>, _>>);
        let names: Vec<_> = listed.expect("the home is there").iter().map(fs::DirEntry::file_name).collect();
        assert_eq!(names, ["file"]);
        let error = fs::metadata(site.mountpoint(mount).join("file")).expect_err("half of it is away");
        assert_eq!(error.raw_os_error(), Some(Errno::IO.raw_os_error()), "{error}");
    }
    site.storage[1].start();
    assert!(wait_until(HANGS_AFTER, || fs::metadata(&file).is_ok_and(|found| found.len() == 300_000)));
}

#[test]
fn a_server_that_hangs_holds_up_neither_umount_nor_the_end_of_a_job() {
    let site = Site::start(TWO, None);
    let mount = site.mountpoint(0);
    fs::write(mount.join("file"), vec![7; 300_000]).expect("both nodes are there");
    site.storage.iter().for_each(|node| node.signal(Signal::STOP));
    let mut job = Command::new("cp")
        .args([mount.join("file"), mount.join("copy")])
        .stderr(Stdio::null())
        .spawn()
        .expect("cp is installed");
    // Refused, as files are open: but at once.
    let umount =
        Command::new("umount").arg(&mount).stderr(Stdio::null()).status().expect("umount is installed");
    assert!(!umount.success());
    site.compute[0].call("DELETE", "/v1/mounts/m?grace_s=0", None);
    assert!(!job.wait().expect("it is our child").success());
    assert!(!mount.exists(), "the mount point goes with its mount");
    site.storage.iter().for_each(|node| node.signal(Signal::CONT));
}

/// How many lines of the mount's log say `what` of node n1.
fn lines(site: &Site, what: &str) -> usize {
    site.mount_log(0).lines().filter(|line| line.contains(what) && line.contains("n1")).count()
}

/// A node hangs while something needs it: its name is in the log once, and once more when it answers again.
#[track_caller]
fn is_named_while(action: impl Fn(&Path) + Send + Sync) {
    let site = Site::start(TWO, None);
    let mount = site.mountpoint(0);
    fs::write(mount.join("file"), vec![7; 300_000]).expect("both nodes are there");
    site.storage[1].signal(Signal::STOP);
    std::thread::scope(|scope| {
        let doing: Vec<_> = (0..3).map(|_| scope.spawn(|| action(&mount))).collect();
        let named = wait_until(NAMED_WITHIN, || lines(&site, "does not answer") > 0);
        site.storage[1].signal(Signal::CONT);
        assert!(named, "{}", site.mount_log(0));
        doing.into_iter().for_each(|thread| thread.join().expect("it succeeds once the node goes on"));
    });
    assert!(wait_until(HANGS_AFTER, || lines(&site, "answers again") > 0), "{}", site.mount_log(0));
    let log = site.mount_log(0);
    assert_eq!((lines(&site, "does not answer"), lines(&site, "answers again")), (1, 1), "{log}");
    assert!(!log.contains("\"n0\""), "{log}");
}

#[test]
fn a_node_that_hangs_is_named_in_the_log_when_data_is_read_from_it() {
    is_named_while(|mount| assert_eq!(fs::read(mount.join("file")).unwrap(), vec![7; 300_000]));
}

#[test]
fn a_node_that_hangs_is_named_in_the_log_when_a_write_or_an_fsync_needs_it() {
    is_named_while(|mount| {
        let file = fs::File::options().write(true).open(mount.join("file")).unwrap();
        file.write_all_at(&[8; 65536], 65536).unwrap();
        file.sync_all().unwrap();
    });
}

#[test]
fn a_node_that_hangs_is_named_in_the_log_when_its_space_is_asked_for() {
    // The answer is an old one after a second; whoever asks again and again hears no more than that.
    is_named_while(|mount| {
        let _any = rustix::fs::statvfs(mount).unwrap();
    });
}

#[test]
fn a_home_node_that_hangs_is_named_in_the_log_when_a_name_is_asked_for() {
    let site = Site::start(TWO, None);
    let mount = site.mountpoint(0);
    site.storage[0].signal(Signal::STOP);
    std::thread::scope(|scope| {
        let asking = scope.spawn(|| fs::create_dir(mount.join("folder")));
        let is_named =
            || site.mount_log(0).lines().any(|line| line.contains("does not answer") && line.contains("n0"));
        let named = wait_until(NAMED_WITHIN, is_named);
        site.storage[0].signal(Signal::CONT);
        asking.join().unwrap().expect("it is made once the node goes on");
        assert!(named, "{}", site.mount_log(0));
    });
}
