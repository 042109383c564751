//! Machines that are called alike, and folders that a server has.

use std::fs;

use drain::rendezvous::Rendezvous;

use super::node::{Node, library};
use super::read;

#[test]
fn another_folder_of_the_same_host_and_path_is_not_drained_over_the_first_ones_files() {
    let root = tempfile::tempdir().unwrap();
    let mut first = Node::new(&root, "n1", &[]);
    first.start();
    fs::write(first.from.join("f"), "of the first").unwrap();
    assert_eq!(first.settle().failed, []);
    // As on another machine of that name: the first drainer lives, and this path is another folder.
    fs::rename(&first.from, root.path().join("away")).unwrap();
    let mut second = Node::new(&root, "n1", &[]);
    fs::write(second.from.join("f"), "of the second").unwrap();
    let said = second.refused();
    assert!(
        said.contains("node n1 already drains ") && said.contains("start this drain with another --session"),
        "{said}"
    );
    assert_eq!(read(&first.to.join("f")), "of the first");
    // The same machine's drainer was killed: it goes on with what is at the path now.
    first.kill();
    second.start();
    assert_eq!(second.settle().failed, []);
}

#[test]
fn a_machine_that_has_the_name_of_another_is_refused_as_long_as_that_is_heard_of_and_counts() {
    let root = tempfile::tempdir().unwrap();
    let mut node = Node::new(&root, "n1", &[]);
    node.start();
    fs::write(node.from.join("f"), "of the first").unwrap();
    assert_eq!(node.settle().failed, []);
    node.kill();
    let file = node.to.join(".forebay-drain/s/n1.status");
    let mut said: serde_json::Value = serde_json::from_str(&read(&file)).unwrap();
    let (machine, folder) = (said["machine"].clone(), said["folder"].clone());
    assert!(machine.is_string() && folder.is_array(), "{said}");
    said["machine"] = "another".into();
    // It was rebooted: the folder is the same.
    fs::write(&file, said.to_string()).unwrap();
    node.start();
    assert_eq!(node.settle().failed, []);
    node.kill();
    said["folder"][0] = 1.into();
    said["updated_ms"] = drain::status::now_ms().into();
    fs::write(&file, said.to_string()).unwrap();
    let refused = node.refused();
    assert!(refused.contains("another machine") && refused.contains("--host"), "{refused}");
    let rendezvous = Rendezvous::new(node.to.join(".forebay-drain/s"));
    let statuses = rendezvous.statuses().unwrap();
    assert!(statuses.len() == 2 && statuses.iter().any(|status| status.refused), "{statuses:?}");
    what_it_advises_takes_a_refusal_back(&mut node, &rendezvous);
    assert!(node.refused().contains("another machine"));
    // Nothing was heard of the other one for more than a minute.
    said["updated_ms"] = (drain::status::now_ms() - 61_000).into();
    fs::write(&file, said.to_string()).unwrap();
    node.start();
    assert_eq!(node.settle().failed, []);
    let statuses = rendezvous.statuses().unwrap();
    assert!(statuses.len() == 1 && !statuses[0].refused, "{statuses:?}");
}

#[track_caller]
fn what_it_advises_takes_a_refusal_back(node: &mut Node, rendezvous: &Rendezvous) {
    let name = std::mem::replace(&mut node.name, "n2");
    node.start();
    assert_eq!(node.settle().failed, []);
    node.kill();
    let statuses = rendezvous.statuses().unwrap();
    assert!(statuses.len() == 2 && !statuses.iter().any(|status| status.refused), "{statuses:?}");
    fs::remove_file(node.to.join(".forebay-drain/s/n2.status")).unwrap();
    node.name = name;
}

#[test]
fn a_refused_start_is_not_forgotten_as_another_folder_of_the_node_is_drained() {
    let root = tempfile::tempdir().unwrap();
    let mut refused = Node::new(&root, "first", &[]);
    refused.name = "n1";
    fs::remove_dir(&refused.to).unwrap();
    fs::create_dir_all(refused.state().join("ledger")).unwrap();
    // Also where no node has made the folder on the PFS yet.
    refused.refused();
    let session = refused.to.join(".forebay-drain/s");
    let names =
        fs::read_dir(&session).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let words: Vec<String> = names.filter(|name| name.starts_with("n1.")).collect();
    assert!(
        words.len() == 1 && words[0].ends_with(".refused"),
        "one that does not run is waited for: {words:?}"
    );
    let mut node = Node::new(&root, "second", &[]);
    node.name = "n1";
    node.start();
    assert_eq!(node.settle().failed, []);
    node.kill();
    let statuses = Rendezvous::new(node.to.join(".forebay-drain/s")).statuses().unwrap();
    let [_, aside] = &statuses[..] else { panic!("{statuses:?}") };
    assert!(aside.refused && aside.from == refused.from, "{aside:?}");
    assert!(aside.troubles[0].advice.contains(&format!("/{}.refused", aside.host)), "{aside:?}");

    // One that owed files before stays in the way of another folder.
    let owes = serde_json::json!({"enqueued": 3, "host": "n1"});
    let mut said = serde_json::to_value(aside).unwrap();
    said.as_object_mut().unwrap().extend(owes.as_object().unwrap().clone());
    fs::write(node.to.join(".forebay-drain/s/n1.status"), said.to_string()).unwrap();
    assert!(node.refused().contains("last reported "));
}

