//! Requests that may wait long, and the kernel's wish to end them (a signal for the program that waits).
//!
//! Only requests that say so can be interrupted ([`crate::request::Request::cancellable`]); for all others an interrupt
//! means nothing, as the protocol allows. Several threads read requests, so an interrupt may be seen before the request
//! that it means is registered: the latest ones without a request are remembered.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

/// How many interrupts without a request are remembered: many times what a session's threads can have read.
const EARLY_MAX: usize = 256;

/// The requests of a session that can be interrupted now.
#[derive(Debug, Default)]
pub struct Interrupts {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    waiting: HashMap<u64, Arc<AtomicBool>>,
    early: VecDeque<u64>,
    /// The session has ended: nobody waits for an answer any more.
    ended: bool,
}

impl Interrupts {
    /// Makes the request `unique` interruptible until the [`Cancel`] is dropped.
    pub fn register(self: &Arc<Interrupts>, unique: u64) -> Cancel {
        let mut state = self.lock();
        let before = state.early.len();
        state.early.retain(|&early| early != unique);
        let cancelled = Arc::new(AtomicBool::new(state.early.len() < before || state.ended));
        state.waiting.insert(unique, Arc::clone(&cancelled));
        Cancel { table: Arc::clone(self), unique, cancelled }
    }

    /// The kernel asks that `unique` ends.
    pub fn interrupt(&self, unique: u64) {
        let mut state = self.lock();
        if let Some(cancelled) = state.waiting.get(&unique) {
            cancelled.store(true, Ordering::Release);
            return;
        }
        if state.early.len() == EARLY_MAX {
            state.early.pop_front();
        }
        state.early.push_back(unique);
    }

    /// The session ends: all that wait may stop.
    pub fn end(&self) {
        let mut state = self.lock();
        state.ended = true;
        state.waiting.values().for_each(|cancelled| cancelled.store(true, Ordering::Release));
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no thread panics while it holds the table of interrupts")
    }
}

/// Tells whoever works on a request whether it should stop and answer EINTR.
#[derive(Debug)]
pub struct Cancel {
    table: Arc<Interrupts>,
    unique: u64,
    cancelled: Arc<AtomicBool>,
}

impl Cancel {
    /// Whether the request was interrupted.
    pub fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Acquire)
    }
}

impl Drop for Cancel {
    fn drop(&mut self) {
        self.table.lock().waiting.remove(&self.unique);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interrupt_cancels_the_request_that_it_names_and_no_other() {
        let table = Arc::new(Interrupts::default());
        let (a, b) = (table.register(2), table.register(4));
        table.interrupt(4);
        assert!(!a.is_cancelled() && b.is_cancelled());
    }

    #[test]
    fn an_interrupt_that_overtakes_its_request_is_not_lost() {
        let table = Arc::new(Interrupts::default());
        table.interrupt(6);
        assert!(table.register(6).is_cancelled());
        assert!(!table.register(6).is_cancelled(), "it counts once");
    }

    #[test]
    fn interrupts_of_finished_requests_are_forgotten_in_the_end() {
        let table = Arc::new(Interrupts::default());
        drop(table.register(2));
        for unique in (2..4000).step_by(2) {
            table.interrupt(unique);
        }
        assert!(table.lock().early.len() <= EARLY_MAX && table.lock().waiting.is_empty());
        assert!(!table.register(2).is_cancelled());
    }

    #[test]
    fn the_end_of_the_session_cancels_whoever_waits_or_comes() {
        let table = Arc::new(Interrupts::default());
        let waiting = table.register(2);
        table.end();
        assert!(waiting.is_cancelled() && table.register(4).is_cancelled());
    }
}
