//! What commands refuse, and what they advise: a command that works when it is copied.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use tests::cluster::Cluster;
use tests::processes::wait_until;

use crate::unmount::Beside;

/// Longer than anything here takes on a busy machine.
const SOON: Duration = Duration::from_secs(30);

#[test]
fn rm_of_a_buffer_that_a_program_uses_is_refused_and_names_it_unless_forced() {
    let cluster = Cluster::new();
    let path = cluster.pfs("mnt");
    let text = path.to_str().unwrap();
    let options = ["mount", text, "--capacity", "64MiB", "--volume", "directory"];
    cluster.forebay(&options).expect_success();
    let token = cluster.tokens().remove(0);
    let mut writer =
        Beside::start(Command::new("sh").args(["-c", "exec sleep 1000 >>out"]).current_dir(&path));
    assert!(wait_until(SOON, || path.join("out").exists()));
    let refused = cluster.forebay(&["rm", &token]);
    assert_eq!(refused.code(), 75, "{}{}", refused.stdout, refused.stderr);
    assert!(refused.stderr.contains(&format!("(process {})", writer.0.id())), "{}", refused.stderr);
    assert!(writer.lives() && path.join("out").exists(), "what was refused was done all the same");
    cluster.forebay(&["rm", &token, "--force"]).expect_success();
    assert!(cluster.tokens().is_empty());
    writer.0.kill().unwrap();
    cluster.assert_nothing_left();
}

/// A kept buffer over two nodes with one file that is synced: its mount point.
fn kept(cluster: &Cluster) -> PathBuf {
    let path = cluster.pfs("mnt");
    let text = path.to_str().unwrap();
    let options = ["mount", text, "--capacity", "64MiB", "--volume", "directory", "--nodes", "2"];
    cluster.forebay(&options).expect_success();
    fs::write(path.join("file"), "text").unwrap();
    File::open(path.join("file")).and_then(|file| file.sync_all()).unwrap();
    File::open(&path).and_then(|folder| folder.sync_all()).unwrap();
    cluster.forebay(&["umount", text]).expect_success();
    path
}

#[test]
fn a_mount_waits_for_names_that_come_back_from_a_node_that_is_only_just_starting() {
    let cluster = Cluster::new();
    let path = kept(&cluster);
    fs::remove_dir_all(cluster.state.join("nodes/n0/fragments/i1/namespaces/0")).unwrap();
    let text = path.to_str().unwrap();
    cluster.forebay(&["mount", text, "--token", "1"]).expect_success();
    assert_eq!(fs::read_to_string(path.join("file")).unwrap(), "text");
    cluster.forebay(&["umount", text]).expect_success();
}

#[test]
fn what_is_advised_about_a_part_that_is_not_served_names_no_process_that_has_ended_and_works() {
    let cluster = Cluster::new();
    let path = kept(&cluster);
    let text = path.to_str().unwrap();
    let specification = cluster.state.join("nodes/n1/fragments/i1/spec.json");
    let whole = fs::read(&specification).unwrap();
    fs::write(&specification, "{").unwrap();
    let shown = || cluster.forebay(&["status"]).expect_success().stdout;
    let first = shown();
    assert!(first.contains("the part on node n1 is not served") && !first.contains("kill"), "{first}");
    let refused = cluster.forebay(&["mount", text, "--token", "1"]);
    assert_eq!(refused.code(), 69, "{}", refused.stderr);
    let told = &refused.stderr;
    assert!(told.contains("node n1 does not serve its part of buffer 1") && !told.contains("kill"), "{told}");
    let second = shown();
    assert!(second.contains("mount failed") && !second.contains("kill"), "{second}");

    fs::write(&specification, whole).unwrap();
    cluster.forebay(&["mount", text, "--token", "1"]).expect_success();
    assert_eq!(fs::read_to_string(path.join("file")).unwrap(), "text");
    let mounted = shown();
    assert!(!mounted.contains("failed") && mounted.contains("data: one copy"), "{mounted}");
    cluster.forebay(&["umount", text]).expect_success();

    fs::write(&specification, "{").unwrap();
    let lacking = shown();
    // What the other node has is known, or not yet.
    let is_open = |told: &str| told.contains("at least") || told.contains("an unknown amount");
    assert!(is_open(&lacking) && !lacking.contains(", 0 bytes of"), "{lacking}");
    let removed = cluster.forebay(&["rm", "1"]).expect_success().stdout;
    assert!(removed.contains("destroyed buffer 1 with") && is_open(&removed), "{removed}");
}

