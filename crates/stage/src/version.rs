//! Which version of a file something was read from.
//!
//! **Invariant:** two versions of a file that were both looked at after [`Found::since`] has lain for a tick
//! differ, whatever a program does to the times of change that it can set: `st_ctime` is the kernel's alone. Not
//! covered are a file server's clock that goes back to the very time that a file has, and one that counts whole
//! seconds and is further apart from this host's than [`CLOCKS_APART_MAX`]. (The kernel shows statx's change cookie to
//! nobody.)

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use model::Ino;
use wire::data::{Attr, Time};

use crate::tree::Found;

/// Longer than the clock tick that file systems stamp with (10 ms at most), and than that of those that count seconds.
const TICK: Duration = Duration::from_millis(20);
const TICK_OF_SECONDS: Duration = Duration::from_secs(2);

/// How far the clocks of file servers that count whole seconds and of this host may be apart.
const CLOCKS_APART_MAX: Duration = Duration::from_secs(60);

/// What changes with every change of a file's contents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Version {
    ino: Ino,
    size: u64,
    mtime: Time,
    changed: Time,
}

impl Version {
    /// As a journal keeps it.
    pub(crate) fn kept(ino: Ino, size: u64, mtime: Time, changed: Time) -> Version {
        Version { ino, size, mtime, changed }
    }

    /// Whether it is one of this inode.
    pub(crate) fn is_of(&self, ino: Ino) -> bool {
        self.ino == ino
    }

    /// That of the file with these attributes.
    pub fn of(attr: &Attr) -> Version {
        Version { ino: attr.ino, size: attr.size, mtime: attr.mtime, changed: attr.ctime }
    }
}

/// Whether `there` is the file `first`, with whatever names and owner: inode numbers are used again, and nobody has it
/// open.
pub(crate) fn is_same(there: &Found, first: &Found) -> bool {
    let of = |found: &Found| (found.device, found.attr.ino, found.attr.size, found.attr.mtime);
    of(there) == of(first)
}

/// How long to wait before a file is read, so that whatever changes later is stamped with another time than what was
/// found. A short tick is waited for whatever the time is: nobody knows how far the file server's clock is apart.
pub(crate) fn rest(found: &Found) -> Duration {
    let changed = found.attr.ctime;
    let tick = if changed.nanos == 0 && is_recent(changed) { TICK_OF_SECONDS } else { TICK };
    tick.saturating_sub(found.since.elapsed())
}

/// Whether a time may be now, by the clock of a file server.
fn is_recent(time: Time) -> bool {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let time = Duration::new(u64::try_from(time.seconds).unwrap_or(0), time.nanos);
    now.abs_diff(time) < CLOCKS_APART_MAX
}

/// Since when a file on this host's own file system, whose clock is ours, has had its `st_ctime`.
pub fn since(attr: &Attr) -> Instant {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let changed = Duration::new(u64::try_from(attr.ctime.seconds).unwrap_or(0), attr.ctime.nanos);
    let age = now.saturating_sub(changed).min(TICK_OF_SECONDS);
    Instant::now().checked_sub(age).unwrap_or_else(Instant::now)
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use wire::data::FileKind;

    use super::*;

    fn found(changed: Duration) -> Found {
        let time = Time { seconds: changed.as_secs() as i64, nanos: changed.subsec_nanos() };
        let (kind, times) = (FileKind::Regular, (time, time, time));
        let attr = Attr {
            ino: Ino(1),
            kind,
            mode: 0,
            nlink: 1,
            uid: 0,
            gid: 0,
            rdev: 0,
            size: 1,
            blocks: 1,
            atime: times.0,
            mtime: times.1,
            ctime: times.2,
        };
        Found { path: PathBuf::new(), device: 0, attr, since: Instant::now() }
    }

    #[test]
    fn a_file_is_read_when_the_clock_that_stamps_it_has_moved() {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        let (fine, hour) = (Duration::from_nanos(1), Duration::from_secs(3600));
        let whole = Duration::from_secs(now.as_secs());
        let is_short = |found: &Found| (1..=20).contains(&rest(found).as_millis());
        assert!(is_short(&found(whole + fine)), "now");
        assert!(is_short(&found(whole + hour + fine)), "a clock that is ahead");
        assert!(is_short(&found(whole - hour + fine)), "an old file, or a clock that is behind");
        assert!(is_short(&found(whole - hour)), "an old file where seconds are counted");
        assert!(rest(&found(whole)) > Duration::from_secs(1), "a file system that counts seconds");
        let lain = Found { since: Instant::now() - TICK, ..found(whole + fine) };
        assert_eq!(rest(&lain), Duration::ZERO);
    }
}
