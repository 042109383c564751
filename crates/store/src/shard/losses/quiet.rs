//! Sessions of which everything is confirmed: should one end without a word, nothing of it is lost. And those of which
//! that is not so: they are known also where this node loses its power together with the client.
//!
//! **Invariant:** before a session is answered a request that lets it write, or that changed something, a power loss
//! can no longer take back that there is such a session, that it is not quiet, and which commit verifiers fragments
//! had.

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

impl Losses {
    /// Whether a power loss would make any session quiet, or forgotten, that is about to be answered.
    pub fn is_any_waking(&self) -> Arc<AtomicBool> {
        self.waking.is_any()
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
        if self.losses.writing.insert(session) && !self.losses.was_given_up(session) {
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

    /// The session was ended, goes on, and has this open: it may have written meanwhile.
    ///
    /// # Errors
    /// The errno of the log.
    pub fn is_back(&mut self, session: SessionId, opens: &[(Ino, u32, u32)]) -> Result<(), Errno> {
        if opens.iter().any(|(_, _, writers)| *writers > 0) {
            self.losses.given_up.add(session);
        }
        if self.losses.was_given_up(session) { self.writes(session) } else { Ok(()) }
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
        let is_new = !self.losses.quiet.contains(&session);
        if counts && is_new && self.losses.begun.contains_key(&session) {
            self.record(None, Record::Losses(LossRecord::Quiet { session }))?;
        }
        Ok(counts)
    }
}

impl Shard {
    pub(super) fn confirmed(&self, caller: Caller<'_>, again: bool) -> Result<bool, Errno> {
        let counts = self.lock().confirms(caller.session, again)?;
        // Who said so forgets what could be lost; a power loss must not take it back here.
        Ok(counts && (!again || self.sync_log().is_ok()))
    }

    /// Before the session is answered.
    ///
    /// # Errors
    /// The errno of the log's sync.
    pub(in super::super) fn wake(&self, session: SessionId) -> Result<(), Errno> {
        if !self.waking.load(Ordering::Acquire) {
            return Ok(());
        }
        let Some(then) = self.lock().losses.waking.since(&session) else { return Ok(()) };
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
