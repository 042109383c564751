//! What has another name by the time that its copy is made, and what a drainer that ends does not know of.

use std::fs;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use drain::rendezvous::Rendezvous;
use drain::status::{Answer, Status};
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};
use rustix::fs::{AtFlags, CWD, Mode, OFlags};

use super::node::{LIMIT, Node};

/// An ordinary user, who may not read everything.
const NOBODY: u32 = 65534;

fn said(node: &Node) -> Status {
    let mut statuses = Rendezvous::new(node.to.join(".forebay-drain/s")).statuses().unwrap();
    statuses.pop().unwrap()
}

/// Has a drainer asked for everything, as `forebay drain wait` does, and does something while it is at work.
fn waited(node: &Node, during: impl FnOnce()) -> Answer {
    let rendezvous = Rendezvous::new(node.to.join(".forebay-drain/s"));
    let id = rendezvous.request().unwrap();
    // It looks for requests twice a second.
    std::thread::sleep(Duration::from_millis(1200));
    during();
    let begun = Instant::now();
    loop {
        if let Some(answer) = rendezvous.answers(&id).unwrap().pop() {
            rendezvous.withdraw(&id);
            return answer;
        }
        assert!(begun.elapsed() < LIMIT, "nobody answers");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn what_is_renamed_while_everything_is_waited_for_is_waited_for_under_its_new_name() {
    let root = tempfile::tempdir().unwrap();
    let mut node = Node::new(&root, "n1", &["--workers", "1", "--limit", "2MiB"]);
    let (before, after) = (node.from.join("run.tmp"), node.from.join("run"));
    fs::create_dir(&before).unwrap();
    for n in 0..6 {
        fs::write(before.join(format!("part{n}")), vec![n; 1 << 20]).unwrap();
    }
    node.start();
    node.wait_said("it runs", |said| said.enqueued > 0);
    let answer = waited(&node, || fs::rename(&before, &after).unwrap());
    assert_eq!(answer.failed, []);
    for n in 0..6 {
        let path = node.to.join(format!("run/part{n}"));
        let bytes = fs::read(&path).unwrap_or_else(|error| panic!("called moved: {path:?}: {error}"));
        assert!(bytes == vec![n; 1 << 20], "{path:?}");
    }
}

/// A file that comes with all its bytes, of which the kernel tells nobody.
fn link_unnamed(folder: &Path, name: &str) {
    let file = rustix::fs::open(folder, OFlags::TMPFILE | OFlags::WRONLY, Mode::RUSR | Mode::WUSR).unwrap();
    rustix::io::write(&file, b"contents").unwrap();
    let path = PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
    rustix::fs::linkat(CWD, &path, CWD, folder.join(name), AtFlags::SYMLINK_FOLLOW).unwrap();
}

#[test]
fn a_drainer_that_is_stopped_says_that_it_owes_what_it_was_told_nothing_of() {
    let root = tempfile::tempdir().unwrap();
    let mut node = Node::new(&root, "n1", &[]);
    node.start();
    fs::write(node.from.join("f"), "contents").unwrap();
    assert_eq!(node.settle().failed, []);
    link_unnamed(&node.from, "unnoticed");
    node.stop();
    let last = said(&node);
    assert!(last.ended && !last.owes_nothing() || node.to.join("unnoticed").exists(), "{last:?}");
}

#[test]
fn what_could_not_be_looked_at_after_the_job_is_owed_by_the_last_word_too() {
    let root = tempfile::tempdir().unwrap();
    fs::set_permissions(root.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let mut node = Node::new(&root, "n1", &[]);
    let closed = node.from.join("closed");
    fs::create_dir(&closed).unwrap();
    fs::write(closed.join("f"), "contents").unwrap();
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o000)).unwrap();
    let mut command = node.command();
    if rustix::process::geteuid().is_root() {
        for path in [&closed, &node.from, &node.to] {
            chown(path, Some(NOBODY), Some(NOBODY)).unwrap();
        }
        command.uid(NOBODY).gid(NOBODY);
    }
    node.running = Some(command.spawn().unwrap());
    let [trouble] = &node.settle().failed[..] else { panic!("a folder that cannot be read is not named") };
    assert!(trouble.path == "closed", "{trouble:?}");
    node.stop();
    let last = said(&node);
    assert!(last.settled && last.ended && !last.owes_nothing(), "it owes nothing, it says: {last:?}");
    assert_eq!(last.troubles.first().map(|trouble| &*trouble.path), Some("closed"));
}

#[test]
fn a_start_is_said_to_be_refused_before_it_is_taken_back_that_it_begins() {
    let root = tempfile::tempdir().unwrap();
    let mut node = Node::new(&root, "n1", &[]);
    let session = node.to.join(".forebay-drain/s");
    // No names can be claimed: that is found after the first word.
    fs::create_dir_all(session.join("n1.claims")).unwrap();
    let told = inotify::init(CreateFlags::NONBLOCK).unwrap();
    inotify::add_watch(&told, &session, WatchFlags::MOVED_TO | WatchFlags::DELETE).unwrap();
    node.refused();
    let (mut buffer, mut events) = ([std::mem::MaybeUninit::uninit(); 4096], Vec::new());
    let mut reader = inotify::Reader::new(&told, &mut buffer);
    while let Ok(event) = reader.next() {
        let name = event.file_name().map(|name| name.to_string_lossy().into_owned());
        events.push((event.events().contains(ReadFlags::DELETE), name.unwrap_or_default()));
    }
    let place = |is_gone: bool, end: &str| {
        events
            .iter()
            .position(|(gone, name)| *gone == is_gone && name.ends_with(end) && !name.starts_with('.'))
    };
    let (begins, refused, back) =
        (place(false, "n1.status"), place(false, ".refused"), place(true, "n1.status"));
    assert!(begins.is_some() && begins < refused && refused < back, "who lists then misses it: {events:?}");
}
