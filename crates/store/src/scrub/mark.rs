//! When everything was scrubbed last.
//!
//! ```text
//! FRAGMENT/sums/N.scrubbed    when the last whole scrub of namespace N ended, seconds since 1970
//! ```
//!
//! **Invariant:** a scrub that did not come to its end counts for nothing.

use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::objects::Objects;

/// A whole scrub has ended.
pub(super) fn note(objects: &Objects) {
    write(&mark_of(objects));
}

/// How long until the next is due, which is to follow `every` time after the last.
pub(super) fn left(objects: &Objects, every: Duration) -> Duration {
    let mark = mark_of(objects);
    let Some(last) = read(&mark) else {
        write(&mark);
        return every;
    };
    // A clock that was set back tells of no time that has passed.
    every.saturating_sub(Duration::from_secs(now().saturating_sub(last)))
}

fn mark_of(objects: &Objects) -> PathBuf {
    objects.keeper().log.path().with_extension("scrubbed")
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
