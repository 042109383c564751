//! Locks and appends: what only one place can decide for all nodes.

use std::time::{Duration, Instant};

use model::{Ino, SessionId};
use rustix::io::Errno;
use wire::data::{FileLock, LockKind, Reply};

use super::locks::{Holder, Verdict};
use super::record::Record;
use super::sessions::Outcome;
use super::state::State;
use super::{Caller, Shard};

/// The longest that one request waits for a lock; the client asks again. So a client that gave up is noticed.
const WAIT_MAX: Duration = Duration::from_millis(500);

impl Shard {
    /// Who is in the way of a lock. That nobody is, is known once everybody who may hold one has said so.
    pub(super) fn test_lock(
        &self,
        caller: Caller<'_>,
        ino: Ino,
        owner: u64,
        lock: &FileLock,
    ) -> Result<Reply, Errno> {
        let state = self.lock();
        let found = state.locks.conflict(ino, Holder { session: caller.session, owner }, lock);
        if found.is_none() && lock.kind != LockKind::Unlock && state.sessions.is_awaiting() {
            return Err(Errno::INPROGRESS);
        }
        Ok(Reply::Lock(found))
    }

    pub(super) fn set_lock(
        &self,
        caller: Caller<'_>,
        ino: Ino,
        owner: u64,
        lock: &FileLock,
        wait_ms: u32,
    ) -> Result<Reply, Errno> {
        if !lock.is_sound() {
            return Err(Errno::INVAL);
        }
        let holder = Holder { session: caller.session, owner };
        let give_up = Instant::now() + Duration::from_millis(u64::from(wait_ms)).min(WAIT_MAX);
        let mut state = self.lock();
        loop {
            state.tree.get(ino).ok_or(Errno::STALE)?;
            let takes = lock.kind != LockKind::Unlock;
            let refusal = if takes && state.sessions.is_awaiting() {
                Errno::INPROGRESS
            } else if takes && state.locks.conflict(ino, holder, lock).is_some() {
                Errno::AGAIN
            } else {
                if takes {
                    state.hold(caller.session)?;
                }
                if state.locks.set(ino, holder, lock) != Verdict::Granted {
                    return Err(Errno::NOLCK);
                }
                // Giving up and downgrading may let others in.
                self.unlocked.notify_all();
                return Ok(Reply::Done);
            };
            let left = give_up.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(refusal);
            }
            state =
                self.unlocked.wait_timeout(state, left).expect("no thread panics while it holds the lock").0;
        }
    }

    pub(super) fn release_locks(&self, caller: Caller<'_>, ino: Ino, owner: u64) -> Reply {
        self.lock().locks.release(ino, Holder { session: caller.session, owner });
        self.unlocked.notify_all();
        Reply::Done
    }

    /// What the session holds is this and no more: what its former process was granted and did not hear of is given up.
    pub(super) fn reclaim_locks(
        &self,
        caller: Caller<'_>,
        locks: &[(Ino, u64, FileLock)],
    ) -> Result<Reply, Errno> {
        let mut state = self.lock();
        state.locks.release_session(caller.session);
        if !locks.is_empty() {
            state.hold(caller.session)?;
        }
        for (ino, owner, lock) in locks.iter().filter(|(_, _, lock)| lock.is_sound()) {
            let holder = Holder { session: caller.session, owner: *owner };
            if state.locks.set(*ino, holder, lock) != Verdict::Granted {
                // It may have been about to give it up; or it was away for longer than the grace period.
                tracing::warn!(%ino, "a lock that a client says it holds is another's by now");
            }
        }
        state.sessions.came_back(caller.session);
        self.unlocked.notify_all();
        Ok(Reply::Done)
    }

    /// A connection of this session is there.
    pub fn connected(&self, session: SessionId) {
        self.lock().sessions.connected(session);
    }

    /// This session has lost connections, and begins anew.
    pub fn fenced(&self, session: SessionId) {
        self.lock().sessions.keep_answers(session);
    }

    /// A connection of this session went.
    pub fn disconnected(&self, session: SessionId) {
        // A thread that panicked with the lock has left nothing to keep right.
        if let Ok(mut state) = self.state.lock() {
            state.sessions.disconnected(session, Instant::now());
        }
    }

    /// The session says that it ends.
    pub(super) fn goodbye(&self, caller: Caller<'_>) -> Reply {
        let mut state = self.lock();
        let closed = state.sessions.goodbye(caller.session);
        // Whoever works for a user does not name what is left.
        if caller.is_checked() && !state.losses.is_confirming(caller.session) {
            self.ended_silently(&mut state, caller.session);
        } else {
            self.ended(&mut state, caller.session);
        }
        drop(state);
        closed.into_iter().for_each(|ino| self.destroy_if_gone(ino));
        Reply::Done
    }

    /// Ends the sessions that have been lost for longer than the grace period. All under one lock: one that comes back
    /// meanwhile begins anew, and must not lose what it is granted then.
    pub(super) fn end_lost_sessions(&self, now: Instant) {
        let mut state = self.lock();
        let lost = state.sessions.expire(now, self.peers.grace());
        for (session, _) in &lost {
            let writes = state.losses.may_have_written(*session);
            self.ended_silently(&mut state, *session);
            // It may only be out of reach.
            if writes {
                state.losses.give_up(*session);
            }
        }
        drop(state);
        lost.into_iter().flat_map(|(_, closed)| closed).for_each(|ino| self.destroy_if_gone(ino));
    }

    /// As [`Shard::ended`], and the session did not say what it leaves unconfirmed.
    fn ended_silently(&self, state: &mut State, session: SessionId) {
        let Err(errno) = state.leave_silently(session, &self.layout) else {
            return self.ended(state, session);
        };
        // To stages it stays one that wrote and does not say what it lost; its end is noted at the next start.
        tracing::error!(%errno, "cannot note what a client that is gone may have left unconfirmed");
        state.locks.release_session(session);
        self.unlocked.notify_all();
    }

    /// Nothing is locked by the session any more.
    fn ended(&self, state: &mut State, session: SessionId) {
        state.locks.release_session(session);
        // If the log cannot take it, a restarted shard waits for the session in vain, until the grace period is over.
        let _logged = state.record(None, Record::Ended { session });
        self.unlocked.notify_all();
    }

    /// Gives each append a place of its own, one after the other.
    pub(super) fn reserve_end(
        &self,
        caller: Caller<'_>,
        ino: Ino,
        size: u64,
        len: u64,
    ) -> Result<Reply, Errno> {
        let mut state = self.lock();
        if let Some(Outcome::Offset(offset)) = state.sessions.answered(caller.session, caller.id) {
            return Ok(Reply::Offset(offset));
        }
        // With one fragment the file's size is known here; else the client has measured it.
        let size = size.max(if self.measures_itself() { self.inode(&state, ino)?.attr.size } else { 0 });
        let offset = state.ends.get(&ino).copied().unwrap_or(0).max(size);
        let end = offset.checked_add(len).ok_or(Errno::FBIG)?;
        // In the log, so that nobody else is given the place before it is written, not even after a restart.
        state.commit(caller, Record::Reserved { ino, offset, end }, Outcome::Offset(offset))?;
        Ok(Reply::Offset(offset))
    }
}

impl State {
    /// No append to this file is under way. Where the log cannot take that, it is so until the next start, at which the
    /// place after the last append is kept free.
    pub fn nobody_appends(&mut self, ino: Ino) {
        if self.record(None, Record::Reserved { ino, offset: 0, end: 0 }).is_err() {
            self.ends.remove(&ino);
        }
    }
}
