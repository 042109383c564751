//! `forebay mount` and `forebay umount`.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::Signal;
use tests::cluster::Cluster;
use tests::processes::wait_until;
use tests::tree;

fn mount_point(cluster: &Cluster) -> (PathBuf, String) {
    let path = cluster.pfs("mnt");
    let text = path.to_str().expect("temporary folders have plain names").to_owned();
    (path, text)
}

#[track_caller]
fn a_buffer_keeps_a_tree_across_umount(mode: &str, nodes: &str) {
    let cluster = Cluster::new();
    let original = cluster.pfs("original");
    tree::generate(&original).expect("the folder is ours");
    let (path, text) = mount_point(&cluster);
    let options = ["mount", &text, "--capacity", "512MiB", "--access-mode", mode, "--nodes", nodes];
    cluster.forebay(&options).expect_success();
    assert_eq!(cluster.mounts().iter().filter(|point| **point == path).count(), 1);

    let copy = std::process::Command::new("cp").arg("-a").arg(&original).arg(path.join("tree")).status();
    assert!(copy.expect("cp is there").success());
    tree::assert_equal(&original, &path.join("tree"));

    let token = cluster.tokens().remove(0);
    cluster.forebay(&["umount", &text]).expect_success();
    assert!(!cluster.mounts().contains(&path), "umount left the mount");
    assert_eq!(fs::read_dir(&path).expect("the folder is ours").count(), 0);
    assert_eq!(cluster.tokens(), [token.as_str()], "what is in a buffer is kept until forebay rm");

    cluster.forebay(&["mount", &text, "--token", &token]).expect_success();
    tree::assert_equal(&original, &path.join("tree"));
    cluster.forebay(&["umount", &text]).expect_success();
    cluster.forebay(&["rm", &token]).expect_success();
    assert!(cluster.tokens().is_empty());
    cluster.assert_nothing_left();
}

#[test]
fn the_removal_of_a_mounted_buffer_says_what_was_written_just_before_and_that_it_is_nowhere_else() {
    let cluster = Cluster::new();
    let (path, text) = mount_point(&cluster);
    cluster.forebay(&["mount", &text, "--capacity", "64MiB"]).expect_success();
    fs::write(path.join("file"), [7; 1 << 20]).expect("the buffer has room");
    let removed = cluster.forebay(&["rm", "1"]).expect_success();
    assert!(removed.stderr.contains("nothing that is in buffer 1 was staged out"), "{}", removed.stderr);
    assert!(removed.stdout.contains("destroyed buffer 1 with at least 1 MiB"), "{}", removed.stdout);
    cluster.assert_nothing_left();
}

#[test]
fn a_striped_buffer_keeps_a_tree_across_umount_with_one_node() {
    a_buffer_keeps_a_tree_across_umount("striped", "1");
}

#[test]
fn a_striped_buffer_keeps_a_tree_across_umount_with_three_nodes() {
    a_buffer_keeps_a_tree_across_umount("striped", "3");
}

#[test]
fn a_private_buffer_keeps_a_tree_across_umount() {
    a_buffer_keeps_a_tree_across_umount("private", "2");
}

#[test]
fn a_mounted_buffer_behaves_like_a_file_system() {
    let cluster = Cluster::new();
    let (path, text) = mount_point(&cluster);
    cluster.forebay(&["mount", &text, "--capacity", "256MiB", "--nodes", "2"]).expect_success();

    // SQLite and git are programs that notice when locks, renames or open-but-deleted files do not work.
    let commands = "set -e\n\
        sqlite3 db 'create table t(x); insert into t values(1),(2); update t set x=x+1; select sum(x) from t' | grep -qx 5\n\
        git init -q repo && cd repo && echo text > file && git add file\n\
        git -c user.name=n -c user.email=e commit -qm message && git fsck --strict && cd ..\n\
        exec 5>open 6<open && rm open && echo still here >&5 && grep -q 'still here' <&6\n\
        mkdir d && touch d/f && ! rmdir d 2>/dev/null && rm -r d\n\
        echo old > a && echo new > b && mv b a && grep -qx new a\n";
    let status = std::process::Command::new("bash").arg("-c").arg(commands).current_dir(&path).status();
    assert!(status.expect("bash is there").success());
    cluster.forebay(&["umount", &text]).expect_success();
}

