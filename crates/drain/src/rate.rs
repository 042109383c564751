//! How fast the drain was lately. Work is bytes that are copied and bytes that are read back, counted while they go: a
//! file may take longer than a rate may be old.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// The rate is one over so long at most, and over so long at least: less tells nothing.
const LONGEST: Duration = Duration::from_secs(10);
const SHORTEST: Duration = Duration::from_millis(500);

/// What was done when, while there was something to do.
#[derive(Default)]
pub(crate) struct Rate {
    points: VecDeque<(Instant, u64)>,
    /// The work on files that are on the PFS.
    landed: u64,
}

impl Rate {
    /// Notes all work so far; nothing is under way where it `rests`. Gives the rate, bytes a second; 0: not known.
    pub(crate) fn observe(&mut self, now: Instant, work: u64, rests: bool) -> u64 {
        if rests {
            self.points.clear();
            self.landed = work;
            return 0;
        }
        if self.points.back().is_none_or(|(at, _)| now - *at >= SHORTEST) {
            self.points.push_back((now, work));
        }
        while self.points.len() > 2 && self.points.front().is_some_and(|(at, _)| now - *at > LONGEST) {
            self.points.pop_front();
        }
        let Some((start, first)) = self.points.front() else { return 0 };
        let seconds = (now - *start).as_secs_f64();
        if seconds < SHORTEST.as_secs_f64() {
            return 0;
        }
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            clippy::cast_precision_loss,
            reason = "a rate"
        )]
        let rate = (work.saturating_sub(*first) as f64 / seconds) as u64;
        rate
    }

    /// A file has landed, which took so much work.
    pub(crate) fn landed(&mut self, work: u64) {
        self.landed += work;
    }

    /// Of all work so far, what was done on files that have not landed; they take `running` in all.
    pub(crate) fn under_way(&self, work: u64, running: u64) -> u64 {
        // An attempt that was in vain, as the file had changed meanwhile, counts for none of them.
        work.saturating_sub(self.landed).min(running)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_takes_minutes_has_a_rate_and_what_is_left_of_it_shrinks() {
        let (start, mut rate) = (Instant::now(), Rate::default());
        let after = |seconds| start + Duration::from_secs(seconds);
        assert_eq!(rate.observe(after(0), 0, false), 0);
        let rates: Vec<u64> = (1..=60).map(|s| rate.observe(after(s), s * 1000, false)).collect();
        assert!(rates.iter().all(|rate| (900..=1100).contains(rate)), "{rates:?}");
        assert_eq!(rate.under_way(60_000, 100_000), 60_000);
        rate.landed(100_000);
        assert_eq!(rate.under_way(100_000, 0), 0);
    }

    #[test]
    fn time_in_which_there_is_nothing_to_do_slows_nothing() {
        let (start, mut rate) = (Instant::now(), Rate::default());
        let after = |seconds| start + Duration::from_secs(seconds);
        rate.observe(after(0), 0, false);
        assert_eq!(rate.observe(after(2), 2000, false), 1000);
        assert_eq!(rate.observe(after(100), 2000, true), 0);
        rate.observe(after(101), 2000, false);
        assert_eq!(rate.observe(after(103), 4000, false), 1000);
    }
}
