//! Files that have lost writes, and the handles that were told.
//!
//! As Linux has it since 4.13: each handle that was open when something was lost is told once, by its next sync. A
//! handle that was opened later is told if nobody was before. Handles and failures are numbered by one growing count
//! ([`Failures::stamp`]), so that the numbers tell which came first.
//!
//! **Invariant:** memory for files that lost something only, and no more than [`FILES_MAX`] of them.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};

use model::Ino;
use rustix::io::Errno;
use wire::data::message::{EVERYTHING, NAMES};

/// So many files are told apart; more are taken for everything.
const FILES_MAX: usize = 4096;

/// So many files are told of what may concern every one; it counts as told to more.
const TOLD_MAX: usize = 1 << 16;

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
    /// Of what may concern every file: those of which a handle has heard.
    files: HashSet<Ino>,
    /// Files with this number, and greater ones, were made after it.
    made_after: Option<Ino>,
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

    /// Writes to `ino`, or to any file, were lost, as `stamp` tells, if not later ones. Returns what it was noted for.
    pub fn failed(&mut self, ino: Ino, stamp: u64, errno: i32) -> Ino {
        let ino =
            if self.files.len() < FILES_MAX || self.files.contains_key(&ino) { ino } else { EVERYTHING };
        let stamp = stamp.max(self.since(ino).unwrap_or(0));
        let (told, files) = (BTreeSet::new(), HashSet::new());
        self.files.insert(ino, Failure { stamp, errno, told, files, made_after: None });
        ino
    }

    /// A file was made: what happened before does not concern it, nor those that are made later.
    pub fn made(&mut self, ino: Ino) {
        if let Some(failure) = self.files.get_mut(&EVERYTHING) {
            failure.made_after.get_or_insert(ino);
        }
    }

    /// The failures that this handle on `ino` has not heard of: what each was noted for, and its errno.
    pub fn owed(&self, ino: Ino, handle: u64) -> impl Iterator<Item = (Ino, Errno)> {
        let all = [Some(ino), (ino != EVERYTHING).then_some(EVERYTHING), Some(NAMES)];
        all.into_iter().flatten().filter_map(move |of| {
            let failure = self.files.get(&of)?;
            let is_new = handle < failure.stamp && !failure.told.contains(&handle);
            let is_by_file = of == EVERYTHING && of != ino;
            let nobody_knows = if is_by_file { failure.is_owed_to(ino) } else { failure.told.is_empty() };
            (is_new || nobody_knows).then_some((of, Errno::from_raw_os_error(failure.errno)))
        })
    }

    /// A handle on `ino` has heard of the failure that was noted for `of`.
    pub fn told(&mut self, of: Ino, handle: u64, ino: Ino) {
        if let Some(failure) = self.files.get_mut(&of) {
            failure.told.insert(handle);
            if of == EVERYTHING && of != ino {
                failure.files.insert(ino);
            }
        }
    }

    /// Whether it has failed, and nobody has heard of it.
    pub fn is_untold(&self, ino: Ino) -> bool {
        self.files.get(&ino).is_some_and(|failure| failure.told.is_empty())
    }

    /// When the file failed last.
    pub fn since(&self, ino: Ino) -> Option<u64> {
        self.files.get(&ino).map(|failure| failure.stamp)
    }

    /// Whether the file has ever failed.
    pub fn has(&self, ino: Ino) -> bool {
        self.files.contains_key(&ino)
    }

    /// Whether names and attributes were ever lost, or may have been.
    pub fn may_lack_names(&self) -> bool {
        self.has(EVERYTHING) || self.has(NAMES)
    }

    /// Each failure, with what it was noted for.
    pub fn iter(&self) -> impl Iterator<Item = (Ino, &Failure)> {
        self.files.iter().map(|(ino, failure)| (*ino, failure))
    }
}

impl Failure {
    /// Whether no handle on this file has heard of it, of what may concern any.
    fn is_owed_to(&self, ino: Ino) -> bool {
        let is_made_after = self.made_after.is_some_and(|first| ino >= first);
        let has_room = self.files.len() < TOLD_MAX;
        !is_made_after && has_room && !self.files.contains(&ino)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const IO: i32 = Errno::IO.raw_os_error();

    fn hear(failures: &mut Failures, ino: Ino, handle: u64) -> usize {
        let owed: Vec<_> = failures.owed(ino, handle).collect();
        owed.iter().for_each(|(of, _)| failures.told(*of, handle, ino));
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
    fn what_concerns_everything_is_told_to_who_opens_a_file_next_that_was_there() {
        let mut failures = Failures::default();
        failures.failed(EVERYTHING, 100, IO);
        failures.made(Ino(50));
        let heard =
            [(Ino(7), 10), (Ino(8), 200), (Ino(8), 201), (Ino(9), 202), (Ino(50), 203), (Ino(51), 204)];
        assert_eq!(heard.map(|(ino, handle)| hear(&mut failures, ino, handle)), [1, 1, 0, 1, 0, 0]);
    }

    #[test]
    fn lost_names_are_told_to_who_had_something_open_and_else_to_who_opens_something_next() {
        let mut failures = Failures::default();
        failures.failed(NAMES, 100, IO);
        let heard = [(Ino(7), 10), (EVERYTHING, 11), (EVERYTHING, 11), (Ino(8), 200), (EVERYTHING, 201)];
        assert_eq!(heard.map(|(ino, handle)| hear(&mut failures, ino, handle)), [1, 1, 0, 0, 0]);
        failures.failed(NAMES, 300, IO);
        assert_eq!(hear(&mut failures, Ino(9), 400), 1, "nobody had been told");
    }

    #[test]
    fn lost_names_hide_no_lost_bytes() {
        let mut failures = Failures::default();
        failures.failed(EVERYTHING, 100, IO);
        assert_eq!(hear(&mut failures, Ino(7), 200), 1);
        failures.failed(NAMES, 300, IO);
        assert_eq!(hear(&mut failures, Ino(7), 400), 1, "of the names");
        let heard = [(Ino(8), 401), (Ino(7), 402)];
        assert_eq!(heard.map(|(ino, handle)| hear(&mut failures, ino, handle)), [1, 0]);
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
