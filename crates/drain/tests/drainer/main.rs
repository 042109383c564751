//! Drainers as processes, each with a node's folder, and one folder on the PFS: what is there is never lost, and what
//! is owed comes there.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]
#![expect(clippy::disallowed_methods, reason = "a wrong answer of `Path::exists` fails the test")]

mod at_once;
mod attributes;
mod claims;
mod commits;
mod flash;
mod folders;
mod full;
mod hosts;
mod left;
mod logged;
mod mapped;
mod moments;
mod mounts;
mod named;
mod node;
mod numbers;
mod pipes;
mod renamed;
mod revisited;
mod sampled;
mod sole;
mod stood_still;
mod unknown;
mod within;

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use mounts::{Unmounted, can_mount, mount, mount_old};
use node::{Node, library};

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

#[test]
fn a_renamed_file_keeps_its_copy_until_the_new_name_is_there() {
    let root = tempfile::tempdir().unwrap();
    let mut node = Node::new(&root, "n1", &[]);
    node.start();
    fs::write(node.from.join("a.tmp"), "contents").unwrap();
    assert_eq!(node.settle().failed, []);
    // The new name cannot be had: a folder has it.
    fs::create_dir_all(node.to.join("a/folder")).unwrap();
    fs::rename(node.from.join("a.tmp"), node.from.join("a")).unwrap();
    assert_eq!(node.settle().failed.len(), 1);
    assert_eq!(read(&node.to.join("a.tmp")), "contents", "the only copy on the PFS is gone");

    fs::remove_dir_all(node.to.join("a")).unwrap();
    assert_eq!(node.settle().failed, []);
    assert_eq!(read(&node.to.join("a")), "contents");
    assert!(!node.to.join("a.tmp").exists(), "the old name stays");
}

#[test]
fn a_drainer_that_is_killed_before_it_notes_a_name_still_has_it_where_another_gave_it_up() {
    let root = tempfile::tempdir().unwrap();
    let mut first = Node::new(&root, "n1", &["--removed", "follow"]);
    let mut second = Node::new(&root, "n2", &[]);
    first.start();
    fs::write(first.from.join("f"), "of the first").unwrap();
    assert_eq!(first.settle().failed, []);
    fs::remove_file(first.from.join("f")).unwrap();
    first.settle();
    assert!(!second.to.join("f").exists(), "what was removed on the node stays");

    second.start();
    fs::write(second.from.join("f"), "of the second").unwrap();
    assert_eq!(second.settle().failed, []);
    second.kill();
    // As after a kill between the rename and the note of it.
    let ledger = second.state().join("ledger");
    let before: Vec<String> = read(&ledger)
        .lines()
        .filter(|line| !line.contains("landed"))
        .map(|line| format!("{line}\n"))
        .collect();
    fs::write(&ledger, before.concat()).unwrap();
    second.start();
    assert_eq!(second.settle().failed, []);
    assert_eq!(read(&second.to.join("f")), "of the second");
    assert!(!second.to.join("f.n2").exists(), "it took its own file for another node's");
}

#[test]
fn what_has_landed_in_one_place_is_not_taken_for_what_is_owed_to_another() {
    let root = tempfile::tempdir().unwrap();
    let mut node = Node::new(&root, "n1", &[]);
    fs::write(node.from.join("f"), "one").unwrap();
    node.start();
    assert_eq!(node.settle().failed, []);
    node.stop();
    // Another place: all that is here comes there, and what is there of it, too.
    let first = std::mem::replace(&mut node.to, root.path().join("elsewhere"));
    node.start();
    // Before it answers, a new file is owed to the first place.
    assert_eq!(node.settle().failed, []);
    fs::write(node.from.join("g"), "two").unwrap();
    assert_eq!(node.settle().failed, []);
    assert_eq!((read(&node.to.join("f")), read(&node.to.join("g"))), ("one".to_owned(), "two".to_owned()));
    node.stop();
    // What is owed to the second place is not given up for the first.
    fs::write(node.from.join("owed"), "three").unwrap();
    let second = std::mem::replace(&mut node.to, first);
    let said = node.refused();
    assert!(said.contains("elsewhere") && said.contains("/n1/owed"), "{said}");
    node.to = second;
    node.start();
    assert_eq!(node.settle().failed, []);
    assert_eq!(read(&node.to.join("owed")), "three");
}