#[test]
fn the_command_that_status_shows_for_a_stage_that_failed_does_it_again_mounted_or_not() {
    let cluster = Cluster::new();
    let (path, pfs) = (cluster.pfs("mnt"), cluster.pfs("pfs"));
    let text = path.to_str().unwrap();
    cluster.forebay(&["mount", text, "--capacity", "64MiB", "--volume", "directory"]).expect_success();
    let ask = |source: &Path, target: &str| {
        let target = path.join(target);
        let words = ["stage", "in", source.to_str().unwrap(), target.to_str().unwrap(), "--wait"];
        assert_eq!(cluster.forebay(&words).code(), 74);
    };
    let (first, second) = (pfs.join("first"), pfs.join("second"));
    // Copies what status shows into a shell.
    let follow = |target: &str| {
        let shown = cluster.forebay(&["status"]).expect_success().stdout;
        assert!(shown.contains("No such file or directory"), "{shown}");
        let is_it = |line: &&str| line.contains("does it again") && line.contains(target);
        let line = shown.lines().find(is_it).unwrap_or_else(|| panic!("nothing to do about it:\n{shown}"));
        let command = line.split('`').nth(1).unwrap();
        let program = tests::cluster::program_folder();
        let line = format!("PATH={}:$PATH {command} --wait", program.display());
        let status = Command::new("sh").args(["-c", &line]).status().unwrap();
        assert!(status.success(), "{line}: {status}");
    };
    ask(&first, "first");
    fs::write(&first, "one").unwrap();
    follow("first");
    assert_eq!(fs::read_to_string(path.join("first")).unwrap(), "one");
    ask(&second, "second");
    cluster.forebay(&["umount", text]).expect_success();
    fs::write(&second, "two").unwrap();
    follow("second");
    cluster.forebay(&["mount", text, "--token", "1"]).expect_success();
    assert_eq!(fs::read_to_string(path.join("second")).unwrap(), "two");
    cluster.forebay(&["umount", text]).expect_success();
}

#[test]
fn a_node_that_one_machine_does_not_have_cannot_be_given_up() {
    let cluster = Cluster::new();
    let refused = cluster.forebay(&["node", "lost", "n1"]);
    assert_eq!(refused.code(), 65, "{}", refused.stderr);
    assert!(
        refused.stderr.contains("there is no node n1") && refused.stderr.contains("leave --dir"),
        "{}",
        refused.stderr
    );
    cluster.assert_nothing_left();
}

#[test]
fn how_much_a_mirrored_buffer_that_does_not_fit_takes_is_told_beside_what_was_asked() {
    let cluster = Cluster::new();
    let path = cluster.pfs("mnt");
    let options = ["--capacity", "4PiB", "--nodes", "2", "--mirror"];
    let refused = cluster.forebay(&[&["mount", path.to_str().unwrap()], &options[..]].concat());
    let told = &refused.stderr;
    assert!(told.contains("asks for 4 PiB") && told.contains("takes 8 PiB"), "{told}");
}

#[test]
fn every_program_calls_itself_by_its_name() {
    for name in ["control", "node", "mount", "stage", "drain"] {
        let name = format!("forebay-{name}");
        let path = tests::cluster::program_folder().join(&name);
        let said = std::process::Command::new(path).arg("--version").output().expect("it was built");
        let said = String::from_utf8_lossy(&said.stdout).into_owned();
        assert!(said.starts_with(&format!("{name} ")), "{said}");
    }
}
