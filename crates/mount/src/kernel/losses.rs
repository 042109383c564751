//! What the kernel keeps, after a storage node has lost some of it: pages of files, and names and attributes.
//!
//! Dropping pages may take requests of the kernel, and who hears of a loss is often about to answer one: so a thread of
//! its own does it. Nobody waits for it but fsyncs: their answers are kept until it is done.
//!
//! **Invariant:** an fsync that began after a loss was known is answered when the kernel has nothing any more that was
//! there before; no thread that serves requests waits for that.

use std::sync::{Arc, Mutex, MutexGuard, Weak};

use client::{Memory, Result};
use fuse::reply::Reply;
use model::{FragmentIndex, Ino};

use super::contents::Contents;
use super::{Names, done};
use crate::ledger::Ledger;

/// An answer that waits.
type Answer = (Reply, Result<()>);

/// Losses that the kernel is to hear of.
pub(super) struct Losses {
    /// Not held: it holds the client, which holds this.
    contents: Weak<Contents>,
    names: Names,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// A thread is at work.
    working: bool,
    /// There was a loss since it looked last.
    due: bool,
    /// Answers to what began before the last loss was dealt with.
    waiting: Vec<Answer>,
}

impl Losses {
    pub(super) fn new(contents: &Arc<Contents>, names: Names) -> Losses {
        Losses { contents: Arc::downgrade(contents), names, state: Mutex::default() }
    }

    /// Gives the answer to an fsync, now or when nothing is due any more.
    pub(super) fn answer(&self, reply: Reply, result: Result<()>) {
        let mut state = self.lock();
        if state.working {
            return state.waiting.push((reply, result));
        }
        drop(state);
        done(result, reply);
    }

    fn lost(self: &Arc<Self>) {
        let mut state = self.lock();
        state.due = true;
        if std::mem::replace(&mut state.working, true) {
            return;
        }
        drop(state);
        let losses = Arc::clone(self);
        let work = move || losses.work();
        if let Err(error) = std::thread::Builder::new().name("losses".into()).spawn(work) {
            tracing::warn!(%error, "no thread to have the kernel drop what a storage node has lost");
            self.lock().due = false;
            self.is_due();
        }
    }

    fn work(&self) {
        while self.is_due() {
            // Also where no name was lost: sizes that nobody asks for again are kept with names.
            if let Err(error) = self.names.forget() {
                tracing::warn!(%error, "the kernel may show for a while what a storage node has lost");
            }
            self.contents.upgrade().into_iter().for_each(|contents| contents.drop_all());
        }
    }

    /// Whether there is more to do. If not, those who wait are answered.
    fn is_due(&self) -> bool {
        let mut state = self.lock();
        state.working = std::mem::take(&mut state.due);
        if state.working {
            return true;
        }
        let answers = std::mem::take(&mut state.waiting);
        drop(state);
        answers.into_iter().for_each(|(reply, result)| done(result, reply));
        false
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no thread panics while it holds the losses")
    }
}

/// Who remembers for the client: the ledger, and of losses the kernel hears as well.
pub(super) struct Remembering {
    pub(super) ledger: Arc<Ledger>,
    pub(super) losses: Arc<Losses>,
}

impl Memory for Remembering {
    fn verifier(&self, fragment: FragmentIndex, verifier: u64) {
        self.ledger.verifier(fragment, verifier);
    }

    fn failed(&self, ino: Ino, stamp: u64, errno: i32) {
        self.ledger.failed(ino, stamp, errno);
    }

    fn told(&self, ino: Ino, handle: u64) {
        self.ledger.told(ino, handle);
    }

    fn lost(&self) {
        self.losses.lost();
    }
}
