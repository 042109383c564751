//! Sentences 12 and 18: what ends with a node that is gone, and what does not.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

use tests::processes::{Process, wait_until};

use crate::site::{GRACE, Site};

/// A machine that says nothing is given up after 11 s, and after the grace period what it had; with room for a busy
/// machine.
const GIVEN_UP_WITHIN: Duration = Duration::from_secs(60);

/// The node that is lost: it computes only.
const LOST: usize = 4;

/// A storage node, not the home shard's.
pub const STORAGE: usize = 2;

const LOCK: &str = "fcntl.flock(os.open(path, os.O_RDWR | os.O_CREAT), fcntl.LOCK_EX | fcntl.LOCK_NB)";

pub fn mount_process(site: &Site) {
    let folder = site.folder();
    let (mut holder, mut other) = (folder.peer(0, "shared"), folder.peer(1, "shared"));
    assert_eq!(holder.ask("f = os.open(path, os.O_RDWR | os.O_CREAT)"), "done");
    assert_eq!(holder.ask("fcntl.flock(f, fcntl.LOCK_EX)"), "None");
    site.mount_processes(0).iter().for_each(Process::kill);
    assert_eq!(holder.ask("os.pwrite(f, b'still open', 0)"), "10", "another process has taken over");
    assert_eq!(other.ask(LOCK), "EAGAIN", "and has the lock");
    assert_eq!(holder.ask("fcntl.flock(f, fcntl.LOCK_UN)"), "None");
    assert_eq!(other.ask(LOCK), "None");
}

/// The lock of a node is refused to others, and granted once the node is given up. How long that took.
fn until_given_up(site: &Site, silence: impl FnOnce()) -> Duration {
    let folder = site.folder();
    let (mut holder, mut other) = (folder.peer(LOST, "shared"), folder.peer(1, "shared"));
    assert_eq!(holder.ask(LOCK), "None");
    assert_eq!(other.ask(LOCK), "EAGAIN");
    assert_eq!(holder.ask("os.pwrite(os.open(path, os.O_RDWR), b'answered', 0)"), "8");
    // Open there and without a name: its space comes back only when the node is given up.
    assert_eq!(holder.ask("g = os.open(path + '2', os.O_RDWR | os.O_CREAT)"), "done");
    assert_eq!(holder.ask("os.pwrite(g, b'x' * 100000, 0)"), "100000");
    fs::remove_file(folder.at(1, "shared2")).expect("it is there");
    silence();
    let begin = Instant::now();
    assert_eq!(other.ask(LOCK), "EAGAIN", "the grace period has only begun");
    assert!(
        wait_until(GIVEN_UP_WITHIN, || other.ask(LOCK) == "None"),
        "the lock of a lost node is kept for ever"
    );
    let waited = begin.elapsed();
    assert_eq!(
        fs::read(folder.at(1, "shared")).expect("it is there"),
        b"answered",
        "what was answered is lost"
    );
    waited
}

pub fn silent_node(site: &Site) {
    let waited = until_given_up(site, || site.set_link(LOST, "down"));
    assert!(waited >= GRACE, "a node that could have come back lost its lock after {waited:?}");
    site.set_link(LOST, "up");
    let folder = site.folder();
    fs::write(folder.at(0, "file"), "of another node").expect("the buffer is writable");
    // It had given the storage nodes up, and looks for them.
    assert!(wait_until(GIVEN_UP_WITHIN, || fs::read(folder.at(LOST, "file")).is_ok()), "the node is back");
    assert_eq!(fs::read(folder.at(LOST, "file")).expect("the node is back"), b"of another node");
}

pub fn dead_node(site: &Site) {
    let waited = until_given_up(site, || site.hosts.kill_host(&site.hosts.names()[LOST]));
    assert!(waited >= GRACE, "a node that could have come back lost its lock after {waited:?}");
}

/// The error of a file of three stripes, if it cannot be read whole.
fn first_error(read: impl Fn(u64) -> std::io::Result<()>) -> Option<std::io::Error> {
    (0..3).find_map(|stripe| read(stripe).err())
}

pub fn silent_storage(site: &Site) {
    let folder = site.folder();
    // One stripe for each storage node.
    fs::write(folder.at(0, "file"), vec![3; 3 << 20]).expect("the buffer is writable");
    let file = File::open(folder.at(0, "file")).expect("it is there");
    let read = |stripe: u64| file.read_exact_at(&mut vec![0; 4096], stripe << 20);
    site.set_link(STORAGE, "down");
    let begin = Instant::now();
    let failed: Vec<_> = (0..3).filter_map(|stripe| read(stripe).err()).collect();
    assert_eq!(failed.len(), 1, "one stripe is out of reach: {failed:?}");
    assert_eq!(failed[0].raw_os_error(), Some(rustix::io::Errno::IO.raw_os_error()));
    assert!(begin.elapsed() >= GRACE, "EIO before the grace period was over");
    let log = site.mount_log(0);
    let name = &site.hosts.names()[STORAGE];
    assert!(
        log.lines().any(|line| line.contains("EIO") && line.contains(name)),
        "no log names {name}:\n{log}"
    );
    let again = Instant::now();
    assert!((0..20).all(|_| first_error(read).is_some()), "all stripes are there without a node");
    assert!(again.elapsed() < GRACE, "the grace period is waited for again: {:?}", again.elapsed());
    site.set_link(STORAGE, "up");
    assert!(wait_until(GIVEN_UP_WITHIN, || first_error(read).is_none()), "the node is back, and not used");
    for stripe in 0..3 {
        read(stripe).expect("the node is back");
    }
}