/// Whether a node could not start, and with how many files that are owed.
fn refusals(node: &Node) -> Vec<usize> {
    let statuses = Rendezvous::new(node.to.join(".forebay-drain/s")).statuses().unwrap();
    statuses.iter().filter(|status| status.refused).map(|status| status.enqueued - status.done).collect()
}

#[test]
fn what_a_refused_drain_owes_is_not_forgotten_as_another_folder_comes_to_its_path() {
    let root = tempfile::tempdir().unwrap();
    let mut node = Node::new(&root, "n1", &[]);
    node.start();
    assert_eq!(node.settle().failed, []);
    drain::order(&node.state(), drain::Order::Pause).unwrap().unwrap();
    fs::write(node.from.join("owed"), "one").unwrap();
    node.wait_said("a file is owed", |status| status.enqueued == 1);
    node.kill();
    let ledger = node.state().join("ledger");
    fs::rename(&ledger, root.path().join("ledger")).unwrap();
    fs::create_dir(&ledger).unwrap();
    // A second try knows of it, too.
    for _ in 0..2 {
        node.refused();
        assert_eq!(refusals(&node), [1]);
    }
    fs::rename(&node.from, root.path().join("away")).unwrap();
    fs::create_dir(&node.from).unwrap();
    node.start();
    assert_eq!(node.settle().failed, []);
    assert_eq!(refusals(&node).len(), 1, "of the folder that was moved away");
    node.stop();
    fs::remove_dir(root.path().join("away/.forebay-drain/ledger")).unwrap();
    fs::rename(root.path().join("ledger"), root.path().join("away/.forebay-drain/ledger")).unwrap();
    node.from = root.path().join("away");
    node.start();
    assert_eq!(node.settle().failed, []);
    assert_eq!((read(&node.to.join("owed")).as_str(), refusals(&node)), ("one", vec![]));
}

#[test]
fn a_start_that_was_refused_as_its_folder_was_missing_below_a_link_is_taken_back() {
    let root = tempfile::tempdir().unwrap();
    let mut node = Node::new(&root, "n1", &[]);
    let state: &'static str = root.path().join("state").to_str().unwrap().to_owned().leak();
    (node.words, node.state) = (vec!["--state", state].leak(), Some(state.into()));
    std::os::unix::fs::symlink(&node.from, root.path().join("link")).unwrap();
    node.from = root.path().join("link/out");
    node.refused();
    assert_eq!(refusals(&node), [0]);
    fs::create_dir(&node.from).unwrap();
    node.start();
    assert_eq!(node.settle().failed, []);
    assert_eq!(refusals(&node), [0; 0]);
}

#[test]
fn what_another_node_said_that_nobody_understands_keeps_no_node_from_its_drain() {
    let root = tempfile::tempdir().unwrap();
    let mut node = Node::new(&root, "n1", &[]);
    let session = node.to.join(".forebay-drain/s");
    fs::create_dir_all(&session).unwrap();
    for name in ["n2.status", "n2.01234567.refused"] {
        fs::write(session.join(name), "").unwrap();
    }
    node.start();
    fs::write(node.from.join("f"), "contents").unwrap();
    assert_eq!(node.settle().failed, []);
    assert_eq!(read(&node.to.join("f")), "contents");
}

#[test]
fn a_closed_file_whose_server_hands_out_no_lease_is_drained_and_one_that_is_open_elsewhere_is_not() {
    for (system, is_drained) in [("0x6969", true), ("0xfe534d42", true), ("0x58465342", false)] {
        let root = tempfile::tempdir().unwrap();
        let mut node = Node::new(&root, "n1", &[]);
        node.preload = Some(library(&root, &NO_LEASE.replace("SYSTEM", system)));
        node.start();
        fs::write(node.from.join("f"), "contents").unwrap();
        // Where nobody can tell of writers, a file is closed that has rested for a second.
        std::thread::sleep(std::time::Duration::from_millis(1500));
        let answer = node.settle();
        assert_eq!((answer.failed.as_slice(), answer.open.is_empty()), (&[][..], is_drained), "{system}");
        assert_eq!(read(&node.to.join("f")), if is_drained { "contents" } else { "" }, "{system}");
    }
}

/// A file system of this kind, that gives no lease now.
const NO_LEASE: &str = "
#include <stdarg.h>
#include <sys/vfs.h>
int fcntl(int file, int command, ...) {
    va_list words;
    va_start(words, command);
    long word = va_arg(words, long);
    va_end(words);
    if (command == 1024 && word == F_RDLCK) {
        errno = EAGAIN;
        return -1;
    }
    return syscall(SYS_fcntl, file, command, word);
}
int fstatfs64(int file, struct statfs64 *found) {
    int done = syscall(SYS_fstatfs, file, found);
    found->f_type = SYSTEM;
    return done;
}
int fstatfs(int file, struct statfs *found) {
    return fstatfs64(file, (struct statfs64 *)found);
}
";
