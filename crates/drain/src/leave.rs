//! What a drainer leaves on the PFS when it ends, and what it finds there when it begins: nothing half done.

use std::sync::atomic::Ordering;
use std::time::Duration;

use disk::below::Root;

use crate::commit::settle_killed;
use crate::drain::Drain;
use crate::state::State;
use crate::status::Trouble;

/// How long copies may take to be given up.
const LEAVE_WITHIN: Duration = Duration::from_secs(3);

impl Drain {
    /// Gives up what is being copied, so that nothing half done stays on the PFS.
    pub(crate) fn leave(&self) {
        self.leaves.store(true, Ordering::Relaxed);
        self.pause(true);
        self.copier.publisher.give_up();
        let copies = |state: &mut State| state.table.counts(|_| 0).running > 0;
        let waited = self.settled.wait_timeout_while(self.lock(), LEAVE_WITHIN, copies);
        let (state, waited) = waited.expect("no thread panics with the lock");
        drop(state);
        if waited.timed_out() {
            return tracing::warn!(
                "the PFS does not answer: what is being copied stays there until the next start"
            );
        }
        self.copier.publisher.end();
    }

    /// Removes what an earlier drainer, or a commit, left on the PFS where it was killed.
    ///
    /// # Errors
    /// It cannot be looked for.
    pub(crate) fn clear(&self) -> Result<(), Trouble> {
        self.copier.publisher.clear(|| {
            let state = self.lock();
            state.ledger.folders_begun().into_iter().collect()
        });
        let sessions = self.rendezvous.folder().parent().unwrap_or(&self.to);
        let settled = settle_killed(sessions, &Root::at(&self.to), &self.copier.taken);
        settled.map_err(|error| Trouble {
            path: ".".to_owned(),
            errno: error.raw_os_error().unwrap_or(0),
            message: format!("look in {} for what commits have left: {error}", sessions.display()),
            advice: "mend the cause, or remove what is no note of a commit there; then wait again".to_owned(),
        })
    }
}
