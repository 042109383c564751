//! Sessions of which everything is confirmed: should one end without a word, nothing of it is lost. And those of which
//! that is not so: they are known also where this node loses its power together with the client.
//!
//! **Invariant:** before a session is answered a request that lets it write, or that changed something, a power loss
//! can no longer take back that there is such a session, that it is not quiet, and which commit verifiers fragments
//! had.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use model::{Ino, SessionId};
use rustix::io::Errno;

use super::super::record::Record;
use super::super::record::losses::LossRecord;
use super::super::state::State;
use super::super::{Shard, caller::Caller};
use super::Losses;
use crate::errno::errno_of;

/// Sessions, each with a number of the time since when it wakes, and whether there are any, which each request asks.
#[derive(Clone, Debug, Default)]
pub(super) struct Waking {
    sessions: BTreeMap<SessionId, u64>,
    begun: u64,
    is_any: Arc<AtomicBool>,
}

impl Waking {
    fn add(&mut self, session: SessionId) {
        self.begun += 1;
        self.sessions.entry(session).or_insert(self.begun);
        self.is_any.store(true, Ordering::Release);
    }

    pub(super) fn remove(&mut self, session: &SessionId) {
        self.sessions.remove(session);
        self.is_any.store(!self.sessions.is_empty(), Ordering::Release);
    }

    /// The log was synced after the session began to wake `then`. Whether it has not begun anew since.
    fn is_done(&mut self, session: &SessionId, then: u64) -> bool {
        let is_same = self.sessions.get(session) == Some(&then);
        if is_same {
            self.remove(session);
        }
        is_same
    }
}

impl Losses {
    /// Whether a power loss would make any session quiet, or forgotten, that is about to be answered.
    pub fn is_any_waking(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.waking.is_any)
    }
}

impl State {
    /// The session is about to open a file for writing, or to change something.
    ///
    /// # Errors
    /// The errno of the log.
    pub fn writes(&mut self, session: SessionId) -> Result<(), Errno> {
        self.hold(session)?;
        if self.losses.quiet.contains(&session) {
            self.record(None, Record::Losses(LossRecord::Busy { session }))?;
            self.losses.awake.remove(&session);
            // A sync that is under way for it began before this record.
            self.losses.waking.remove(&session);
        }
        if !self.losses.awake.contains(&session) {
            self.losses.waking.add(session);
        }
        if self.losses.writing.insert(session) {
            self.losses.touched.begin(session);
        }
        self.losses.confirming.remove(&session);
        Ok(())
    }

    /// As [`State::writes`]; to this file.
    ///
    /// # Errors
    /// The errno of the log.
    pub fn writes_to(&mut self, session: SessionId, ino: Ino) -> Result<(), Errno> {
        self.writes(session)?;
        self.losses.touched.add(session, ino);
        Ok(())
    }

    /// The session says that all is confirmed, perhaps again. Whether that counts, or may when it is said again.
    fn confirms(&mut self, session: SessionId, again: bool) -> Result<bool, Errno> {
        if self.sessions.is_writing(session) {
            return Ok(false);
        }
        if !again {
            self.losses.confirming.insert(session);
            return Ok(true);
        }
        let counts = self.losses.confirming.remove(&session);
        if counts && self.losses.begun.contains_key(&session) {
            self.record(None, Record::Losses(LossRecord::Quiet { session }))?;
        }
        Ok(counts)
    }
}

impl Shard {
    pub(super) fn confirmed(&self, caller: Caller<'_>, again: bool) -> Result<bool, Errno> {
        let counts = self.lock().confirms(caller.session, again)?;
        if counts && again {
            // Where it cannot be synced, a power loss takes it back.
            self.sync_names();
        }
        Ok(counts)
    }

    /// Before the session is answered.
    ///
    /// # Errors
    /// The errno of the log's sync.
    pub(in super::super) fn wake(&self, session: SessionId) -> Result<(), Errno> {
        if !self.waking.load(Ordering::Acquire) {
            return Ok(());
        }
        let Some(then) = self.lock().losses.waking.sessions.get(&session).copied() else { return Ok(()) };
        // Under which verifiers it is about to write. What is learned is logged.
        let begun = self.lock().losses.begun.get(&session).cloned().unwrap_or_default();
        let unknown = self.peers.all().filter(|fragment| !begun.contains_key(fragment));
        unknown.for_each(|fragment| self.peers.look(fragment));
        self.sync_log().map_err(|error| errno_of(&error))?;
        let losses = &mut self.lock().losses;
        if losses.waking.is_done(&session, then) {
            losses.awake.insert(session);
        }
        Ok(())
    }
}
