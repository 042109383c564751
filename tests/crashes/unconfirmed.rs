//! A job wrote without fsync, and a storage node lost its power: nobody calls what is left of that good.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{Pid, Signal};
use serde_json::{Value, json};

use crate::one_node::{Sick, contents, written};

/// The home waits for so long before it judges a mount that is away, and then looks which nodes were lost.
const AWAY: Duration = Duration::from_secs(25);

/// The home has synced in that time what a mount leaves that ends.
pub(crate) const SYNCED_WITHIN: Duration = Duration::from_secs(4);

/// A node that has a part of every file, and is not the home.
const LOSER: usize = 2;

pub(crate) fn failures(status: &Value) -> Vec<&str> {
    let failures = status["failures"].as_array().expect("a stage lists them");
    failures.iter().filter_map(|failure| failure["path"].as_str()).collect()
}

#[track_caller]
fn assert_staged(status: &Value, pfs: &Path, names: &[&str]) {
    assert_eq!(status["state"], "complete", "{status}");
    for (n, name) in names.iter().enumerate() {
        assert_eq!(fs::read(pfs.join(name)).expect("it was staged out"), contents(n), "{name}");
    }
}

#[test]
fn a_stage_out_names_files_of_which_a_power_loss_took_what_no_fsync_had_confirmed() {
    let mut sick = Sick::start(LOSER);
    let folder = sick.site.mountpoint(0);
    let pfs = tempfile::tempdir().expect("temporary folders are writable");
    let synced = written(&folder, "synced", 0).expect("all nodes are there");
    synced[0].sync_all().expect("all nodes are there");
    let told = written(&folder, "told", 1).expect("all nodes are there");
    drop(written(&folder, "unsynced", 2).expect("all nodes are there"));
    sick.lose_power();
    // The job heard of this one, and writes it anew.
    let heard = told[0].sync_all().map_err(|error| error.raw_os_error());
    assert_eq!(heard, Err(Some(Errno::IO.raw_os_error())));
    told[0].write_all_at(&contents(1), 0).and_then(|()| told[0].sync_all()).expect("all nodes are there");
    drop((synced, told));
    sick.site.unmount(0);
    let health = sick.site.storage[0].call("GET", "/v1/health", None);
    assert_eq!(health["fragments"][0]["integrity"]["lost_writes"], 1, "{health}");

    let status = sick.site.stage_out("1.0", pfs.path());
    assert_eq!(status["state"], "failed", "{status}");
    assert_eq!(failures(&status), ["$DW_JOB_STRIPED/unsynced"], "{status}");
    let failure = status["failures"][0].to_string();
    for words in ["node n2", "no fsync had confirmed", "sync FILE", "fsck"] {
        assert!(failure.contains(words), "{words}: {failure}");
    }
    assert!(!pfs.path().join("unsynced").exists(), "what is left of it has its name on the PFS");
    assert_eq!(fs::read(pfs.path().join("synced")).expect("it was staged out"), contents(0));
    assert_eq!(fs::read(pfs.path().join("told")).expect("it was staged out"), contents(1));

    // As it is, for who wants that: by an fsync that says so once, or all of them.
    let fresh = sick.site.add_mount();
    let file = File::open(sick.site.mountpoint(fresh).join("unsynced")).expect("it is there");
    file.sync_all().expect_err("nobody was told");
    file.sync_all().expect("it was told");
    assert_eq!(sick.site.stage_out("2.0", pfs.path())["state"], "complete");
}

#[test]
fn a_stage_out_while_the_job_runs_names_what_a_power_loss_took_though_the_job_asks_for_nothing() {
    let mut sick = Sick::start(LOSER);
    let folder = sick.site.mountpoint(0);
    let pfs = tempfile::tempdir().expect("temporary folders are writable");
    let synced = written(&folder, "synced", 0).expect("all nodes are there");
    synced[0].sync_all().expect("all nodes are there");
    let open = written(&folder, "unsynced", 1).expect("all nodes are there");
    sick.lose_power();
    let status = sick.site.stage_out("1.0", pfs.path());
    assert_eq!(failures(&status), ["$DW_JOB_STRIPED/unsynced"], "{status}");
    open[0].sync_all().expect_err("it was lost");
    open[0].write_all_at(&contents(1), 0).and_then(|()| open[0].sync_all()).expect("all nodes are there");
    drop((open, synced));
    assert_staged(&sick.site.stage_out("2.0", pfs.path()), pfs.path(), &["synced", "unsynced"]);
}

