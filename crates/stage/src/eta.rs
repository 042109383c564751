//! When a stage will be over, from how fast it went lately.
//!
//! Work is bytes copied, bytes read back, and for each entry as much as its making costs; so that a tree of small files
//! and one large file are both estimated well, and also one after the other.

use std::time::Duration;

use wire::control::StageProgress;

/// What an entry costs besides its bytes: opening, making, syncing and naming it takes about as long as to copy so
/// much.
const ENTRY_WORK: u64 = 256 << 10;

/// The rate is one over at least this time, and over a quarter of the time passed: steady late, quick to find early.
const WINDOW_MIN: Duration = Duration::from_secs(5);

/// Follows one stage.
#[derive(Default)]
pub(crate) struct Gauge {
    last: Option<(Duration, u64)>,
    /// Time that was not a pause.
    worked: Duration,
    /// Work in a second.
    rate: f64,
}

impl Gauge {
    /// Notes how far the stage is, at a time after its start; gives the time left.
    pub(crate) fn observe(
        &mut self,
        at: Duration,
        paused: bool,
        progress: &StageProgress,
    ) -> Option<Duration> {
        let done = done(progress);
        let (before, was_done) = self.last.replace((at, done)).unwrap_or((at, done));
        if paused {
            return None;
        }
        let passed = at.saturating_sub(before);
        self.worked += passed;
        if !passed.is_zero() {
            let window = WINDOW_MIN.max(self.worked / 4).min(self.worked).as_secs_f64();
            let weight = (passed.as_secs_f64() / window).min(1.0);
            #[expect(clippy::cast_precision_loss, reason = "an estimate")]
            let now = done.saturating_sub(was_done) as f64 / passed.as_secs_f64();
            self.rate += weight * (now - self.rate);
        }
        if !progress.planned || self.rate <= 0.0 {
            return None;
        }
        #[expect(clippy::cast_precision_loss, reason = "an estimate")]
        let left = total(progress).saturating_sub(done) as f64;
        Duration::try_from_secs_f64(left / self.rate).ok()
    }
}

fn done(progress: &StageProgress) -> u64 {
    let entries = progress.entries_done.saturating_add(progress.entries_failed);
    progress
        .bytes_done
        .saturating_add(progress.bytes_verified)
        .saturating_add(entries.saturating_mul(ENTRY_WORK))
}

fn total(progress: &StageProgress) -> u64 {
    let entries = progress.entries_total.saturating_mul(ENTRY_WORK);
    progress.bytes_total.saturating_add(progress.bytes_to_verify).saturating_add(entries)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A stage of `entries` files in `seconds`, copied and then read back, with a pause of 100 s in the middle.
    fn follow(entries: u64, bytes: u64, seconds: u64) {
        let mut gauge = Gauge::default();
        for step in 0..=10 * seconds {
            let part = |whole: u64| whole * step / (10 * seconds);
            let progress = StageProgress {
                entries_total: entries,
                bytes_total: bytes,
                bytes_to_verify: bytes,
                planned: true,
                entries_done: part(entries),
                bytes_done: (2 * part(bytes)).min(bytes),
                bytes_verified: (2 * part(bytes)).saturating_sub(bytes),
                ..StageProgress::default()
            };
            let pause = if step > 5 * seconds { 100 } else { 0 };
            let at = Duration::from_millis(100 * step) + Duration::from_secs(pause);
            if step == 5 * seconds + 1 {
                assert_eq!(gauge.observe(at, true, &progress), None, "no estimate in a pause");
            }
            let left = gauge.observe(at, false, &progress);
            let (truth, early) = ((10 * seconds - step) as f64 / 10.0, step < 5 * seconds);
            if !early && truth > 1.0 {
                let left = left.unwrap().as_secs_f64();
                assert!(
                    (left / truth - 1.0).abs() < 0.2,
                    "{left:.1} s said, {truth:.1} s true, {entries} entries"
                );
            }
        }
    }

    #[test]
    fn the_estimate_is_within_a_fifth_over_the_second_half() {
        follow(1, 100 << 30, 100);
        follow(1_000_000, 4 << 30, 300);
        follow(1000, 1 << 30, 20);
    }
}
