//! Syncs under way. A storage node tells a client once of what its disk could not write back, in the answer to one of
//! its syncs of the file; another that is under way beside it may be told that all is well.
//!
//! **Invariant:** a sync counts from before it is sent until its answer is noted.

use std::collections::BTreeSet;
use std::sync::{Condvar, Mutex, MutexGuard};

use model::Ino;
use wire::data::Request;

use super::Commits;

/// Those of one client.
#[derive(Default)]
pub(super) struct Syncs {
    state: Mutex<State>,
    ended: Condvar,
}

#[derive(Default)]
struct State {
    begun: u64,
    /// Each with its number.
    under_way: BTreeSet<(Ino, u64)>,
}

/// Syncs that are under way for as long as this lives.
pub(super) struct Syncing<'a>(&'a Syncs, Vec<(Ino, u64)>);

impl Syncs {
    fn begin(&self, inos: Vec<Ino>) -> Syncing<'_> {
        if inos.is_empty() {
            return Syncing(self, Vec::new());
        }
        let mut state = self.lock();
        let numbered = inos.into_iter().map(|ino| {
            state.begun += 1;
            (ino, state.begun)
        });
        let numbered: Vec<_> = numbered.collect();
        state.under_way.extend(&numbered);
        Syncing(self, numbered)
    }

    fn wait(&self, ino: Ino) {
        let mut state = self.lock();
        let present = (ino, 0)..=(ino, state.begun);
        while state.under_way.range(present.clone()).next().is_some() {
            state = self.ended.wait(state).expect(POISON);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect(POISON)
    }
}

impl Commits {
    /// These are about to be sent.
    pub(super) fn syncing<'a>(&self, requests: impl Iterator<Item = &'a Request>) -> Syncing<'_> {
        let synced = |request: &Request| match request {
            Request::Sync { ino } => Some(*ino),
            _ => None,
        };
        self.under_way.syncs.begin(requests.filter_map(synced).collect())
    }

    /// Waits for all syncs of the file that are under way now: one of them may be told what others are not. To be
    /// called before somebody is told that a sync has succeeded.
    pub fn wait_for_syncs(&self, ino: Ino) {
        self.under_way.syncs.wait(ino);
    }
}

impl Drop for Syncing<'_> {
    fn drop(&mut self) {
        if self.1.is_empty() {
            return;
        }
        let mut state = self.0.lock();
        for sync in &self.1 {
            state.under_way.remove(sync);
        }
        drop(state);
        self.0.ended.notify_all();
    }
}

const POISON: &str = "no thread panics while it holds the syncs that are under way";