#[test]
fn a_stage_out_is_refused_where_names_may_be_lost_until_somebody_takes_them_as_they_are() {
    let mut sick = Sick::start(0);
    let folder = sick.site.mountpoint(0);
    let pfs = tempfile::tempdir().expect("temporary folders are writable");
    fs::write(folder.join("first"), "synced").expect("all nodes are there");
    File::open(folder.join("first")).and_then(|file| file.sync_all()).expect("all nodes are there");
    fs::create_dir(folder.join("folder")).expect("all nodes are there");
    sick.lose_power();
    sick.site.unmount(0);
    let status = sick.site.stage_out("1.0", pfs.path());
    assert_eq!(
        (&status["state"], &status["error"]["code"]),
        (&json!("failed"), &json!("stage_unverified")),
        "{status}"
    );
    let message = status["error"]["message"].as_str().unwrap_or_default();
    assert!(message.contains("node n0") && message.contains("names"), "{status}");
    let report = sick.site.storage[0].call("PUT", "/v1/fragments/i1/fsck", Some(&json!({ "repair": true })));
    assert!(report["lost_writes_taken"].as_u64() > Some(0), "{report}");
    assert_eq!(sick.site.stage_out("2.0", pfs.path())["state"], "complete");
    assert_eq!(fs::read_to_string(pfs.path().join("first")).expect("it was confirmed"), "synced");
}

#[test]
fn a_stage_out_knows_of_a_mount_whose_machine_died_together_with_the_home() {
    let mut sick = Sick::start(0);
    let folder = sick.site.mountpoint(0);
    let pfs = tempfile::tempdir().expect("temporary folders are writable");
    // All that this mount ever did: no sync was asked of the home, which knows of it by its log alone.
    drop(written(&folder, "file", 0).expect("all nodes are there"));
    let mount = Pid::from_raw(sick.site.compute[0].mount_pid()).expect("it is a process");
    sick.site.compute[0].kill();
    rustix::process::kill_process(mount, Signal::KILL).expect("it lives");
    sick.lose_power();
    let status = sick.site.stage_out("1.0", pfs.path());
    assert_eq!(
        (&status["state"], &status["error"]["code"]),
        (&json!("failed"), &json!("stage_unverified")),
        "{status}"
    );
}

#[test]
fn of_a_mount_whose_machine_died_a_stage_out_names_only_what_it_had_opened_for_writing() {
    let mut sick = Sick::start(LOSER);
    let pfs = tempfile::tempdir().expect("temporary folders are writable");
    drop(written(&sick.site.mountpoint(0), "safe", 0).expect("all nodes are there"));
    // What it leaves the home has confirmed before the power is lost.
    sick.site.unmount(0);
    std::thread::sleep(SYNCED_WITHIN);
    let n = sick.site.add_mount();
    assert_eq!(fs::read(sick.site.mountpoint(n).join("safe")).expect("it is there"), contents(0));
    drop(written(&sick.site.mountpoint(n), "file", 1).expect("all nodes are there"));
    let mount = Pid::from_raw(sick.site.compute[n].mount_pid()).expect("it is a process");
    sick.site.compute[n].kill();
    rustix::process::kill_process(mount, Signal::KILL).expect("it lives");
    sick.lose_power();
    let status = sick.site.stage_out("1.0", pfs.path());
    assert_eq!(failures(&status), ["$DW_JOB_STRIPED/file"], "{status}");
    assert_eq!(status["error"], Value::Null, "what was known before is nothing new afterwards");
    assert_eq!(fs::read(pfs.path().join("safe")).expect("it was staged out"), contents(0));
}

