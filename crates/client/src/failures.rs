//! Files that have lost writes, and the handles that were told.
//!
//! As Linux has it since 4.13: each handle that was open when something was lost is told once, by its next sync. A
//! handle that was opened later is told if nobody was before. Handles and failures are numbered by one growing count
//! ([`Failures::stamp`]), so that the numbers tell which came first.
//!
//! **Invariant:** memory for files that lost something only, and no more than [`FILES_MAX`] of them.

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};

use model::Ino;
use rustix::io::Errno;

/// The inode of a failure that may concern every file and name.
pub const EVERYTHING: Ino = Ino(0);

/// So many files are told apart; more are taken for everything.
const FILES_MAX: usize = 4096;

/// All failures of a mount.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Failures {
    files: HashMap<Ino, Failure>,
}

/// The last failure of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// When it was.
    pub stamp: u64,
    /// What a sync says.
    pub errno: i32,
    /// The handles that heard of it.
    pub told: BTreeSet<u64>,
}

impl Failures {
    /// A number that is greater than all before it in this boot, also of other processes; below 2^62.
    pub fn stamp() -> u64 {
        static LAST: AtomicU64 = AtomicU64::new(0);
        let time = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
        let now = u64::try_from(time.tv_sec * 1_000_000_000 + time.tv_nsec).unwrap_or(0);
        let next = |last: u64| Some(now.max(last + 1));
        // The closure always gives a number.
        let last = LAST.fetch_update(Ordering::AcqRel, Ordering::Acquire, next).unwrap_or_else(|last| last);
        now.max(last + 1)
    }

    /// Writes to `ino`, or to any file, were lost, as `stamp` tells. Returns what it was noted for.
    pub fn failed(&mut self, ino: Ino, stamp: u64, errno: i32) -> Ino {
        let ino =
            if self.files.len() < FILES_MAX || self.files.contains_key(&ino) { ino } else { EVERYTHING };
        self.files.insert(ino, Failure { stamp, errno, told: BTreeSet::new() });
        ino
    }

    /// The failures that this handle on `ino` has not heard of: what each was noted for, and its errno.
    pub fn owed(&self, ino: Ino, handle: u64) -> impl Iterator<Item = (Ino, Errno)> {
        let both = [Some(ino), (ino != EVERYTHING).then_some(EVERYTHING)];
        both.into_iter().flatten().filter_map(move |ino| {
            let failure = self.files.get(&ino)?;
            let is_new = handle < failure.stamp && !failure.told.contains(&handle);
            (is_new || failure.told.is_empty()).then_some((ino, Errno::from_raw_os_error(failure.errno)))
        })
    }

    /// A handle has heard of the failure that was noted for `ino`.
    pub fn told(&mut self, ino: Ino, handle: u64) {
        if let Some(failure) = self.files.get_mut(&ino) {
            failure.told.insert(handle);
        }
    }

    /// Whether the file has ever failed.
    pub fn has(&self, ino: Ino) -> bool {
        self.files.contains_key(&ino)
    }

    /// Each failure, with what it was noted for.
    pub fn iter(&self) -> impl Iterator<Item = (Ino, &Failure)> {
        self.files.iter().map(|(ino, failure)| (*ino, failure))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const IO: i32 = Errno::IO.raw_os_error();

    fn hear(failures: &mut Failures, ino: Ino, handle: u64) -> usize {
        let owed: Vec<_> = failures.owed(ino, handle).collect();
        owed.iter().for_each(|(ino, _)| failures.told(*ino, handle));
        owed.len()
    }

    #[test]
    fn every_handle_that_was_open_hears_of_a_failure_once_and_no_other() {
        let mut failures = Failures::default();
        failures.failed(Ino(7), 100, IO);
        assert_eq!([hear(&mut failures, Ino(7), 10), hear(&mut failures, Ino(7), 10)], [1, 0]);
        assert_eq!([hear(&mut failures, Ino(7), 11), hear(&mut failures, Ino(8), 12)], [1, 0]);
        assert_eq!(hear(&mut failures, Ino(7), 200), 0, "opened later, when others had been told");
        failures.failed(Ino(7), 300, IO);
        assert_eq!([hear(&mut failures, Ino(7), 10), hear(&mut failures, Ino(7), 200)], [1, 1]);
    }

    #[test]
    fn a_failure_that_nobody_was_told_is_told_to_who_opens_the_file_next() {
        let mut failures = Failures::default();
        failures.failed(Ino(7), 100, IO);
        assert_eq!([hear(&mut failures, Ino(7), 200), hear(&mut failures, Ino(7), 201)], [1, 0]);
    }

    #[test]
    fn what_concerns_everything_is_told_for_each_file_and_folder() {
        let mut failures = Failures::default();
        failures.failed(EVERYTHING, 100, IO);
        let heard = [(Ino(7), 10), (Ino(7), 10), (Ino(8), 11), (EVERYTHING, 12), (EVERYTHING, 12)];
        assert_eq!(heard.map(|(ino, handle)| hear(&mut failures, ino, handle)), [1, 0, 1, 1, 0]);
    }

    #[test]
    fn too_many_files_are_taken_for_everything() {
        let mut failures = Failures::default();
        (1..=FILES_MAX as u64).map(Ino).for_each(|ino| assert_eq!(failures.failed(ino, 100, IO), ino));
        assert_eq!(failures.failed(Ino(1 << 40), 100, IO), EVERYTHING);
        assert_eq!(hear(&mut failures, Ino(1 << 41), 10), 1);
    }

    #[test]
    fn stamps_grow() {
        let stamps: Vec<u64> = (0..1000).map(|_| Failures::stamp()).collect();
        assert!(stamps.windows(2).all(|pair| pair[0] < pair[1]) && stamps[999] < 1 << 62);
    }
}
