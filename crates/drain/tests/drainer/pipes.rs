//! Pipes in the place of files: nobody waits for who would open the other end.

use std::fs;
use std::path::Path;
use std::sync::mpsc;

use drain::status::Answer;
use rustix::fs::{CWD, FileType, Mode, mknodat};

use super::node::{LIMIT, Node};
use super::{Silent, read};

pub(crate) fn make_pipe(path: &Path) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    mknodat(CWD, path, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
}

/// What `work` gives, unless that does not end.
#[track_caller]
fn soon<T: Send + 'static>(what: &str, work: impl FnOnce() -> T + Send + 'static) -> T {
    let (done, result) = mpsc::channel();
    std::thread::spawn(move || done.send(work()));
    result.recv_timeout(LIMIT / 3).unwrap_or_else(|_| panic!("{what} hangs"))
}

#[test]
fn a_start_says_which_file_is_a_pipe() {
    let names = [
        "pfs/.forebay-drain/n1.flash-failed",
        "pfs/.forebay-drain/s/n1.status",
        "pfs/.forebay-drain/s/n1.claims",
        "pfs/.forebay-drain/s/n1.jsonl",
        "pfs/spectral.log",
        "n1/.forebay-drain/ledger",
        "n1/.forebay-drain/pfs.json",
        "n1/.forebay-drain/remarks",
    ];
    for name in names {
        let root = tempfile::tempdir().unwrap();
        let mut node = Node::new(&root, "n1", &[]);
        make_pipe(&root.path().join(name));
        let said = node.refused();
        let file = name.rsplit('/').next().unwrap();
        assert!(said.contains("not a regular file") && said.contains(file), "{name}: {said}");
        fs::remove_file(root.path().join(name)).unwrap();
        node.start();
        fs::write(node.from.join("f"), "text").unwrap();
        assert_eq!(
            (node.settle().failed.as_slice(), read(&node.to.join("f")).as_str()),
            (&[][..], "text"),
            "{name}"
        );
    }
}

#[test]
fn who_waits_and_who_commits_says_which_file_is_a_pipe() {
    let root = tempfile::tempdir().unwrap();
    let mut node = Node::new(&root, "n1", &[]);
    fs::write(node.from.join("f"), "text").unwrap();
    node.start();
    let answer = node.settle();
    let (rendezvous, to) = (node.to.join(".forebay-drain/s"), node.to.clone());
    let wait = |rendezvous: &Path| {
        let rendezvous = rendezvous.to_owned();
        soon("a wait", move || drain::wait::wait(&rendezvous, Some(LIMIT), &mut Silent))
    };
    for name in ["n2.status", "n2.01234567.refused"] {
        make_pipe(&rendezvous.join(name));
        let said = wait(&rendezvous).unwrap_err().to_string();
        assert!(said.contains("not a regular file") && said.contains(name), "{said}");
        fs::remove_file(rendezvous.join(name)).unwrap();
    }
    wait(&rendezvous).unwrap();
    let commit = move |rendezvous: &Path, answer: &Answer| {
        let (rendezvous, to, answer) = (rendezvous.to_owned(), to.clone(), answer.clone());
        soon("a commit", move || drain::commit::commit(&rendezvous, &to, "f", &[answer]))
    };
    for (path, also) in
        [(node.to.join("f.committed"), "no commit has made it"), (node.to.join("latest"), "no commit")]
    {
        make_pipe(&path);
        let said = commit(&rendezvous, &answer).unwrap_err().to_string();
        assert!(said.contains(also) && said.contains(path.to_str().unwrap()), "{said}");
        fs::remove_file(&path).unwrap();
    }
    make_pipe(&rendezvous.join("n2.jsonl"));
    commit(&rendezvous, &answer).unwrap();
    // There is something that the job may have drained.
    let said = commit(&rendezvous, &answer).unwrap_err().to_string();
    assert!(said.contains("not a regular file") && said.contains("n2.jsonl"), "{said}");
}
