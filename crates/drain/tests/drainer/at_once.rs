//! Drainers of one session whose hosts are called alike, and that begin at one moment.

use std::fs;
use std::time::{Duration, Instant};

use drain::rendezvous::Rendezvous;

use super::node::{LIMIT, Node, library};
use super::read;

fn until(what: &str, so: impl Fn() -> bool) {
    let begun = Instant::now();
    while !so() {
        assert!(begun.elapsed() < LIMIT, "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The first word of a drainer does not get to the disk before there is `FOLDER/go`.
const WORD_WAITS: &str = "
int fsync(int fd) {
    char path[4096];
    if (path_of(fd, path, sizeof path) > 0 && strstr(path, \".status.\"))
        for (int n = 0; n < 6000 && access(\"FOLDER/go\", F_OK); n++)
            usleep(10000);
    return syscall(SYS_fsync, fd);
}
";

#[test]
fn of_two_that_begin_at_one_moment_one_is_refused() {
    let root = tempfile::tempdir().unwrap();
    let (mut first, mut second) = (Node::new(&root, "n1", &[]), Node::new(&root, "n2", &[]));
    first.name = "n";
    second.name = "n";
    second.preload = Some(library(&root, &WORD_WAITS.replace("FOLDER", root.path().to_str().unwrap())));
    let session = first.to.join(".forebay-drain/s");
    let has_draft = || {
        let names = fs::read_dir(&session).into_iter().flatten().flatten().map(|entry| entry.file_name());
        names.into_iter().any(|name| name.to_string_lossy().starts_with(".n.status."))
    };
    std::thread::scope(|scope| {
        let said = scope.spawn(|| second.refused());
        until("the second one's word is not begun", has_draft);
        first.start();
        fs::write(first.from.join("f"), "of the first").unwrap();
        assert_eq!(first.settle().failed, []);
        fs::write(root.path().join("go"), "").unwrap();
        let said = said.join().unwrap();
        assert!(said.contains("node n already drains "), "{said}");
    });
    assert!(!has_draft(), "its draft stays");
    assert_eq!(first.settle().failed, []);
    let statuses = Rendezvous::new(session).statuses().unwrap();
    assert!(statuses.len() == 1 && statuses[0].from.ends_with("n1"), "{statuses:?}");
}

#[test]
fn a_drainer_in_whose_place_another_speaks_ends_and_is_named() {
    let root = tempfile::tempdir().unwrap();
    let mut node = Node::new(&root, "n1", &[]);
    node.start();
    fs::write(node.from.join("f"), "contents").unwrap();
    assert_eq!(node.settle().failed, []);
    let file = node.to.join(".forebay-drain/s/n1.status");
    let mut said: serde_json::Value = serde_json::from_str(&read(&file)).unwrap();
    said["machine"] = "another".into();
    said["folder"][0] = 1.into();
    said["from"] = "/of/another".into();
    let speak = || fs::write(&file, said.to_string()).unwrap();
    speak();
    // There is something to say.
    fs::write(node.from.join("g"), "contents").unwrap();
    let mut running = node.running.take().unwrap();
    let begun = Instant::now();
    while running.try_wait().unwrap().is_none() && begun.elapsed() < LIMIT {
        std::thread::sleep(Duration::from_millis(20));
        // A word that was on its way replaces the other's, who goes on speaking.
        if !read(&file).contains("/of/another") {
            speak();
        }
    }
    let _ended = running.kill();
    assert_eq!(running.wait().unwrap().code(), Some(1), "it goes on");
    assert_eq!(read(&file), said.to_string(), "it took the other's word away");
    let statuses = Rendezvous::new(node.to.join(".forebay-drain/s")).statuses().unwrap();
    let refused = statuses.iter().find(|status| status.refused).unwrap();
    assert!(refused.from == node.from && refused.troubles[0].message.contains("/of/another"), "{refused:?}");
}
