//! Which files a session may have written since everything was confirmed: those that it opened for writing, or cut off
//! or extended by name. Should it end without a word, or go on without its memory, these may have lost something.
//!
//! **Invariant:** a session that writes and is not here may have written any file: it began before this node was
//! started, was given up and is back, or has written too many.

use std::collections::{BTreeMap, BTreeSet};

use model::stripe::Layout;
use model::{FragmentIndex, Ino, SessionId};
use wire::data::message::EVERYTHING;

use super::super::record::losses::INOS_MAX;

/// So many files are told apart for each session: one record of the log for each fragment.
const FILES_MAX: usize = INOS_MAX;

/// What sessions have touched, in memory alone.
#[derive(Clone, Debug, Default)]
pub(super) struct Touched(BTreeMap<SessionId, BTreeSet<Ino>>);

impl Touched {
    /// From now on all that the session writes is seen.
    pub(super) fn begin(&mut self, session: SessionId) {
        self.0.insert(session, BTreeSet::new());
    }

    /// It may write to this file.
    pub(super) fn add(&mut self, session: SessionId, ino: Ino) {
        let Some(inos) = self.0.get_mut(&session) else { return };
        inos.insert(ino);
        if inos.len() > FILES_MAX {
            self.0.remove(&session);
        }
    }

    /// All that it wrote is confirmed, or it ended.
    pub(super) fn end(&mut self, session: SessionId) {
        self.0.remove(&session);
    }

    /// What it may have written there; `None`: to any file.
    pub(super) fn on(
        &self,
        session: SessionId,
        fragment: FragmentIndex,
        layout: &Layout,
    ) -> Option<Vec<Ino>> {
        let is_there = |ino: &&Ino| layout.fragments_of(**ino).any(|of| of == fragment);
        Some(self.0.get(&session)?.iter().filter(is_there).copied().collect())
    }

    /// As [`Touched::on`], with [`EVERYTHING`] for any file.
    pub(super) fn or_everything(
        &self,
        session: SessionId,
        fragment: FragmentIndex,
        layout: &Layout,
    ) -> Vec<Ino> {
        self.on(session, fragment, layout).unwrap_or_else(|| vec![EVERYTHING])
    }
}
