//! A state folder that is worked on in another mount namespace, of another job, a container or another host: what is
//! mounted there is not seen here, and nobody is told that it is.

use std::fs::{self, File};
use std::io::Write;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};
use tests::cluster::{Cluster, Outcome, program_folder};
use tests::processes::wait_until;

use crate::unmount::Beside;

/// Longer than anything here takes on a busy machine.
const SOON: Duration = Duration::from_secs(60);

/// It was refused as the service is elsewhere, with what helps.
#[track_caller]
fn is_refused(outcome: &Outcome, part: &str) {
    assert_eq!(outcome.code(), 69, "{}{}", outcome.stdout, outcome.stderr);
    for part in [part, "--dir ANOTHER_FOLDER"] {
        assert!(outcome.stderr.contains(part), "{part:?} in\n{}", outcome.stderr);
    }
    assert_eq!(outcome.stdout, "");
}

#[test]
fn a_folder_that_another_host_has_is_named_with_what_helps() {
    let cluster = Cluster::new();
    fs::create_dir(&cluster.state).unwrap();
    let mut lock = File::create(cluster.state.join("control.lock")).unwrap();
    // By the numbering of the other host.
    writeln!(lock, "4711000").unwrap();
    flock(&lock, FlockOperation::LockExclusive).unwrap();
    let refused = cluster.forebay(&["mount", "m", "--capacity", "64MiB"]);
    is_refused(&refused, "forebay-control (process 4711000 there) runs on another host, or in a container");
    assert!(!cluster.work.join("m").exists());
}

mod root_only {
    use super::*;

    /// `forebay WORDS` in a mount namespace of its own.
    fn apart(cluster: &Cluster, words: &[&str], command: &[&str]) -> Command {
        let forebay = cluster.command(words);
        let mut apart = Command::new("unshare");
        apart
            .args(["--mount", "--propagation", "private"])
            .arg(forebay.get_program())
            .args(forebay.get_args());
        if !command.is_empty() {
            apart.arg("--").args(command);
        }
        apart.current_dir(&cluster.work);
        apart
    }

    /// A buffer that is mounted at the folder in a mount namespace that lives as long as this.
    fn mounted_apart(cluster: &Cluster, place: &str, propagation: &str) -> Beside {
        let mut apart = Command::new("unshare");
        let forebay = cluster.command(&["mount", place, "--capacity", "64MiB", "--shared"]);
        apart.args([
            "--mount",
            "--propagation",
            propagation,
            "sh",
            "-c",
            "\"$@\" && touch ready && exec sleep 600",
            "sh",
        ]);
        apart.arg(forebay.get_program()).args(forebay.get_args()).current_dir(&cluster.work);
        let beside = Beside::start(&mut apart);
        assert!(wait_until(SOON, || cluster.work.join("ready").exists()));
        beside
    }

    #[test]
    fn of_two_jobs_with_mount_namespaces_of_their_own_the_second_is_told_to_take_another_folder() {
        let cluster = Cluster::new();
        let with = ["with", "--capacity", "64MiB", "--out", "r:first"];
        let script = "echo made >${DW_JOB_STRIPED}r; touch started; until [ -e stop ]; do sleep 0.1; done";
        let first = cluster.spawn(apart(&cluster, &with, &["sh", "-c", script]));
        assert!(wait_until(SOON, || cluster.work.join("started").exists()));
        let job = cluster
            .script("#!/bin/sh\n#DW jobdw capacity=64MiB access_mode=striped type=scratch\ntouch ran\n");
        let touch = ["sh", "-c", "touch ran"];
        let words: [(&[&str], &[&str]); 3] = [
            (&["with", "--capacity", "64MiB"], &touch),
            (&["run", &job], &[]),
            (&["mount", "m", "--capacity", "64MiB"], &[]),
        ];
        for (words, command) in words {
            let refused = cluster.spawn(apart(&cluster, words, command)).wait();
            is_refused(&refused, "is used elsewhere: its forebay-control (process ");
        }
        assert!(!cluster.work.join("ran").exists() && !cluster.work.join("m").exists());
        assert_eq!(cluster.tokens(), ["1"], "something was made");
        let other = cluster.folder().join("o");
        let mut second = Command::new("unshare");
        second.args(["--mount", "--propagation", "private"]).arg(program_folder().join("forebay"));
        second.args(["with", "--capacity", "64MiB", "--out", "r:second", "--dir"]).arg(&other);
        second.args(["--", "sh", "-c", "echo 2 >${DW_JOB_STRIPED}r"]).current_dir(&cluster.work);
        cluster.spawn(second).wait().expect_success();
        fs::write(cluster.work.join("stop"), "").unwrap();
        first.wait().expect_success();
        let read = |name: &str| fs::read_to_string(cluster.work.join(name)).unwrap();
        assert_eq!((read("first").as_str(), read("second").as_str()), ("made\n", "2\n"));
    }

    #[test]
    fn where_a_node_mounts_elsewhere_nothing_is_said_to_be_mounted() {
        let cluster = Cluster::new();
        let [one, two]: [PathBuf; 2] = ["one", "two"].map(|name| cluster.pfs(name));
        let beside = mounted_apart(&cluster, one.to_str().unwrap(), "private");
        // Its node is taken over by a control service that is started here.
        cluster.process("forebay-control", "").kill();
        let mount = ["mount", two.to_str().unwrap(), "--token", "1", "--shared"];
        is_refused(&cluster.forebay(&mount), "but in another mount namespace");
        let status = cluster.status();
        let mounts = status["sessions"][0]["activations"].as_array().unwrap();
        let is_mounted = |place: &PathBuf| {
            mounts
                .iter()
                .any(|mount| mount["mountpoint"] == *place.to_str().unwrap() && mount["mounted"] == true)
        };
        assert!(is_mounted(&one) && !is_mounted(&two), "{status}");
        cluster.forebay(&["umount", one.to_str().unwrap()]).expect_success();
        cluster.forebay(&["rm", "1"]).expect_success();
        drop(beside);
    }

    #[test]
    fn where_mounts_are_passed_on_another_namespace_uses_the_same_folder() {
        let cluster = Cluster::new();
        let script = "set -e; \"$1\" mount one --dir \"$2\" --capacity 64MiB --shared; echo word >one/file\n\
            unshare --mount --propagation slave sh -ec '\"$1\" mount two --dir \"$2\" --token 1 --shared; cat two/file;\
            \"$1\" umount two --dir \"$2\"' sh \"$1\" \"$2\"\n\
            \"$1\" umount one --dir \"$2\"; \"$1\" rm 1 --dir \"$2\"";
        let mut shared = Command::new("unshare");
        shared.args(["--mount", "--propagation", "shared", "sh", "-c", script, "sh"]);
        shared.arg(program_folder().join("forebay")).arg(&cluster.state).current_dir(&cluster.work);
        let done = cluster.spawn(shared).wait().expect_success();
        assert!(done.stdout.contains("\nword\n"), "{}", done.stdout);
    }
}