#[test]
fn a_drained_folder_that_is_not_there_any_more_is_no_empty_one() {
    let root = tempfile::tempdir().unwrap();
    let mut node = Node::new(&root, "n1", &[]);
    let state: &'static str = root.path().join("state").to_str().unwrap().to_owned().leak();
    node.words = vec!["--removed", "follow", "--state", state].leak();
    node.state = Some(state.into());
    let ask = || drain::settle(Path::new(state)).unwrap().unwrap();
    node.start();
    fs::write(node.from.join("landed"), "one").unwrap();
    assert_eq!(node.settle().failed, []);
    let away = root.path().join("away");
    for other in [false, true] {
        fs::rename(&node.from, &away).unwrap();
        if other {
            fs::create_dir(&node.from).unwrap();
        }
        let failed = ask().failed;
        assert!(failed.iter().any(|one| one.message.contains("not there any more")), "{failed:?}");
        assert_eq!(read(&node.to.join("landed")), "one", "it is removed from the PFS");
        if other {
            fs::remove_dir(&node.from).unwrap();
        }
        fs::rename(&away, &node.from).unwrap();
    }
    fs::write(node.from.join("owed"), "two").unwrap();
    assert_eq!(ask().failed, []);
    assert_eq!(read(&node.to.join("owed")), "two");
}

#[test]
fn a_file_of_before_the_clock_was_set_back_is_drained() {
    let root = tempfile::tempdir().unwrap();
    let mut node = Node::new(&root, "n1", &[]);
    node.preload = Some(library(&root, CLOCK_AN_HOUR_BEHIND));
    node.start();
    fs::write(node.from.join("f"), "contents").unwrap();
    let (from, to) = (node.state(), node.to.join("f"));
    let settled = std::thread::spawn(move || drain::settle(&from));
    let begun = Instant::now();
    while read(&to) != "contents" {
        assert!(begun.elapsed() < Duration::from_secs(20), "the file of an hour ahead is not drained");
        std::thread::sleep(Duration::from_millis(20));
    }
    settled.join().unwrap().unwrap();
}

#[test]
fn a_file_that_is_called_as_another_is_diverted_takes_no_name_from_it() {
    let root = tempfile::tempdir().unwrap();
    let (mut first, mut second) = (Node::new(&root, "n1", &[]), Node::new(&root, "n2", &[]));
    first.start();
    fs::write(first.from.join("f"), "f of n1").unwrap();
    assert_eq!(first.settle().failed, []);
    second.start();
    fs::write(second.from.join("f"), "f of n2").unwrap();
    assert_eq!(second.settle().failed, []);
    fs::write(second.from.join("f.n2"), "f.n2 of n2").unwrap();
    assert_eq!(second.settle().failed, []);
    let there = ["f", "f.n2", "f.n2.n2"].map(|name| read(&second.to.join(name)));
    assert_eq!(there, ["f of n1", "f of n2", "f.n2 of n2"]);
}

#[test]
fn the_receipt_has_what_had_landed_when_a_drainer_was_killed_before_it_logged_that() {
    let root = tempfile::tempdir().unwrap();
    let mut node = Node::new(&root, "n1", &[]);
    node.start();
    fs::write(node.from.join("f"), "contents").unwrap();
    assert_eq!(node.settle().failed, []);
    node.kill();
    let rendezvous = node.to.join(".forebay-drain/s");
    fs::write(rendezvous.join("n1.jsonl"), "").unwrap();
    node.start();
    assert_eq!(node.settle().failed, []);
    let receipt = read(&rendezvous.join("receipt.jsonl"));
    assert!(receipt.contains("\"done\":1") && receipt.contains("\"path\":\"f\""), "{receipt}");
}

