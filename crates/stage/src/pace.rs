//! How fast a stage or a drain may go: a limit of bytes a second on the PFS, and a pause, both of which may change at
//! any time.

use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// How long who waits takes to notice that the stage stops.
const NAP: Duration = Duration::from_millis(50);

/// What is saved up while nothing is copied, as a time at full rate: a limit that is an average over seconds would let
/// bursts through that the limit is there to keep away.
const SAVED_MAX: Duration = Duration::from_millis(100);

/// The pace of one stage or drain, for all its threads. What the PFS takes and gives counts, so also what is read back
/// to verify it.
#[derive(Default)]
pub struct Pace {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    paused: bool,
    /// Bytes a second; `None`: no limit.
    limit: Option<u64>,
    /// When the bytes that were let through so far are paid for.
    paid_until: Option<Instant>,
}

impl Pace {
    /// Sets the limit, bytes a second.
    pub fn limit(&self, limit: Option<u64>) {
        // A limit of nothing would be a pause that nobody sees.
        self.lock().limit = limit.map(|limit| limit.max(1));
        self.changed.notify_all();
    }

    /// Lets nothing through until it is called with false.
    pub fn pause(&self, paused: bool) {
        self.lock().paused = paused;
        self.changed.notify_all();
    }

    /// Whether nothing is let through.
    pub fn is_paused(&self) -> bool {
        self.lock().paused
    }

    /// Waits until this many bytes may go, or `is_over`.
    pub(crate) fn take(&self, bytes: u64, is_over: impl Fn() -> bool) {
        let mut state = self.lock();
        while !is_over() {
            let now = Instant::now();
            let wait = match (state.paused, state.limit) {
                (true, _) => NAP,
                (false, None) => return,
                (false, Some(limit)) => {
                    let paid_until = state.paid_until.map_or(now, |until| until.max(now - SAVED_MAX));
                    if paid_until <= now {
                        #[expect(clippy::cast_precision_loss, reason = "a rate")]
                        let price = Duration::from_secs_f64(bytes as f64 / limit as f64);
                        state.paid_until = Some(paid_until + price);
                        return;
                    }
                    NAP.min(paid_until - now)
                }
            };
            state = self.changed.wait_timeout(state, wait).expect("no thread panics with the lock").0;
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no thread panics with the lock")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_let_through_costs_its_time_at_the_limit() {
        let pace = Pace::default();
        pace.limit(Some(10 << 20));
        let start = Instant::now();
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| (0..2).for_each(|_| pace.take(1 << 20, || false)));
            }
        });
        // The first goes at once; five more must wait for those before them, less what may be saved.
        assert!(start.elapsed() >= Duration::from_millis(400), "{:?}", start.elapsed());
    }

    #[test]
    fn a_pause_holds_until_it_is_over_and_ends_with_the_stage() {
        let pace = Pace::default();
        pace.pause(true);
        pace.take(1, || true);
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| pace.take(1, || false));
            assert!(!waiting.is_finished() && pace.is_paused());
            pace.pause(false);
        });
    }
}
