//! Removing the objects of files that have no name and no reader any more: in the background, after the answer.
//!
//! An orphan is in the log until its objects are gone from every fragment, so none is forgotten in a crash. What is
//! removed on one fragment waits for no other ([`lanes`]), and sessions end by a thread that asks nobody.
//! Until no power loss brings an object back, the log knows of its file ([`confirming`]).
//!
//! **Invariant:** an object is removed only when the log that says so survives a power loss: a file that comes back
//! with its name has its bytes.

mod confirming;
mod lanes;

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, Weak};
use std::time::{Duration, Instant};

use super::Shard;
use lanes::Lanes;
use model::Ino;

/// How often to look for lost sessions, and how soon to ask a fragment again that did not answer.
const PAUSE: Duration = Duration::from_secs(1);

/// So many files are removed after one sync of the log.
const BATCH: usize = 256;

/// Fewer are not taken more often: who removes many files one by one would have the log synced for each.
const BETWEEN_BATCHES: Duration = Duration::from_millis(20);

/// The files whose objects are to be removed.
#[derive(Default)]
pub(super) struct Destroyer {
    queue: Mutex<Queue>,
    changed: Condvar,
}

#[derive(Default)]
struct Queue {
    waiting: VecDeque<Ino>,
    /// When the last of them were taken.
    taken: Option<Instant>,
    working: bool,
    closed: bool,
    /// What the log had without a name is in the queue, or open.
    swept: bool,
    /// The log has these durably without a name, and their objects are being removed.
    lanes: Lanes,
}

impl Destroyer {
    fn push(&self, ino: Ino) {
        self.lock().waiting.push_back(ino);
        self.changed.notify_all();
    }

    /// The next files to remove; none when a pause passed without one.
    fn next(&self) -> Vec<Ino> {
        let mut queue = self.lock();
        queue.working = false;
        self.changed.notify_all();
        if queue.waiting.is_empty() && !queue.closed {
            queue = self.changed.wait_timeout(queue, PAUSE).expect(POISON).0;
        }
        let early = queue.taken.map_or(Duration::ZERO, |last| BETWEEN_BATCHES.saturating_sub(last.elapsed()));
        if !queue.waiting.is_empty() {
            let few = |queue: &mut Queue| queue.waiting.len() < BATCH && !queue.closed;
            queue = self.changed.wait_timeout_while(queue, early, few).expect(POISON).0;
            queue.taken = Some(Instant::now());
        }
        let many = queue.waiting.len().min(BATCH);
        let next: Vec<Ino> = queue.waiting.drain(..many).collect();
        queue.working = !next.is_empty();
        next
    }

    /// Waits until nothing is left to remove, but not longer than `bound`.
    pub(super) fn wait_until_idle(&self, bound: Duration) {
        let queue = self.lock();
        let busy = |q: &mut Queue| q.working || !q.waiting.is_empty() || !q.lanes.are_done() || !q.swept;
        drop(self.changed.wait_timeout_while(queue, bound, busy).expect(POISON));
    }

    /// Lets the thread end.
    pub(super) fn close(&self) {
        self.lock().closed = true;
        self.changed.notify_all();
    }

    pub(super) fn is_closed(&self) -> bool {
        self.lock().closed
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Queue> {
        self.queue.lock().expect(POISON)
    }
}

const POISON: &str = "no thread panics while it holds the queue";

/// Starts the threads that remove objects, end lost sessions, and see to the log.
pub(super) fn start(shard: &Arc<Shard>) {
    for (name, run) in
        [("destroyer", run as fn(&Weak<Shard>)), ("expiry", expire), ("confirming", confirming::run)]
    {
        let shard = Arc::downgrade(shard);
        std::thread::Builder::new()
            .name(name.into())
            .spawn(move || run(&shard))
            .expect("the system has a thread for each namespace");
    }
}

/// Ends lost sessions. What this thread does waits for no disk and no other node: the locks of a client that died are
/// free when its grace period is over.
fn expire(shard: &Weak<Shard>) {
    loop {
        std::thread::sleep(PAUSE);
        match shard.upgrade() {
            Some(shard) if !shard.destroyer.is_closed() => shard.end_lost_sessions(Instant::now()),
            _ => return,
        }
    }
}

fn run(shard: &Weak<Shard>) {
    let mut kept_up = Instant::now();
    while let Some(shard) = shard.upgrade() {
        if shard.destroyer.is_closed() {
            return;
        }
        shard.sweep();
        let orphans = shard.destroyer.next();
        if !orphans.is_empty() {
            shard.destroy(orphans);
        }
        lanes::attend(&shard);
        if kept_up.elapsed() >= PAUSE {
            kept_up = Instant::now();
            shard.keep_up();
        }
    }
}

impl Shard {
    /// Queues the objects of a file for removal, if it has no name and nobody has it open. While it is not known yet
    /// who has what open, it is left to the sweep.
    pub(super) fn destroy_if_gone(&self, ino: Ino) {
        let mut state = self.lock();
        if state.tree.get(ino).is_some_and(|inode| inode.live && inode.nlink > 0) {
            state.unsettled.add(ino);
        }
        if state.tree.is_orphan(ino) && !state.sessions.is_open(ino) && !state.sessions.is_awaiting() {
            self.destroyer.push(ino);
        }
    }

    /// Once, when all sessions from before a restart have said what they have open: files without a name that the log
    /// still had, and those that lost it since.
    fn sweep(&self) {
        if self.destroyer.lock().swept {
            return;
        }
        let state = self.lock();
        if state.sessions.is_awaiting() {
            return;
        }
        let orphans: Vec<Ino> = state.tree.orphans().filter(|ino| !state.sessions.is_open(*ino)).collect();
        let mut queue = self.destroyer.lock();
        queue.waiting.extend(orphans);
        queue.swept = true;
    }

    fn destroy(&self, orphans: Vec<Ino>) {
        // A power loss must not give them their names back without their bytes.
        if let Err(error) = self.sync_log() {
            tracing::warn!(files = orphans.len(), %error, "cannot remove objects before the metadata log is synced");
            std::thread::sleep(PAUSE);
            return orphans.into_iter().for_each(|ino| self.destroyer.push(ino));
        }
        let mut queue = self.destroyer.lock();
        orphans.into_iter().for_each(|ino| queue.lanes.add(ino, self.layout.fragments_of(ino)));
    }
}