#[test]
fn a_wait_is_for_all_drainers_that_may_owe_something_and_for_no_others() {
    let root = tempfile::tempdir().unwrap();
    let (mut first, mut second) = (Node::new(&root, "n1", &[]), Node::new(&root, "n2", &[]));
    second.name = "n1";
    first.start();
    fs::write(first.from.join("f"), "contents").unwrap();
    assert_eq!(first.settle().failed, []);
    let said = second.refused();
    assert!(said.contains("node n1 already drains "), "{said}");
    // The job is over on the first node; it runs again on another.
    first.stop();
    let mut third = Node::new(&root, "n3", &[]);
    third.start();
    third.settle();
    let rendezvous = third.to.join(".forebay-drain/s");
    let ending = drain::wait::wait(&rendezvous, Some(Duration::from_secs(10)), &mut Silent).unwrap();
    let drain::wait::Ending::Answered(answers) = ending else { panic!("{ending:?}") };
    let hosts: Vec<_> = answers.iter().map(|answer| (answer.host.as_str(), answer.landed)).collect();
    assert!(hosts.len() == 2 && hosts.contains(&("n1", 1)), "{hosts:?}");
    second.start();
    assert_eq!(second.settle().failed, []);
}

/// Who waits without a word.
struct Silent;

impl drain::wait::Watcher for Silent {
    fn sums(&mut self, _: drain::wait::Sums) {}
    fn silent(&mut self, _: &drain::status::Status) {}
    fn paused(&mut self, _: &drain::status::Status) {}
    fn late(&mut self, _: &drain::status::Status, _: u64) {}
}

/// The drainer's clock, while the kernel's is right: as if it had been set back after the file was written.
const CLOCK_AN_HOUR_BEHIND: &str = "
#include <time.h>
int clock_gettime(clockid_t which, struct timespec *now) {
    int result = syscall(SYS_clock_gettime, which, now);
    if (result == 0 && which == CLOCK_REALTIME)
        now->tv_sec -= 3600;
    return result;
}
";

#[test]
fn nothing_is_drained_below_the_mount_point_of_a_pfs_that_is_away() {
    if !can_mount() {
        return;
    }
    let root = tempfile::tempdir().unwrap();
    let mut node = Node::new(&root, "n1", &[]);
    let (files, pfs) = (root.path().join("lustre"), node.to.clone());
    fs::create_dir(&files).unwrap();
    let bind = ["mount", "--bind", files.to_str().unwrap()];
    mount(&bind, &pfs);
    let _unmounted = Unmounted(pfs.clone());
    node.to = pfs.join("out");
    node.start();
    fs::write(node.from.join("first"), "1").unwrap();
    assert_eq!(node.settle().failed, []);
    assert_eq!(read(&files.join("out/first")), "1");

    // Away beside the drainer: what is copied now does not count.
    mount(&["umount", "--lazy"], &pfs);
    fs::create_dir(&node.to).unwrap();
    fs::write(node.from.join("second"), "2").unwrap();
    let failed = node.settle().failed;
    assert!(failed.iter().any(|trouble| trouble.message.contains("is not mounted")), "{failed:?}");
    fs::remove_dir_all(&node.to).unwrap();

    // So it is for another drainer, as after a reboot of the node: it makes nothing there.
    node.kill();
    node.start();
    assert!(!node.running.as_mut().unwrap().wait().unwrap().success());
    assert_eq!(fs::read_dir(&pfs).unwrap().count(), 0, "something lies below the mount point");

    mount(&bind, &pfs);
    node.start();
    assert_eq!(node.settle().failed, []);
    assert_eq!(read(&files.join("out/second")), "2");
}
