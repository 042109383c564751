//! When everything is scrubbed without being asked for: a week after it was last, however often the node was started
//! since.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::{mark, start};
use crate::objects::Objects;

/// How often.
const EVERY: Duration = Duration::from_secs(7 * 24 * 3600);

/// How fast.
const BYTES_PER_S: u64 = 64 << 20;

/// When the next is to be thought of.
#[derive(Debug)]
pub struct Schedule(Instant);

impl Schedule {
    /// For these objects. Of those that are new a week is counted from now on.
    pub fn of(objects: &Objects) -> Schedule {
        Schedule(Instant::now() + mark::left(objects, EVERY))
    }

    /// Starts one that is due: objects that were left alone for `rest` are sealed first.
    pub fn turn(&mut self, objects: &Arc<Objects>, namespace: u32, rest: Duration) {
        if Instant::now() < self.0 {
            return;
        }
        // Somebody may have asked for one since.
        let left = mark::left(objects, EVERY);
        if left.is_zero() {
            start(objects, namespace, Some(BYTES_PER_S), rest);
        }
        // One that is cut short by an error is tried again as late: it would be again.
        self.0 = Instant::now() + if left.is_zero() { EVERY } else { left };
    }
}
