//! Sentence 12: locks.

use std::fs;
use std::time::Duration;

use tests::injection::{Call, Fault, Trace};
use tests::processes::Process;

use crate::folder::Folder;
use crate::lost::STORAGE;
use crate::peer::Peer;
use crate::site::Site;

const OPEN: &str = "f = os.open(path, os.O_RDWR | os.O_CREAT)";

/// Two processes on two nodes, with the same file open.
fn two(site: &Site) -> [Peer; 2] {
    let folder = site.folder();
    let mut peers = [folder.peer(0, "shared"), folder.peer(3, "shared")];
    for peer in &mut peers {
        assert_eq!(peer.ask(OPEN), "done");
    }
    peers
}

/// Python's `lockf` takes and gives up range locks of fcntl(2): length, then start.
fn lock(how: &str, len: u32, start: u32) -> String {
    format!("fcntl.lockf(f, fcntl.{how}, {len}, {start})")
}

const GRANTED: &str = "None";

pub fn ranges(site: &Site) {
    let [mut one, mut two] = two(site);
    assert_eq!(one.ask(&lock("LOCK_EX", 100, 0)), GRANTED);
    assert_eq!(two.ask(&lock("LOCK_SH | fcntl.LOCK_NB", 10, 90)), "EAGAIN");
    assert_eq!(two.ask(&lock("LOCK_EX | fcntl.LOCK_NB", 10, 100)), GRANTED, "a range beside it is free");
    // Whoever waits is let in by the unlock, not before.
    two.tell(&lock("LOCK_SH", 10, 90));
    assert_eq!(one.ask("time.sleep(0.3)"), GRANTED);
    assert_eq!(one.ask(&lock("LOCK_UN", 50, 50)), GRANTED);
    assert_eq!(two.answer(), GRANTED);
    assert_eq!(two.ask(&lock("LOCK_EX | fcntl.LOCK_NB", 10, 40)), "EAGAIN", "the rest is still locked");
    assert_eq!(one.ask(&lock("LOCK_EX | fcntl.LOCK_NB", 1, 95)), "EAGAIN");
    // A second open file of the same process: closing it ends the locks, as POSIX wants it.
    assert_eq!(one.ask("os.close(os.open(path, os.O_RDONLY))"), GRANTED);
    assert_eq!(two.ask(&lock("LOCK_EX | fcntl.LOCK_NB", 10, 40)), GRANTED);
    two.crash(site);
    assert_eq!(one.ask(&lock("LOCK_EX", 200, 0)), GRANTED);
}

pub fn open_files(site: &Site) {
    let [mut one, mut two] = two(site);
    // F_OFD_SETLK, of the first ten bytes, for writing: it belongs to the open file and not to the process.
    let take = "None if fcntl.fcntl(f, 37, struct.pack('hhqqi4x', fcntl.F_WRLCK, 0, 0, 10, 0)) else 0";
    assert_eq!(one.ask(take), GRANTED);
    assert_eq!(one.ask("g = os.dup(f)"), "done");
    assert_eq!(one.ask("os.close(f)"), GRANTED);
    assert_eq!(two.ask(take), "EAGAIN", "a copy of the descriptor keeps it");
    assert_eq!(one.ask("os.close(g)"), GRANTED);
    let granted = (0..100).any(|_| {
        // The kernel tells of the last close after it.
        std::thread::sleep(std::time::Duration::from_millis(50));
        two.ask(take) == GRANTED
    });
    assert!(granted, "the last close ends it");
    assert_eq!(one.ask(OPEN), "done");
    assert_eq!(one.ask(&lock("LOCK_EX | fcntl.LOCK_NB", 10, 5)), "EAGAIN");
    assert_eq!(one.ask(&lock("LOCK_EX | fcntl.LOCK_NB", 10, 10)), GRANTED);
}

pub fn whole_files(site: &Site) {
    let [mut one, mut two] = two(site);
    assert_eq!(one.ask("fcntl.flock(f, fcntl.LOCK_SH)"), GRANTED);
    assert_eq!(two.ask("fcntl.flock(f, fcntl.LOCK_SH)"), GRANTED);
    assert_eq!(two.ask("fcntl.flock(f, fcntl.LOCK_EX | fcntl.LOCK_NB)"), "EAGAIN");
    two.tell("fcntl.flock(f, fcntl.LOCK_EX)");
    one.crash(site);
    assert_eq!(two.answer(), GRANTED);
}

/// Opens the file for each try, as HDF5 does.
const TRY_AGAIN: &str = "
n = 0
while n < STEPS:
 f = os.open(path, os.O_RDWR)
 try:
  fcntl.flock(f, fcntl.LOCK_EX | fcntl.LOCK_NB)
  v = int(os.pread(f, 9, 0))
  time.sleep(0.005)
  os.pwrite(f, b'%d' % (v + 1), 0)
  n += 1
 except BlockingIOError:
  pass
 os.close(f)";

