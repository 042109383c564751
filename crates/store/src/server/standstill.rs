//! A node that stood still, as a frozen process or a suspended machine does, may have been given up for lost meanwhile
//! without having heard of it. Before it answers anybody again it asks the nodes of the other parts, as at a start.
//!
//! **Invariant:** a client's request is answered only within [`STILL_MAX`] after this node knew that it ran, and had
//! asked the others since it last stood still.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Weak};
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

use super::slot::Slot;
use super::starting::greeting;
use super::{POISON, Server, thread};

/// How often a node notes that it runs.
const BEAT: Duration = Duration::from_millis(500);

/// Control takes a node for away, and so lets it be given up, that has been silent for twice as long.
const STILL_MAX: Duration = Duration::from_secs(5);

/// Control may just have taken the node for away, and be giving it up, when it goes on: control sees within a second
/// that it is back, and the others know of a successor within this time, or there is none.
const SETTLED_AFTER: Duration = Duration::from_secs(4);

/// When this node last knew that it ran.
pub(crate) struct Pulse(AtomicU64);

impl Pulse {
    /// It runs.
    pub(super) fn begin() -> Pulse {
        Pulse(AtomicU64::new(now_ms()))
    }

    /// Whether the node stood still since: what it knows of others may be old.
    fn is_over(&self) -> bool {
        Duration::from_millis(now_ms().saturating_sub(self.0.load(Ordering::Acquire))) > STILL_MAX
    }

    /// Before anybody is answered.
    ///
    /// # Errors
    /// The node stood still, and has not asked the others since.
    pub(crate) fn check(&self) -> io::Result<()> {
        match self.is_over() {
            true => Err(io::Error::other("this node stood still, and may have been given up meanwhile")),
            false => Ok(()),
        }
    }

    /// It ran at `then_ms`, and what it knew of others then was not old.
    fn note(&self, then_ms: u64) {
        self.0.store(then_ms, Ordering::Release);
    }
}

/// Goes on while a machine is suspended.
fn now_ms() -> u64 {
    let now = clock_gettime(ClockId::Boottime);
    let ms = |n: i64, per: fn(u64) -> u64| per(u64::try_from(n).unwrap_or(0));
    ms(now.tv_sec, |s| s * 1000) + ms(now.tv_nsec, |ns| ns / 1_000_000)
}

impl Server {
    /// Notes for as long as the server lives that it runs.
    pub(super) fn watch_pulse(self: &Arc<Server>) -> io::Result<()> {
        let server = Arc::downgrade(self);
        thread("pulse", move || while beat(&server) {})
    }

    /// Hears from the nodes of all other parts whether any of those here was replaced: from each until it has answered,
    /// or cannot be reached, or has taken longer than a node may that runs. Gives when this one was last known to run
    /// after that; `None`: it stood still meanwhile, or could not ask.
    fn ask_others(&self) -> Option<u64> {
        let slots = self.fragments.read().expect(POISON);
        let served = slots.values().filter_map(|slot| match slot {
            Slot::Served(fragment) => Some(fragment.clone()),
            _ => None,
        });
        let served: Vec<_> = served.collect();
        drop(slots);
        let (done, answered) = mpsc::channel();
        for fragment in served {
            let done = done.clone();
            let ask = move || {
                greeting::greet_others(fragment.spec(), fragment.terms(), Duration::ZERO);
                let _nobody_waits = done.send(());
            };
            if let Err(error) = thread("ask-others", ask) {
                tracing::error!(%error, "no thread to ask the nodes of other parts");
                return None;
            }
        }
        drop(done);
        await_all(&answered, now_ms)
    }
}

/// Waits until all have heard who may be heard, and looks whether this node runs meanwhile.
fn await_all(answered: &mpsc::Receiver<()>, now_ms: impl Fn() -> u64) -> Option<u64> {
    let mut ran = now_ms();
    loop {
        let is_over = answered.recv_timeout(BEAT) == Err(RecvTimeoutError::Disconnected);
        let now = now_ms();
        if Duration::from_millis(now.saturating_sub(ran)) > STILL_MAX {
            return None;
        }
        ran = now;
        if is_over {
            return Some(ran);
        }
    }
}

/// One beat; `false`: the server is gone.
fn beat(server: &Weak<Server>) -> bool {
    std::thread::sleep(BEAT);
    let Some(server) = server.upgrade() else { return false };
    let looked = now_ms();
    if server.pulse.is_over() {
        tracing::warn!("this node stood still: it asks the nodes of the other parts before it answers again");
        let begun = now_ms();
        std::thread::sleep(SETTLED_AFTER);
        if Duration::from_millis(now_ms().saturating_sub(begun)) > 2 * SETTLED_AFTER {
            // Once more: that is looked at anew.
            return true;
        }
        // Else once more.
        if let Some(ran) = server.ask_others() {
            server.pulse.note(ran);
        }
    } else {
        server.pulse.note(looked);
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_is_answered_before_all_were_heard_that_may_be_and_who_stood_still_asks_again() {
        let (done, answered) = mpsc::channel();
        let slow = std::thread::spawn(move || {
            let begun = now_ms();
            std::thread::sleep(Duration::from_millis(2500));
            drop(done);
            begun
        });
        let ran = await_all(&answered, now_ms).unwrap();
        assert!(ran >= slow.join().unwrap() + 2500, "one that answers slowly is waited for");
        let (_asked, answered) = mpsc::channel();
        let clock = AtomicU64::new(0);
        let still = || clock.fetch_add(6000, Ordering::Relaxed);
        assert_eq!(await_all(&answered, still), None);
    }
}