#[test]
fn a_command_says_that_control_does_not_answer_and_a_signal_ends_it() {
    let cluster = Cluster::new();
    let (_, text) = mount_point(&cluster);
    cluster.forebay(&["mount", &text, "--capacity", "256MiB"]).expect_success();
    let control = cluster.process("forebay-control", "");
    control.signal(Signal::STOP);
    for words in [&["umount", &text, "--force"][..], &["status"]] {
        let mut waits = cluster.start(words);
        let told = || waits.output().contains("forebay-control, which does not answer");
        let is_told = wait_until(Duration::from_secs(20), told);
        waits.signal_group(Signal::TERM);
        let is_ended = wait_until(Duration::from_secs(10), || !waits.is_running());
        let said = waits.output();
        if !(is_told && is_ended) {
            control.signal(Signal::CONT);
        }
        assert!(is_told && is_ended, "{words:?}: {is_told} {is_ended} {said}");
        assert_eq!(waits.wait().code(), 130, "{said}");
    }
    control.signal(Signal::CONT);
    cluster.forebay(&["umount", &text]).code();
}

#[test]
fn rm_says_what_stays_and_where_after_an_older_database_was_put_back() {
    let cluster = Cluster::new();
    let (path, text) = mount_point(&cluster);
    let unmount = || {
        cluster.forebay(&["umount", &text]).expect_success();
        assert!(wait_until(Duration::from_secs(20), || cluster.processes().is_empty()));
    };
    let move_database = |from: &Path, to: &Path| {
        for entry in fs::read_dir(from).unwrap().map(|entry| entry.unwrap()) {
            if entry.file_name().to_string_lossy().starts_with("control.db") {
                fs::rename(entry.path(), to.join(entry.file_name())).unwrap();
            }
        }
    };
    let [older, newer] = ["older", "newer"].map(|name| cluster.pfs(name));
    cluster.forebay(&["mount", &text, "--capacity", "64MiB"]).expect_success();
    fs::write(path.join("file"), vec![7; 5 << 20]).unwrap();
    unmount();
    move_database(&cluster.state, &older);
    cluster.forebay(&["mount", &text, "--capacity", "64MiB"]).expect_success();
    unmount();
    move_database(&cluster.state, &newer);
    move_database(&older, &cluster.state);

    let part = cluster.state.join("nodes/n0/fragments/i1");
    let removed = cluster.forebay(&["rm", "1"]).expect_success();
    let said = format!("{}{}", removed.stdout, removed.stderr);
    assert!(part.exists() && said.contains(part.to_str().unwrap()) && !said.contains("destroyed"), "{said}");
}

#[test]
fn umount_of_a_folder_where_no_buffer_is_mounted_is_an_error() {
    let cluster = Cluster::new();
    let (_, text) = mount_point(&cluster);
    let outcome = cluster.forebay(&["umount", &text]);
    assert_ne!(outcome.code(), 0);
    assert!(outcome.stderr.contains(&text), "{}", outcome.stderr);
    cluster.assert_nothing_left();
}

#[test]
fn a_second_mount_that_is_refused_is_a_wrong_command_line_and_leaves_nothing_in_the_status() {
    let cluster = Cluster::new();
    let (_, text) = mount_point(&cluster);
    cluster.forebay(&["mount", &text, "--capacity", "64MiB", "--volume", "directory"]).expect_success();
    let token = cluster.tokens().remove(0);
    let second = cluster.pfs("second");
    let refused = cluster.forebay(&["mount", second.to_str().expect("a plain name"), "--token", &token]);
    assert_eq!(refused.code(), 64, "{}", refused.stderr);
    assert!(refused.stderr.contains(&text) && refused.stderr.contains("--shared"), "{}", refused.stderr);
    assert!(cluster.status()["sessions"][0]["failed"].is_null(), "{}", cluster.status());
    let shown = cluster.forebay(&["status"]).expect_success().stdout;
    assert!(!shown.contains("failed"), "{shown}");
    assert!(shown.contains("metadata: one copy, as the buffer is on one node"), "{shown}");
    cluster.forebay(&["umount", &text]).expect_success();
}

#[test]
fn a_state_folder_that_others_may_enter_shows_them_nothing() {
    let cluster = Cluster::new();
    fs::create_dir(&cluster.state).expect("the folder is ours");
    fs::set_permissions(&cluster.state, fs::Permissions::from_mode(0o755)).expect("it is ours");
    let (_, text) = mount_point(&cluster);
    cluster.forebay(&["mount", &text, "--capacity", "64MiB"]).expect_success();
    let entries = fs::read_dir(&cluster.state).expect("it is ours").flatten();
    let open = entries.filter(|entry| entry.metadata().is_ok_and(|found| found.mode() & 0o077 != 0));
    let open: Vec<PathBuf> = open.map(|entry| entry.path()).collect();
    assert_eq!(open, [] as [PathBuf; 0], "the database has the buffer's keys");
    cluster.forebay(&["umount", &text]).expect_success();
}
