//! When everything is scrubbed without being asked for: a week after it was last, however often the node was started
//! since.
//!
//! ```text
//! FRAGMENT/sums/N.scrubbed    when the last whole scrub of namespace N ended, seconds since 1970
//! ```
//!
//! **Invariant:** a scrub that did not come to its end counts for nothing.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use super::{scrub, sealer};
use crate::objects::Objects;

/// How often, and how fast.
const EVERY: Duration = Duration::from_secs(7 * 24 * 3600);
const BYTES_PER_S: u64 = 64 << 20;

/// When the next is to be thought of.
#[derive(Debug)]
pub struct Schedule(Instant);

impl Schedule {
    /// For these objects. Of those that are new a week is counted from now on.
    pub fn of(objects: &Objects) -> Schedule {
        Schedule(Instant::now() + left(&mark_of(objects)))
    }

    /// Starts one that is due.
    pub fn turn(&mut self, objects: &Arc<Objects>, namespace: u32) {
        if Instant::now() < self.0 {
            return;
        }
        // Somebody may have asked for one since.
        let left = left(&mark_of(objects));
        if left.is_zero() {
            scrub::start(objects, namespace, Some(BYTES_PER_S), sealer::rest());
        }
        // One that is cut short by an error is tried again as late: it would be again.
        self.0 = Instant::now() + if left.is_zero() { EVERY } else { left };
    }
}

/// A whole scrub has ended.
pub fn note(objects: &Objects) {
    write(&mark_of(objects));
}

fn mark_of(objects: &Objects) -> PathBuf {
    objects.keeper().log.path().with_extension("scrubbed")
}

/// How long until the next is due.
fn left(mark: &Path) -> Duration {
    let Some(last) = read(mark) else {
        write(mark);
        return EVERY;
    };
    // A clock that was set back tells of no time that has passed.
    EVERY.saturating_sub(Duration::from_secs(now().saturating_sub(last)))
}

/// What is damaged, or cannot be read, says nothing.
fn read(mark: &Path) -> Option<u64> {
    let text = disk::read(mark).ok()??;
    std::str::from_utf8(&text).ok()?.trim().parse().ok()
}

fn write(mark: &Path) {
    let written: io::Result<()> = disk::replace(mark, format!("{}\n", now()).as_bytes());
    if let Err(error) = written {
        tracing::info!(path = %mark.display(), %error, "cannot note that all objects were scrubbed");
    }
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}
