//! Deciding about everything that is owed: what a commit, a wait and the end of the job ask for.
//!
//! **Invariant:** what is not known to be on the PFS, whole, is in the answer.

use std::path::Path;
use std::time::Instant;

use crate::drain::Drain;
use crate::generation::now;
use crate::moved::{Known, WALKS_MAX};
use crate::status::{Answer, Trouble};
use crate::table::Barrier;

impl Drain {
    /// Walks through everything and waits until all that was closed before is decided.
    pub(crate) fn settle(&self) -> Answer {
        let _hurry = self.burst.hurry();
        // What one has in work to look at it, another would take for something that a copier has: it would not be in
        // its answer.
        let _alone = self.settling.lock().expect("no thread panics with the lock");
        let mut unseen: Vec<Trouble> = self.clear().err().into_iter().collect();
        unseen.extend(self.revisit());
        self.doubt();
        let (barrier, more) = self.decide();
        // One that was tried since is named once.
        unseen.retain(|trouble| !barrier.failed.contains_key(Path::new(&trouble.path)));
        self.reconsider(&mut unseen);
        // What cannot be looked at may be owed: then not all is.
        unseen.extend(more);
        unseen.extend(self.copier.taken.troubles());
        unseen.extend(self.claims.take_damaged());
        unseen.iter().for_each(|trouble| self.log_failure(Path::new(&trouble.path), trouble, 1));
        self.lock().unseen.clone_from(&unseen);
        // Each file has been asked for its own errors by now.
        let failed_flash = self.copier.flash.look();
        self.reconcile();
        self.log_settled(&barrier.failed, &barrier.open, &unseen);
        self.copier.publisher.abandon();
        barrier.open.iter().for_each(|path| self.log_open(&self.lock(), path));
        // First: each of these has its line by then.
        let landed = self.landed();
        let unlogged = self.settle_log().err().map(|error| self.unlogged(&error));
        self.lock().unseen.extend(unlogged.clone());
        unseen.extend(unlogged);
        Answer {
            host: self.host.clone(),
            landed,
            // The flash first: who shows one only shows what must be looked at first.
            failed: failed_flash.into_iter().chain(barrier.failed.into_values()).chain(unseen).collect(),
            open: barrier.open.iter().map(|path| path.display().to_string()).collect(),
        }
    }

    /// Walks, and waits for what is pending, until nothing that was there has got another name meanwhile. Gives what
    /// could not be looked at, too.
    fn decide(&self) -> (Barrier, Vec<Trouble>) {
        let (begun, mut known) = (now(), Known::new());
        let mut walk = self.scan_all();
        for _ in 1..WALKS_MAX {
            let barrier = self.wait_for_pending(&mut known);
            if self.rests(&walk) {
                return (barrier, walk.unseen);
            }
            walk = self.scan_all();
            if !self.has_renamed(begun, &known) {
                return (barrier, walk.unseen);
            }
        }
        let barrier = self.wait_for_pending(&mut known);
        walk.unseen.push(self.restless());
        (barrier, walk.unseen)
    }

    /// Waits until everything that is pending now is decided.
    fn wait_for_pending(&self, known: &mut Known) -> Barrier {
        let mut state = self.lock();
        state.table.retry_now(Instant::now());
        known.extend(state.table.versions().map(|(path, seen)| (path.clone(), seen.file())));
        let barrier = state.table.raise();
        self.work.notify_all();
        loop {
            match state.table.lower(barrier) {
                Some(barrier) => return barrier,
                None => state = self.settled.wait(state).expect("no thread panics with the lock"),
            }
        }
    }

    /// The receipt cannot tell what is drained here, nor a commit what it must not replace.
    pub(crate) fn unlogged(&self, error: &std::io::Error) -> Trouble {
        Trouble {
            path: ".".to_owned(),
            errno: 0,
            message: format!("{error}: what is drained of {} is in no receipt", self.from.display()),
            advice: "make room there, or move away what has the log's name, then wait again".to_owned(),
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
