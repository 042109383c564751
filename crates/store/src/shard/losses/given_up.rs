//! Sessions that the home gave up after the grace period while they had files open for writing. One that was only out
//! of reach of the home may be back, and may have written meanwhile to what it had open. Memory alone: one that is back
//! after another start of the home still names what it has open.

use std::collections::{BTreeSet, VecDeque};

use model::SessionId;

/// So many are remembered, the latest.
const REMEMBERED_MAX: usize = 1 << 16;

/// Those that were given up and have not said since that all is confirmed.
#[derive(Clone, Debug, Default)]
pub(super) struct GivenUp {
    sessions: BTreeSet<SessionId>,
    oldest_first: VecDeque<SessionId>,
}

impl GivenUp {
    pub(super) fn add(&mut self, session: SessionId) {
        if !self.sessions.insert(session) {
            return;
        }
        self.oldest_first.push_back(session);
        if self.oldest_first.len() > REMEMBERED_MAX
            && let Some(oldest) = self.oldest_first.pop_front()
        {
            self.sessions.remove(&oldest);
        }
    }

    pub(super) fn remove(&mut self, session: SessionId) {
        if self.sessions.remove(&session) {
            self.oldest_first.retain(|other| *other != session);
        }
    }

    pub(super) fn has(&self, session: SessionId) -> bool {
        self.sessions.contains(&session)
    }
}
