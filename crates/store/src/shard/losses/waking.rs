//! Sessions of whom a power loss could still take back that they are there and not quiet: see [`super::quiet`].
//!
//! **Invariant:** a session that begins anew while the log is synced for it is not done with that sync.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use model::SessionId;

/// Sessions, each with a number of the time since when it wakes, and whether there are any, which each request asks.
#[derive(Clone, Debug, Default)]
pub(super) struct Waking {
    sessions: BTreeMap<SessionId, u64>,
    begun: u64,
    is_any: Arc<AtomicBool>,
}

impl Waking {
    /// It begins to wake, if it has not.
    pub(super) fn add(&mut self, session: SessionId) {
        self.begun += 1;
        self.sessions.entry(session).or_insert(self.begun);
        self.is_any.store(true, Ordering::Release);
    }

    /// It wakes no more.
    pub(super) fn remove(&mut self, session: &SessionId) {
        self.sessions.remove(session);
        self.is_any.store(!self.sessions.is_empty(), Ordering::Release);
    }

    /// The log was synced after the session began to wake `then`. Whether it has not begun anew since.
    pub(super) fn is_done(&mut self, session: &SessionId, then: u64) -> bool {
        let is_same = self.sessions.get(session) == Some(&then);
        if is_same {
            self.remove(session);
        }
        is_same
    }

    /// When the session began to wake, if it did.
    pub(super) fn since(&self, session: &SessionId) -> Option<u64> {
        self.sessions.get(session).copied()
    }

    /// Whether there are any, from now on.
    pub(super) fn is_any(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.is_any)
    }
}