/// The kernel tells of a close afterwards: perhaps when it has given the next open file the address of this one, which
/// is how it names who owns a lock.
pub fn tried_again(site: &Site) {
    const STEPS: usize = 100;
    let nodes = [0, 3];
    let logs = tempfile::tempdir().expect("there is room");
    let slow = |mount: Process| {
        // Requests are handled in another order than the kernel made them.
        let read = Call { file: Some("/dev/fuse".into()), ..Call::nth("read", 5) };
        let late = Fault::Late(read, 7, Duration::from_millis(5));
        Trace::of(late, &logs.path().join(mount.pid.to_string())).attach(mount.pid.unsigned_abs())
    };
    let slowed: Vec<_> = nodes.iter().flat_map(|&node| site.mount_processes(node)).map(slow).collect();
    let folder = site.folder();
    fs::write(folder.at(0, "shared"), "0").expect("the buffer is writable");
    let script = TRY_AGAIN.replace("STEPS", &STEPS.to_string());
    let mut peers = nodes.map(|node| folder.peer(node, "shared"));
    peers.iter_mut().for_each(|peer| peer.tell(&format!("exec({script:?})")));
    for peer in &mut peers {
        assert_eq!(peer.answer(), "None");
    }
    drop(slowed);
    let counted = fs::read_to_string(folder.at(4, "shared")).expect("it is text");
    assert_eq!(counted, (nodes.len() * STEPS).to_string());
}

pub fn counter(site: &Site) {
    count(&site.folder());
}

/// Commit coherence: an unlock makes visible what was written under the lock.
pub fn counter_held_back(site: &Site) {
    count(&site.commit_folder());
}

fn count(folder: &Folder<'_>) {
    const STEPS: usize = 40;
    fs::write(folder.at(0, "shared"), "0").expect("the buffer is writable");
    let step = format!(
        "exec('for n in range({STEPS}):\\n {}\\n v = int(os.pread(f, 9, 0))\\n os.pwrite(f, b\"%d\" % (v + 1), 0)\\n {}')",
        lock("LOCK_EX", 0, 0),
        lock("LOCK_UN", 0, 0)
    );
    let mut peers: Vec<Peer> = (0..4).map(|node| folder.peer(node, "shared")).collect();
    for peer in &mut peers {
        peer.ask(OPEN);
    }
    peers.iter_mut().for_each(|peer| peer.tell(&step));
    for peer in &mut peers {
        assert_eq!(peer.answer(), "None");
    }
    assert_eq!(fs::read_to_string(folder.at(4, "shared")).expect("it is text"), (4 * STEPS).to_string());
}

/// Commit coherence: a mount that dies while it sends what an unlock makes visible still has the lock.
pub fn kept_until_sent(site: &Site) {
    let folder = site.commit_folder();
    let [mut one, mut two] = [0, 3].map(|node| folder.peer(node, "shared"));
    assert_eq!((one.ask(OPEN), two.ask(OPEN)), ("done".to_owned(), "done".to_owned()));
    assert_eq!(one.ask(&lock("LOCK_EX", 0, 0)), GRANTED);
    // One stripe for each storage node.
    assert_eq!(one.ask("[os.pwrite(f, b'new', n << 20) for n in range(3)]"), "[3, 3, 3]");
    site.set_link(STORAGE, "down");
    one.tell(&lock("LOCK_UN", 0, 0));
    std::thread::sleep(Duration::from_millis(300));
    site.mount_processes(0).iter().for_each(Process::kill);
    let granted = (0..20).any(|_| {
        std::thread::sleep(Duration::from_millis(50));
        two.ask(&lock("LOCK_EX | fcntl.LOCK_NB", 0, 0)) == GRANTED
    });
    site.set_link(STORAGE, "up");
    assert!(!granted, "the lock was another's before what was written under it could be seen");
    assert_eq!(one.answer(), GRANTED);
    assert_eq!(two.ask(&lock("LOCK_EX", 0, 0)), GRANTED);
    assert_eq!(two.ask("[os.pread(f, 3, n << 20) for n in range(3)]"), "[b'new', b'new', b'new']");
}

pub fn interrupted(site: &Site) {
    let [mut one, mut two] = two(site);
    for (take, wait) in [
        (lock("LOCK_EX", 0, 0), lock("LOCK_EX", 10, 10)),
        ("fcntl.flock(f, fcntl.LOCK_EX)".to_owned(), "fcntl.flock(f, fcntl.LOCK_SH)".to_owned()),
    ] {
        assert_eq!(one.ask(&take), GRANTED);
        assert_eq!(two.ask("alarm(0.2)"), GRANTED);
        assert_eq!(two.ask(&wait), "EINTR");
    }
    // A process that waits can be killed, and leaves nothing in the way.
    two.tell(&lock("LOCK_EX", 10, 10));
    two.crash(site);
    assert_eq!(one.ask(&lock("LOCK_UN", 0, 0)), GRANTED);
    assert_eq!(one.ask(&lock("LOCK_EX | fcntl.LOCK_NB", 0, 0)), GRANTED);
}
