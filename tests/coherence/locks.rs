//! Sentence 12: locks.

use std::fs;

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

pub fn whole_files(site: &Site) {
    let [mut one, mut two] = two(site);
    assert_eq!(one.ask("fcntl.flock(f, fcntl.LOCK_SH)"), GRANTED);
    assert_eq!(two.ask("fcntl.flock(f, fcntl.LOCK_SH)"), GRANTED);
    assert_eq!(two.ask("fcntl.flock(f, fcntl.LOCK_EX | fcntl.LOCK_NB)"), "EAGAIN");
    two.tell("fcntl.flock(f, fcntl.LOCK_EX)");
    one.crash(site);
    assert_eq!(two.answer(), GRANTED);
}

pub fn counter(site: &Site) {
    const STEPS: usize = 40;
    let folder = site.folder();
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
