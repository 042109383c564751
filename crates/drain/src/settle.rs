//! Deciding about everything that is owed: what a commit, a wait and the end of the job ask for.
//!
//! **Invariant:** what is not known to be on the PFS, whole, is in the answer.

use std::path::Path;
use std::time::Instant;

use crate::drain::Drain;
use crate::status::Answer;

impl Drain {
    /// Walks through everything and waits until all that was closed before is decided.
    pub(crate) fn settle(&self) -> Answer {
        let _hurry = self.burst.hurry();
        // What one has in work to look at it, another would take for something that a copier has: it would not be in
        // its answer.
        let _alone = self.settling.lock().expect("no thread panics with the lock");
        self.clear();
        let mut unseen = self.revisit();
        // What cannot be looked at may be owed: then not all is.
        unseen.extend(self.scan_all());
        unseen.iter().for_each(|trouble| self.log_failure(Path::new(&trouble.path), trouble, 1));
        let mut state = self.lock();
        state.table.retry_now(Instant::now());
        let barrier = state.table.raise();
        self.work.notify_all();
        let barrier = loop {
            match state.table.lower(barrier) {
                Some(barrier) => break barrier,
                None => state = self.settled.wait(state).expect("no thread panics with the lock"),
            }
        };
        drop(state);
        // Each file has been asked for its own errors by now.
        let failed_flash = self.copier.flash.look();
        self.reconcile();
        self.log_settled(&barrier.failed, &barrier.open, &unseen);
        self.copier.publisher.abandon();
        barrier.open.iter().for_each(|path| self.log_open(&self.lock(), path));
        self.logs.flush();
        Answer {
            host: self.host.clone(),
            landed: self.landed(),
            // The flash first: who shows one only shows what must be looked at first.
            failed: failed_flash.into_iter().chain(barrier.failed.into_values()).chain(unseen).collect(),
            open: barrier.open.iter().map(|path| path.display().to_string()).collect(),
        }
    }

    /// How many files have landed, which the ledger does not forget from now on.
    fn landed(&self) -> usize {
        let state = self.lock();
        if let Err(error) = state.ledger.sync() {
            tracing::warn!("fsync the ledger: {error}; after a power loss files may be copied again");
        }
        state.ledger.len()
    }
}
