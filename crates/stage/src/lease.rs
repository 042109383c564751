//! How long a mover may go on when nobody hears of it: then others do its work, and what it would still write could
//! meet what they have made, or what the files' owner has done with that since.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Never over until it is renewed for the first time.
pub(crate) struct Lease {
    begun: Instant,
    /// Milliseconds after that; 0: there is no end.
    end_ms: AtomicU64,
}

impl Default for Lease {
    fn default() -> Lease {
        Lease { begun: Instant::now(), end_ms: AtomicU64::new(0) }
    }
}

impl Lease {
    /// From now on for so long.
    pub(crate) fn renew(&self, duration: Duration) {
        self.end_ms.store(milliseconds(self.begun.elapsed() + duration).max(1), Ordering::Relaxed);
    }

    /// Whether its time has passed.
    pub(crate) fn is_over(&self) -> bool {
        let end_ms = self.end_ms.load(Ordering::Relaxed);
        end_ms != 0 && milliseconds(self.begun.elapsed()) >= end_ms
    }
}

fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
