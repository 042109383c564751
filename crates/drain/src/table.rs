//! What is to be copied, and when: pure, the clock comes from outside.
//!
//! ```text
//!            notice                next                     settle
//! (nothing) -------> waits(due) -------> in work -----------------------------> (nothing)
//!                       ^                   |  \-- notice: again
//!                       +-- open, failed, --+
//!                           changed, again
//! ```
//!
//! **Invariant:** one path is in work at most once, so an older version is never copied beside a newer one.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::generation::Generation;
use crate::status::Trouble;

/// How long after the close a copy begins: several closes of one file become one copy.
pub(crate) const SETTLE: Duration = Duration::from_millis(25);

/// Longest pause between two looks at a file that is open, or cannot be copied.
const PAUSE_MAX: Duration = Duration::from_secs(30);

/// Longest pause between two looks at a file that is open for writing: its close is noticed anyhow.
const OPEN_PAUSE_MAX: Duration = Duration::from_secs(2);

/// How often a file must have failed before a barrier calls it failed.
const TRIES: u32 = 3;

/// How one attempt with a file ended.
#[derive(Clone, Debug)]
pub(crate) enum Attempt {
    /// It is on the PFS, or there is nothing to copy any more.
    Done,
    /// It has just changed.
    Changed,
    /// Somebody has it open for writing.
    Open,
    /// It could not be copied.
    Failed(Trouble),
}

/// Everything that is not done.
#[derive(Default)]
pub(crate) struct Table {
    pending: HashMap<PathBuf, Pending>,
    due: BTreeMap<(Instant, u64), PathBuf>,
    next_number: u64,
    barriers: HashMap<u64, Barrier>,
}

#[derive(Default)]
struct Pending {
    work: Work,
    /// Attempts that ended alike, in a row.
    tries: u32,
    trouble: Option<Trouble>,
    open: bool,
    begun: bool,
    /// The version that was seen last; none of what was taken in work without a notice.
    seen: Option<Generation>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Work {
    #[default]
    None,
    Waits((Instant, u64)),
    Runs {
        again: bool,
    },
}

/// What was pending at one time, and what became of it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Barrier {
    /// Paths, and how many attempts with them must end.
    left: HashMap<PathBuf, u8>,
    /// What could not be copied, by path.
    pub failed: BTreeMap<PathBuf, Trouble>,
    /// What is open for writing.
    pub open: Vec<PathBuf>,
}

/// How many files are in which state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    /// All that are not done.
    pub pending: usize,
    /// Being copied.
    pub running: usize,
    /// Could not be copied at the last try.
    pub failed: usize,
    /// Open for writing at the last look.
    pub open: usize,
    /// Bytes of all that are not done.
    pub bytes: u64,
    /// The work that all of them take, and that those take which are being copied.
    pub work: u64,
    pub running_work: u64,
}

impl Table {
    /// A file may have changed; `seen` is what it is now. Says whether it was not pending before.
    pub(crate) fn notice(&mut self, path: &Path, seen: Generation, now: Instant) -> bool {
        let known = self.pending.get_mut(path);
        let is_new = known.is_none();
        match known.map(|pending| (&mut pending.work, &mut pending.seen)) {
            Some((Work::Runs { again }, last)) => (*again, *last) = (true, Some(seen)),
            Some((_, last)) => {
                *last = Some(seen);
                // A close may be what a file that waits for long has waited for.
                self.wait(path, now + SETTLE);
            }
            None => {
                self.pending.insert(path.to_owned(), Pending { seen: Some(seen), ..Pending::default() });
                self.wait(path, now + SETTLE);
            }
        }
        is_new
    }

    /// A rescan found a version that has not landed: as [`Table::notice`], but who waits goes on waiting.
    pub(crate) fn found(&mut self, path: &Path, seen: Generation, now: Instant) -> bool {
        match self.pending.get_mut(path) {
            Some(pending) if matches!(pending.work, Work::Waits(_)) => {
                pending.seen = Some(seen);
                false
            }
            _ => self.notice(path, seen, now),
        }
    }

    /// The file to take in work now, or when to ask again.
    pub(crate) fn next(&mut self, now: Instant) -> Result<PathBuf, Option<Instant>> {
        let Some(entry) = self.due.first_entry() else { return Err(None) };
        let due = entry.key().0;
        if due > now {
            return Err(Some(due));
        }
        let path = entry.remove();
        if let Some(pending) = self.pending.get_mut(&path) {
            pending.work = Work::Runs { again: false };
        }
        Ok(path)
    }

    /// The copy of a file begins; says whether it is the first since its notice.
    pub(crate) fn begin(&mut self, path: &Path) -> bool {
        self.pending.get_mut(path).is_some_and(|pending| !std::mem::replace(&mut pending.begun, true))
    }

    /// Whether a file is not done.
    pub(crate) fn is_pending(&self, path: &Path) -> bool {
        self.pending.contains_key(path)
    }

    /// Takes a path in work that is not pending, to do something to it at the PFS.
    pub(crate) fn seize(&mut self, path: &Path) -> bool {
        if self.pending.contains_key(path) {
            return false;
        }
        let work = Work::Runs { again: false };
        self.pending.insert(path.to_owned(), Pending { work, ..Pending::default() });
        true
    }

