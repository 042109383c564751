//! A node that stood still, as a frozen process or a suspended machine does, may have been given up for lost meanwhile
//! without having heard of it. Before it answers anybody again it asks the nodes of the other parts, as at a start.
//!
//! **Invariant:** a client's request is answered only within [`STILL_MAX`] after this node knew that it ran, and had
//! asked the others since it last stood still.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak, mpsc};
use std::time::{Duration, Instant};

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

/// How long the others are waited for. Well below [`STILL_MAX`], or the pulse would be over again.
const ASKED_MAX: Duration = Duration::from_secs(2);

/// When this node last knew that it ran.
pub(crate) struct Pulse(AtomicU64);

impl Pulse {
    /// It runs.
    pub(super) fn begin() -> Pulse {
        Pulse(AtomicU64::new(now_ms()))
    }

    /// Whether the node stood still since: what it knows of others may be old.
    pub(crate) fn is_over(&self) -> bool {
        Duration::from_millis(now_ms().saturating_sub(self.0.load(Ordering::Acquire))) > STILL_MAX
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
    pub(super) fn watch_pulse(self: &Arc<Server>) -> std::io::Result<()> {
        let server = Arc::downgrade(self);
        thread("pulse", move || while beat(&server) {})
    }

    /// Hears from the nodes of all other parts whether any of those here was replaced. One that is silent is not waited
    /// for any longer: it would keep this one from answering for as long.
    fn ask_others(&self) {
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
            }
        }
        drop(done);
        let begun = Instant::now();
        while answered.recv_timeout(ASKED_MAX.saturating_sub(begun.elapsed())).is_ok() {}
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
        // As of before they are asked: who stands still from here on has not beaten.
        let now = now_ms();
        server.ask_others();
        server.pulse.note(now);
    } else {
        server.pulse.note(looked);
    }
    true
}
