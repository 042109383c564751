//! A mount whose calls to the kernel are interrupted or refused once: nobody is left waiting, and no open file is lost.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use tests::cluster::Cluster;
use tests::injection::{Call, Fault, Trace, struck};
use tests::processes::wait_until;

fn mounted(cluster: &Cluster) -> PathBuf {
    let path = cluster.pfs("mnt");
    let text = path.to_str().unwrap();
    cluster.forebay(&["mount", text, "--capacity", "64MiB", "--volume", "directory"]).expect_success();
    path
}

/// An open file with its first word.
fn begun(path: &Path) -> fs::File {
    let mut file = fs::File::create_new(path.join("file")).unwrap();
    file.write_all(b"first, ").unwrap();
    file
}

/// Has the first reply of each of a mount's threads fail; says whether who asked meanwhile was told no error.
fn nobody_waits_for_ever(errno: &'static str) -> bool {
    let cluster = Cluster::new();
    let path = mounted(&cluster);
    fs::write(path.join("file"), "words").unwrap();
    let (mount, log) = (cluster.process("forebay-mount", ""), cluster.folder().join("trace"));
    let first = Call::nth("writev", 1);
    let attached = Trace::of(Fault::Error(errno, first), &log).attach(mount.pid.cast_unsigned());
    let mut command = Command::new("sh");
    command.args(["-c", "s=0; for i in 1 2 3 4 5 6; do : > $0/new-$i || s=1; done; exit $s"]).arg(&path);
    let mut asker = command.stderr(Stdio::null()).spawn().unwrap();
    let answered = wait_until(Duration::from_secs(30), || asker.try_wait().unwrap().is_some());
    drop(attached);
    if !answered {
        // A successor answers what was under way.
        mount.kill();
    }
    let ended = asker.wait().unwrap();
    assert!(answered, "who asked is left waiting");
    assert!(struck(&log) > 0, "no reply was refused");
    assert_eq!(fs::read_to_string(path.join("file")).unwrap(), "words");
    cluster.forebay(&["umount", path.to_str().unwrap()]).expect_success();
    ended.success()
}

#[test]
fn a_reply_that_a_signal_interrupts_is_given_again() {
    assert!(nobody_waits_for_ever("EINTR"), "an interrupted reply became an error");
}

#[test]
fn a_reply_that_the_kernel_has_no_memory_for_is_an_error_for_who_asked() {
    nobody_waits_for_ever("ENOMEM");
}

#[test]
fn an_interrupted_look_at_a_mount_whose_process_died_costs_no_open_file() {
    let cluster = Cluster::new();
    let path = mounted(&cluster);
    let mut file = begun(&path);
    let (node, log) = (cluster.process("forebay-node", ""), cluster.folder().join("trace"));
    let look = Call::nth("ppoll", 1);
    let attached = Trace::of(Fault::Error("EINTR", look), &log).attach(node.pid.cast_unsigned());
    cluster.process("forebay-mount", "").kill();
    file.write_all(b"second").unwrap();
    drop(attached);
    assert!(struck(&log) > 0, "nobody looked");
    assert_eq!(fs::read_to_string(path.join("file")).unwrap(), "first, second");
    drop(file);
    cluster.forebay(&["umount", path.to_str().unwrap()]).expect_success();
}

#[test]
fn a_node_that_cannot_look_at_a_mounts_process_when_it_starts_costs_no_open_file() {
    let cluster = Cluster::new();
    let path = mounted(&cluster);
    let mut file = begun(&path);
    // What control starts is traced with it.
    let (control, log) = (cluster.process("forebay-control", ""), cluster.folder().join("trace"));
    let look = Call::nth("pidfd_open", 1);
    let attached = Trace::of(Fault::Error("EMFILE", look), &log).attach(control.pid.cast_unsigned());
    let said = || fs::read_to_string(cluster.state.join("log/n0.log")).unwrap();
    let mounts =
        || said().lines().filter(|line| line.contains("mounted") || line.contains("found alive")).count();
    let before = mounts();
    cluster.process("forebay-node", "").kill();
    cluster.forebay(&["status"]).expect_success();
    let taken_up = wait_until(Duration::from_secs(30), || mounts() > before);
    drop(attached);
    assert!(taken_up, "{}", said());
    file.write_all(b"second").unwrap();
    assert!(said().contains("cannot tell whether a process lives"), "{}", said());
    assert_eq!(fs::read_to_string(path.join("file")).unwrap(), "first, second");
    drop(file);
    cluster.forebay(&["umount", path.to_str().unwrap()]).expect_success();
}
