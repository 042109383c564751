//! Removing the objects of files that have no name and no reader any more: in the background, after the answer.
//!
//! An orphan is in the log until its objects are gone from every fragment, so none is forgotten in a crash.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, Weak};
use std::time::{Duration, Instant};

use rustix::io::Errno;

use super::Shard;
use super::record::Record;

/// How often lost sessions are looked for, and how soon a fragment that did not answer is asked again.
const PAUSE: Duration = Duration::from_secs(1);

/// The log is not synced more often for removals.
const BETWEEN_SYNCS: Duration = Duration::from_millis(20);

/// The files whose objects are to be removed.
#[derive(Default)]
pub(super) struct Destroyer {
    queue: Mutex<Queue>,
    changed: Condvar,
}

#[derive(Default)]
struct Queue {
    waiting: VecDeque<u64>,
    /// So many of them, from the front, have lost their names durably.
    durable: usize,
    /// When the log was synced for them last.
    synced: Option<Instant>,
    working: bool,
    closed: bool,
    /// What the log had without a name is in the queue, or open.
    swept: bool,
}

impl Destroyer {
    fn push(&self, ino: u64) {
        self.lock().waiting.push_back(ino);
        self.changed.notify_all();
    }

    /// The next file to remove; `None` when a pause passed without one.
    fn next(&self) -> Option<u64> {
        let mut queue = self.lock();
        queue.working = false;
        self.changed.notify_all();
        if queue.waiting.is_empty() && !queue.closed {
            queue = self.changed.wait_timeout(queue, PAUSE).expect(POISON).0;
        }
        let next = queue.waiting.pop_front();
        queue.working = next.is_some();
        next
    }

    /// Waits until nothing is left to remove, but not longer than `bound`.
    pub(super) fn wait_until_idle(&self, bound: Duration) {
        let queue = self.lock();
        drop(
            self.changed
                .wait_timeout_while(queue, bound, |q| q.working || !q.waiting.is_empty() || !q.swept)
                .expect(POISON),
        );
    }

    /// Lets the thread end.
    pub(super) fn close(&self) {
        self.lock().closed = true;
        self.changed.notify_all();
    }

    fn is_closed(&self) -> bool {
        self.lock().closed
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Queue> {
        self.queue.lock().expect(POISON)
    }
}

const POISON: &str = "no thread panics while it holds the queue";

/// Starts the thread that removes objects, ends lost sessions, and sees to the log.
pub(super) fn start(shard: &Arc<Shard>) {
    let shard = Arc::downgrade(shard);
    std::thread::Builder::new()
        .name("destroyer".into())
        .spawn(move || run(&shard))
        .expect("the system has a thread for each namespace");
}

fn run(shard: &Weak<Shard>) {
    let mut expired = Instant::now();
    while let Some(shard) = shard.upgrade() {
        if shard.destroyer.is_closed() {
            return;
        }
        shard.sweep();
        if let Some(ino) = shard.destroyer.next() {
            shard.destroy(ino);
        }
        if expired.elapsed() < PAUSE {
            continue;
        }
        expired = Instant::now();
        shard.keep_up();
        let lost = shard.lock().sessions.expire(expired, shard.peers.grace());
        for (session, closed) in lost {
            shard.session_ended(session);
            closed.into_iter().for_each(|ino| shard.destroy_if_gone(ino));
        }
    }
}

impl Shard {
    /// Queues the objects of a file for removal, if it has no name and nobody has it open. While it is not known yet who
    /// has what open, it is left to the sweep.
    pub(super) fn destroy_if_gone(&self, ino: u64) {
        let state = self.lock();
        if state.tree.is_orphan(ino) && !state.sessions.is_open(ino) && !state.sessions.is_awaiting() {
            self.destroyer.push(ino);
        }
    }

    /// Once, when all sessions from before a restart have said what they have open: files without a name that the log still
    /// had, and those that lost it since.
    fn sweep(&self) {
        if self.destroyer.lock().swept {
            return;
        }
        let state = self.lock();
        if state.sessions.is_awaiting() {
            return;
        }
        let orphans: Vec<u64> = state.tree.orphans().filter(|ino| !state.sessions.is_open(*ino)).collect();
        let mut queue = self.destroyer.lock();
        queue.waiting.extend(orphans);
        queue.swept = true;
    }

    /// Sees to it that a power loss does not bring the name back of a file whose objects are about to go: with one sync for
    /// all that wait.
    fn settle_removals(&self) -> Result<(), Errno> {
        let early = {
            let mut queue = self.destroyer.lock();
            if queue.durable > 0 {
                queue.durable -= 1;
                return Ok(());
            }
            queue.synced.map_or(Duration::ZERO, |last| BETWEEN_SYNCS.saturating_sub(last.elapsed()))
        };
        // Those that are removed meanwhile share the sync.
        std::thread::sleep(early);
        let waiting = self.destroyer.lock().waiting.len();
        self.sync_log().map_err(|error| super::errno_of(&error))?;
        let mut queue = self.destroyer.lock();
        (queue.durable, queue.synced) = (waiting, Some(Instant::now()));
        Ok(())
    }

    fn destroy(&self, ino: u64) {
        if let Err(errno) = self.settle_removals() {
            tracing::warn!(ino, %errno, "cannot make a removal durable yet");
            std::thread::sleep(PAUSE);
            self.destroyer.push(ino);
            return;
        }
        let mut all = true;
        for fragment in self.layout.fragments_of(ino) {
            let result = if self.peers.is_self(fragment) {
                self.objects.destroy(ino).map_err(|e| super::errno_of(&e))
            } else {
                self.peers.destroy(fragment, ino)
            };
            if let Err(errno) = result {
                tracing::warn!(ino, fragment, %errno, "cannot remove an object yet");
                all = false;
            }
        }
        if all {
            // If the log cannot take it, the orphan is found and removed again after the next start.
            let _logged = self.lock().record(None, Record::Destroyed { ino });
        } else {
            std::thread::sleep(PAUSE);
            self.destroyer.push(ino);
        }
    }
}