#[test]
fn an_fsync_on_another_node_is_an_error_once_for_what_a_power_loss_took() {
    let mut sick = Sick::start_shared(LOSER);
    let [writer, other] = [0, 1].map(|n| sick.site.mountpoint(n));
    let safe = written(&writer, "safe", 0).expect("all nodes are there");
    safe[0].sync_all().expect("all nodes are there");
    let files = written(&writer, "file", 1).expect("all nodes are there");
    let open = |name: &str| File::open(other.join(name)).expect("it is there");
    let (seen, again, confirmed) = (open("file"), open("file"), open("safe"));
    sick.lose_power();
    // The node that wrote hears of it.
    files[0].read_exact_at(&mut vec![0; 1000], 0).expect("all nodes are there");
    let _heard = fs::read(writer.join("file"));
    std::thread::sleep(Duration::from_secs(3));
    for file in [&seen, &again] {
        let error = file.sync_all().expect_err("what another node wrote is lost");
        assert_eq!(error.raw_os_error(), Some(Errno::IO.raw_os_error()));
    }
    seen.sync_all().and_then(|()| again.sync_all()).expect("the loss was told, once to each");
    confirmed.sync_all().expect("it was confirmed before the power loss");
    open("file").sync_all().expect("it was opened later, when others had been told");
}

#[test]
fn an_fsync_is_an_error_soon_for_what_a_mount_had_written_that_died_with_a_storage_node() {
    let mut sick = Sick::start_patient(LOSER);
    let [writer, other] = [0, 1].map(|n| sick.site.mountpoint(n));
    drop(written(&writer, "file", 1).expect("all nodes are there"));
    let seen = File::open(other.join("file")).expect("it is there");
    let mount = Pid::from_raw(sick.site.compute[0].mount_pid()).expect("it is a process");
    sick.site.compute[0].kill();
    rustix::process::kill_process(mount, Signal::KILL).expect("it lives");
    sick.lose_power();
    // Clients that are away for a moment say by themselves what they lost.
    std::thread::sleep(AWAY);
    let error = seen.sync_all().expect_err("what the other node wrote is lost");
    assert_eq!(error.raw_os_error(), Some(Errno::IO.raw_os_error()));
    seen.sync_all().expect("it was told");
}

#[test]
fn after_a_clean_unmount_a_power_loss_of_the_home_leaves_nothing_in_doubt() {
    let mut sick = Sick::start(0);
    let pfs = tempfile::tempdir().expect("temporary folders are writable");
    let files = written(&sick.site.mountpoint(0), "file", 0).expect("all nodes are there");
    files[0].sync_all().expect("all nodes are there");
    drop(files);
    sick.site.unmount(0);
    // The disk has it soon; nobody waits for that.
    std::thread::sleep(Duration::from_millis(500));
    sick.lose_power();
    assert_staged(&sick.site.stage_out("1.0", pfs.path()), pfs.path(), &["file"]);
}

#[test]
fn what_a_job_left_and_the_home_has_synced_is_not_in_doubt_after_its_power_loss() {
    let mut sick = Sick::start(0);
    let pfs = tempfile::tempdir().expect("temporary folders are writable");
    drop(written(&sick.site.mountpoint(0), "file", 0).expect("all nodes are there"));
    sick.site.unmount(0);
    std::thread::sleep(SYNCED_WITHIN);
    sick.lose_power();
    assert_staged(&sick.site.stage_out("1.0", pfs.path()), pfs.path(), &["file"]);
}

#[test]
fn nodes_that_are_killed_have_lost_nothing_and_all_is_staged_out() {
    let mut sick = Sick::start(LOSER);
    let folder = sick.site.mountpoint(0);
    let pfs = tempfile::tempdir().expect("temporary folders are writable");
    drop(written(&folder, "first", 0).expect("all nodes are there"));
    let second = written(&folder, "second", 1).expect("all nodes are there");
    for node in &mut sick.site.storage {
        node.kill();
        node.start();
    }
    second[0].sync_all().expect("nothing was lost");
    drop(second);
    drop(written(&folder, "third", 2).expect("all nodes are there"));
    sick.site.unmount(0);
    for node in &mut sick.site.storage {
        node.kill();
        node.start();
    }
    assert_staged(&sick.site.stage_out("1.0", pfs.path()), pfs.path(), &["first", "second", "third"]);
}
