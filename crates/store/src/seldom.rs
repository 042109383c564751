//! Lines of the log that somebody else can cause as often as he likes: they come seldom, and say how often it happened.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// No line of a kind comes sooner after the one before.
const EVERY: Duration = Duration::from_secs(10);

/// One kind of line.
#[derive(Debug, Default)]
pub(crate) struct Seldom(Mutex<Since>);

#[derive(Debug, Default)]
struct Since {
    last: Option<Instant>,
    times: u64,
}

impl Seldom {
    /// It happened once more. How often since the last line, where it is time for another.
    pub(crate) fn due(&self) -> Option<u64> {
        self.due_at(Instant::now())
    }

    fn due_at(&self, now: Instant) -> Option<u64> {
        let mut since = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        since.times += 1;
        if since.last.is_some_and(|last| now.saturating_duration_since(last) < EVERY) {
            return None;
        }
        since.last = Some(now);
        Some(std::mem::take(&mut since.times))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_others_cause_comes_seldom_and_counts() {
        let (seldom, now) = (Seldom::default(), Instant::now());
        assert_eq!(seldom.due_at(now), Some(1));
        assert!((0..1000).all(|_| seldom.due_at(now + EVERY / 2).is_none()));
        assert_eq!(seldom.due_at(now + EVERY), Some(1001));
    }
}
