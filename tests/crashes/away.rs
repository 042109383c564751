//! A storage node that stays away, and one that hangs.

use std::fs;
use std::process::{Command, Stdio};

use rustix::io::Errno;
use rustix::process::Signal;

use tests::processes::wait_until;
use tests::site::{HANGS_AFTER, Plan, Site};

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
    site.compute[0].call("DELETE", "/v1/mounts/m?hurry=true", None);
    assert!(!job.wait().expect("it is our child").success());
    assert!(!mount.exists(), "the mount point goes with its mount");
    site.storage.iter().for_each(|node| node.signal(Signal::CONT));
}
