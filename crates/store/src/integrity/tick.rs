//! The clock that times of change come from goes on in ticks: two changes within one have the same time.
//!
//! **Invariant:** what changes after [`pass`] does not get the time that was passed.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// No kernel has longer ones.
const TICK: Duration = Duration::from_millis(10);

/// Waits until a change would get another time than this one, which was read before.
pub fn pass((seconds, nanos): (i64, u32)) {
    let changed = UNIX_EPOCH + Duration::new(u64::try_from(seconds).unwrap_or(0), nanos);
    // One that is further ahead comes from a clock that was set back since: a change now gets an earlier one.
    let left = (changed + TICK).duration_since(SystemTime::now()).unwrap_or(Duration::ZERO);
    if left <= 2 * TICK {
        std::thread::sleep(left);
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;
    use crate::measure::measure;

    #[test]
    fn what_changes_after_a_tick_was_passed_has_another_time() {
        let file: File = tempfile::tempfile().unwrap();
        for round in 0..20 {
            file.set_len(round + 1).unwrap();
            let before = measure(&file).unwrap().ctime;
            pass((before.seconds, before.nanos));
            file.set_len(round + 100).unwrap();
            assert_ne!(measure(&file).unwrap().ctime, before);
        }
    }
}
