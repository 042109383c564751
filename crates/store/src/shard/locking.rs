//! Locks and appends: what only one place can decide for all nodes.

use std::time::{Duration, Instant};

use rustix::io::Errno;
use wire::data::{FileLock, LockKind, Reply};

use super::locks::Holder;
use super::sessions::Outcome;
use super::{Caller, Shard};

/// After a restart nothing new is granted for so long: living clients show themselves every second and say first what
/// they hold.
const RECOVERY: Duration = Duration::from_secs(3);

/// The longest that one request waits for a lock; the client asks again. So a client that gave up is noticed.
const WAIT_MAX: Duration = Duration::from_millis(500);

impl Shard {
    pub(super) fn test_lock(&self, caller: Caller, ino: u64, owner: u64, lock: &FileLock) -> Reply {
        Reply::Lock(self.lock().locks.conflict(ino, Holder { session: caller.session, owner }, lock))
    }

    pub(super) fn set_lock(
        &self,
        caller: Caller,
        ino: u64,
        owner: u64,
        lock: &FileLock,
        wait_ms: u32,
    ) -> Result<Reply, Errno> {
        let holder = Holder { session: caller.session, owner };
        let give_up = Instant::now() + Duration::from_millis(u64::from(wait_ms)).min(WAIT_MAX);
        let mut state = self.lock();
        loop {
            state.tree.get(ino).ok_or(Errno::STALE)?;
            let recovering = self.recovered && self.started.elapsed() < RECOVERY;
            if (lock.kind == LockKind::Unlock || !recovering) && state.locks.set(ino, holder, lock) {
                // Giving up and downgrading may let others in.
                self.unlocked.notify_all();
                return Ok(Reply::Done);
            }
            let left = give_up.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(Errno::AGAIN);
            }
            state =
                self.unlocked.wait_timeout(state, left).expect("no thread panics while it holds the lock").0;
        }
    }

    pub(super) fn release_locks(&self, caller: Caller, ino: u64, owner: u64) -> Reply {
        self.lock().locks.release(ino, Holder { session: caller.session, owner });
        self.unlocked.notify_all();
        Reply::Done
    }

    pub(super) fn reclaim_locks(&self, caller: Caller, locks: &[(u64, u64, FileLock)]) -> Reply {
        let mut state = self.lock();
        for (ino, owner, lock) in locks {
            if !state.locks.set(*ino, Holder { session: caller.session, owner: *owner }, lock) {
                tracing::error!(ino, "a client came back too late: its lock was given to another");
            }
        }
        Reply::Done
    }

    /// A session is over: nothing is locked by it any more.
    pub(super) fn session_ended(&self, session: [u8; 16]) {
        self.lock().locks.release_session(session);
        self.unlocked.notify_all();
    }

    /// Gives each append a place of its own, one after the other.
    pub(super) fn reserve_end(&self, caller: Caller, ino: u64, size: u64, len: u64) -> Result<Reply, Errno> {
        let mut state = self.lock();
        if let Some(Outcome::Offset(offset)) = state.sessions.answered(caller.session, caller.id) {
            return Ok(Reply::Offset(offset));
        }
        // With one fragment the file's size is known here; else the client has measured it.
        let size = size.max(if self.measures_itself() { self.inode(&state, ino)?.attr.size } else { 0 });
        let end = state.ends.entry(ino).or_default();
        let offset = (*end).max(size);
        *end = offset.checked_add(len).ok_or(Errno::FBIG)?;
        state.sessions.answer(caller.session, caller.id, Outcome::Offset(offset));
        Ok(Reply::Offset(offset))
    }
}
