//! Sessions that are away: what another fragment lost of the files that they had opened for writing is known before the
//! grace period ends them. Programs on other nodes do not confirm such a file meanwhile.
//!
//! **Invariant:** only what is known of them by name: any file of theirs, or names, are in doubt when they end.

use std::time::{Duration, Instant};

use model::SessionId;
use model::stripe::Layout;
use rustix::io::Errno;

use super::super::Shard;
use super::super::state::State;

/// Whoever has had no connection for so long tells nothing soon: clients look every second.
const AWAY: Duration = Duration::from_secs(10);

impl Shard {
    /// Notes what was lost of sessions that are away.
    pub(super) fn look_at_away(&self) {
        if let Err(errno) = self.lock().lose_of_away(&self.layout, Instant::now()) {
            tracing::error!(%errno, "cannot note what a client that is away may have lost");
        }
    }
}

impl State {
    fn lose_of_away(&mut self, layout: &Layout, now: Instant) -> Result<(), Errno> {
        let present = self.followed.verifiers();
        let is_away = |session: &SessionId| self.sessions.is_away(*session, now, AWAY);
        let away: Vec<SessionId> = self.losses.writing.iter().copied().filter(is_away).collect();
        for session in away {
            for (fragment, then) in self.losses.begun.get(&session).cloned().unwrap_or_default() {
                let Some(verifier) = present.get(&fragment).filter(|verifier| **verifier != then) else {
                    continue;
                };
                if let Some(inos) = self.losses.touched.on(session, fragment, layout) {
                    self.lose(fragment, *verifier, &inos, false)?;
                    self.hear(session, fragment, *verifier)?;
                }
            }
        }
        Ok(())
    }
}
