//! How fast the drainer may read: a limit in bytes a second, and a pause.

use std::sync::{Condvar, Mutex};
use std::time::{Duration, Instant};

/// What one read may take out at once, beyond the limit: it is paid back before the next.
const BURST: Duration = Duration::from_millis(100);

/// What every read passes.
pub struct Throttle {
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    /// Bytes a second; `None`: no limit.
    limit: Option<u64>,
    paused: bool,
    /// When what was read so far would have been read at the limit.
    free_at: Instant,
}

impl Throttle {
    /// With this limit, bytes a second.
    pub fn new(limit: Option<u64>) -> Throttle {
        let state = State { limit: limit.filter(|limit| *limit > 0), paused: false, free_at: Instant::now() };
        Throttle { state: Mutex::new(state), changed: Condvar::new() }
    }

    /// Waits until `bytes` more may be read.
    pub fn pass(&self, bytes: usize) {
        let mut state = self.lock();
        loop {
            let now = Instant::now();
            if state.paused {
                state = self.changed.wait(state).expect("no thread panics with the lock");
                continue;
            }
            let Some(limit) = state.limit else { return };
            if state.free_at <= now + BURST {
                let cost = Duration::from_secs_f64(bytes as f64 / limit as f64);
                state.free_at = state.free_at.max(now) + cost;
                return;
            }
            let wait = state.free_at - now - BURST;
            state = self.changed.wait_timeout(state, wait).expect("no thread panics with the lock").0;
        }
    }

    /// Holds all reads, or lets them go on.
    pub fn pause(&self, paused: bool) {
        self.lock().paused = paused;
        self.changed.notify_all();
    }

    /// Takes the limit away: there is no more time to be polite.
    pub fn hurry(&self) {
        self.lock().limit = None;
        self.changed.notify_all();
    }

    /// Whether reads are held.
    pub fn is_paused(&self) -> bool {
        self.lock().paused
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().expect("no thread panics with the lock")
    }
}