    /// An attempt with a file has ended.
    pub(crate) fn settle(&mut self, path: &Path, attempt: Attempt, now: Instant) {
        let Some(pending) = self.pending.get_mut(path) else { return };
        let again = pending.work == Work::Runs { again: true };
        let (was_open, tries) = (pending.open, pending.tries);
        (pending.open, pending.trouble) = (false, None);
        let pause = match &attempt {
            Attempt::Done if !again => {
                self.pending.remove(path);
                return self.decide(path, |_| {});
            }
            Attempt::Done => {
                (pending.tries, pending.begun) = (0, false);
                SETTLE
            }
            Attempt::Changed => {
                pending.tries = 0;
                SETTLE
            }
            Attempt::Open => {
                pending.open = true;
                pending.tries = if was_open { tries + 1 } else { 0 };
                backoff(Duration::from_millis(50), pending.tries).min(OPEN_PAUSE_MAX)
            }
            Attempt::Failed(trouble) => {
                pending.trouble = Some(trouble.clone());
                pending.tries = if was_open { 1 } else { tries + 1 };
                backoff(Duration::from_millis(250), pending.tries)
            }
        };
        let tries = pending.tries;
        self.wait(path, now + if again { SETTLE } else { pause });
        match attempt {
            Attempt::Done => self.pass(path),
            Attempt::Open if tries >= TRIES => self.decide(path, |b| b.open.push(path.to_owned())),
            Attempt::Failed(trouble) if tries >= TRIES => {
                self.decide(path, |b| drop(b.failed.insert(path.to_owned(), trouble.clone())));
            }
            _ => {}
        }
    }

    /// Whatever waits after a failure is tried at once.
    pub(crate) fn retry_now(&mut self, now: Instant) {
        let failed: Vec<PathBuf> =
            self.pending.iter().filter(|(_, p)| p.trouble.is_some()).map(|(path, _)| path.clone()).collect();
        for path in failed {
            self.pending.entry(path.clone()).and_modify(|pending| pending.tries = 0);
            self.wait(&path, now);
        }
    }

    /// Watches everything that is pending now.
    pub(crate) fn raise(&mut self) -> u64 {
        let number = self.number();
        let attempts = |pending: &Pending| if pending.work == (Work::Runs { again: true }) { 2 } else { 1 };
        let left = self.pending.iter().map(|(path, pending)| (path.clone(), attempts(pending))).collect();
        self.barriers.insert(number, Barrier { left, ..Barrier::default() });
        number
    }

    /// The barrier, once everything that was pending is decided.
    pub(crate) fn lower(&mut self, number: u64) -> Option<Barrier> {
        let decided = self.barriers.get(&number).is_some_and(|barrier| barrier.left.is_empty());
        decided.then(|| self.barriers.remove(&number)).flatten()
    }

    /// How many files are in which state; `work_of` tells how much work a file of a size is.
    pub(crate) fn counts(&self, work_of: impl Fn(u64) -> u64) -> Counts {
        let mut counts = Counts { pending: self.pending.len(), ..Counts::default() };
        for pending in self.pending.values() {
            let bytes = pending.seen.map_or(0, |seen| seen.size);
            let (runs, work) = (matches!(pending.work, Work::Runs { .. }), work_of(bytes));
            counts.work += work;
            counts.running_work += if runs { work } else { 0 };
            counts.running += usize::from(runs);
            counts.failed += usize::from(pending.trouble.is_some());
            counts.open += usize::from(pending.open);
            counts.bytes += bytes;
        }
        counts
    }

    /// What could not be copied, some of it.
    pub(crate) fn troubles(&self, at_most: usize) -> Vec<Trouble> {
        self.pending.values().filter_map(|pending| pending.trouble.clone()).take(at_most).collect()
    }

    /// Everything that is not done.
    pub(crate) fn paths(&self) -> impl Iterator<Item = &PathBuf> {
        self.pending.keys()
    }

    /// The same, with the version of each that was seen last.
    pub(crate) fn versions(&self) -> impl Iterator<Item = (&PathBuf, &Generation)> {
        self.pending.iter().filter_map(|(path, pending)| Some((path, pending.seen.as_ref()?)))
    }

    /// How often the file was tried without success so far.
    pub(crate) fn tries(&self, path: &Path) -> u32 {
        self.pending.get(path).map_or(0, |pending| pending.tries)
    }

    fn wait(&mut self, path: &Path, due: Instant) {
        let number = self.number();
        let Some(pending) = self.pending.get_mut(path) else { return };
        if let Work::Waits(key) = pending.work {
            self.due.remove(&key);
        }
        pending.work = Work::Waits((due, number));
        self.due.insert((due, number), path.to_owned());
    }

    /// A version of a file has landed, and there is a newer one: which of them a barrier waits for it knows.
    fn pass(&mut self, path: &Path) {
        for barrier in self.barriers.values_mut() {
            if let Some(attempts) = barrier.left.get_mut(path) {
                *attempts -= 1;
                if *attempts == 0 {
                    barrier.left.remove(path);
                }
            }
        }
    }

    /// What becomes of a file is known, also of its newest version.
    fn decide(&mut self, path: &Path, note: impl Fn(&mut Barrier)) {
        for barrier in self.barriers.values_mut() {
            if barrier.left.remove(path).is_some() {
                note(barrier);
            }
        }
    }

    fn number(&mut self) -> u64 {
        self.next_number += 1;
        self.next_number
    }
}

fn backoff(first: Duration, tries: u32) -> Duration {
    first.saturating_mul(1 << tries.min(16)).min(PAUSE_MAX)
}

#[cfg(test)]
mod tests;
