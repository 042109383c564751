//! One node's drainer: its parts, its threads, and what they share.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Instant;

use disk::below::Root;
use rustix::io::Errno;
use stage::pace::Pace;

use crate::burst::Burst;
use crate::claims::{Claims, UNREAD};
use crate::closed::stamps_maps;
use crate::copy::{Copier, Outcome, local_trouble};
use crate::deadline::Deadline;
use crate::generation::{Seen, find};
use crate::ledger::{Landed, Ledger};
use crate::logs::{Logs, Verb};
use crate::placed::{Over, Placed};
use crate::rendezvous::Rendezvous;
use crate::settings::{Removed, SameName};
use crate::state::State;
use crate::status::Trouble;
use crate::table::Attempt;
use crate::target::REPLACED;
use crate::top::Top;
use crate::watch::{Notice, Watch};

/// As many names as are tried for a file whose own another node has.
const SUFFIXES_MAX: u32 = 8;

/// A running drainer.
pub struct Drain {
    pub(crate) host: String,
    pub(crate) session: String,
    pub(crate) machine: String,
    pub(crate) from: PathBuf,
    /// The same, held open.
    pub(crate) top: Arc<Top>,
    pub(crate) to: PathBuf,
    pub(crate) same_name: SameName,
    pub(crate) removed: Removed,
    pub(crate) deadline: Deadline,
    pub(crate) rendezvous: Rendezvous,
    /// Everything that the job left has been decided about, at least once.
    pub(crate) settled_at_end: AtomicBool,
    /// It has been told to end, and has done so.
    pub(crate) ended: AtomicBool,
    /// One status is published at a time.
    pub(crate) publishing: Mutex<()>,
    /// Everything is decided about once at a time.
    pub(crate) settling: Mutex<()>,
    pub(crate) copier: Copier,
    pub(crate) burst: Burst,
    /// It was found to be late.
    pub(crate) hurries: AtomicBool,
    /// It is to end, and copies nothing any more.
    pub(crate) leaves: AtomicBool,
    pub(crate) claims: Arc<Claims>,
    pub(crate) watch: Watch,
    pub(crate) logs: Logs,
    pub(crate) state: Arc<Mutex<State>>,
    /// There may be something to copy.
    pub(crate) work: Condvar,
    /// Something was copied.
    pub(crate) copied: Condvar,
    /// Something was settled.
    pub(crate) settled: Condvar,
}

impl Drain {
    /// Follows the kernel's notices, for ever.
    pub(crate) fn follow(&self) {
        let followed = self.watch.follow(|notice| match notice {
            Notice::File(path) => self.notice(&path),
            Notice::Folder(path) => drop(self.scan(&path)),
            Notice::Lost => {
                tracing::info!("notices were lost: walk through {}", self.from.display());
                self.scan(Path::new(""));
            }
        });
        if let Err(errno) = followed {
            tracing::error!("read inotify: {errno}; closed files are found by walks only");
        }
    }

    /// Compares what is in a folder with what has landed; gives what it could not look at.
    pub(crate) fn scan(&self, folder: &Path) -> Vec<Trouble> {
        self.scan_with(folder, &mut |_, _, _| {})
    }

    /// The same. Tells of each file and folder, and whether it is a file that was not known.
    pub(crate) fn scan_with(&self, folder: &Path, tell: &mut dyn FnMut(&Path, &Seen, bool)) -> Vec<Trouble> {
        let unseen = self.watch.walk(folder, &mut |path, seen| {
            let is_unknown = seen.kind.is_drained() && self.find(&path, seen);
            tell(&path, seen, is_unknown);
        });
        self.work.notify_all();
        let trouble = |(path, errno): (PathBuf, Errno)| local_trouble(&path, &self.from.join(&path), errno);
        unseen.into_iter().map(trouble).collect()
    }

    /// Has all files read and compared that have landed, where one may have changed and no time of change tells it: as
    /// the file system says that its folder is on, which may be mounted below the drained one.
    pub(crate) fn doubt(&self) {
        let landed: Vec<PathBuf> = self.lock().ledger.paths().cloned().collect();
        let mut stamps: HashMap<&Path, bool> = HashMap::new();
        let mut tells = |path| {
            let folder = Path::parent(path).unwrap_or(path);
            *stamps.entry(folder).or_insert_with(|| self.top.folder(folder).is_ok_and(stamps_maps))
        };
        landed.iter().filter(|path| !tells(path)).for_each(|path| self.notice(path));
    }

    /// Takes what was found into the table, if it is owed; whether nothing was known of it.
    fn find(&self, path: &Path, seen: &Seen) -> bool {
        let mut state = self.lock();
        let landed = state.ledger.get(path);
        let (is_unknown, is_owed) =
            (landed.is_none(), landed.is_none_or(|landed| landed.generation != seen.generation));
        if !(is_owed && state.table.found(path, seen.generation, Instant::now())) {
            return false;
        }
        let target = self.target_of(&state, path);
        drop(state);
        self.enqueued(&target);
        is_unknown
    }

    fn notice(&self, path: &Path) {
        let Ok(seen) = self.top.glance(path) else { return };
        let mut state = self.lock();
        if state.table.notice(path, seen.generation, Instant::now()) {
            let target = self.target_of(&state, path);
            drop(state);
            self.enqueued(&target);
        }
        self.work.notify_one();
    }

    fn enqueued(&self, target: &Path) {
        self.logs.spectral(Verb::Enqueue, target);
    }

    /// Takes files in work, for ever.
    pub(crate) fn work(&self) {
        loop {
            let (path, target, landed, tries) = self.next();
            let outcome = self.attempt(&path, target, landed.as_ref());
            self.end_attempt(path, outcome, tries);
        }
    }

    /// The next file, its name on the PFS, what has landed of it, and how often it was tried.
    fn next(&self) -> (PathBuf, PathBuf, Option<Landed>, u32) {
        let mut state = self.lock();
        loop {
            let now = Instant::now();
            let rests = self.pace().is_paused() || self.burst.holds();
            let due = if rests { Err(None) } else { state.table.next(now) };
            match due {
                Ok(path) => {
                    let target = self.take_target(&mut state, &path);
                    let landed = state.ledger.get(&path).cloned();
                    let tries = state.table.tries(&path);
                    return (path, target, landed, tries);
                }
                Err(Some(due)) => {
                    let wait = self.work.wait_timeout(state, due.saturating_duration_since(now));
                    state = wait.expect("no thread panics with the lock").0;
                }
                Err(None) => state = self.work.wait(state).expect("no thread panics with the lock"),
            }
        }
    }

    fn attempt(&self, path: &Path, mut target: PathBuf, landed: Option<&Landed>) -> Outcome {
        let begin = |target: &Path, generation| {
            self.look_first(target);
            let mut state = self.lock();
            let begun = Landed { target: target.to_owned(), generation, crc32c: None, left_out: vec![] };
            let noted = state.ledger.begin(path, begun);
            noted.unwrap_or_else(|error| tracing::warn!("write the ledger: {error}"));
            if state.table.begin(path) {
                self.logs.spectral(Verb::Dequeue, target);
            }
        };
        let there = match self.is_there(path, &target, landed) {
            Err(trouble) => return Outcome::Failed(trouble),
            Ok(is_there) => landed.filter(|_| is_there),
        };
        let mut names = SUFFIXES_MAX;
        loop {
            let attempt = || self.copier.attempt(path, &target, there, |version| begin(&target, version));
            match self.is_own(path, &target).unwrap_or_else(attempt) {
                Outcome::Taken(_) if names > 0 && self.same_name == SameName::Suffix => {
                    names -= 1;
                    target = self.divert(path, target);
                }
                Outcome::Blocked(obstacle) => return self.clear_the_way(path, &obstacle),
                // It was put there while the copy was made.
                Outcome::Failed(trouble) if trouble.errno == REPLACED.raw_os_error() => {
                    return Outcome::Failed(self.is_there(path, &target, landed).err().unwrap_or(trouble));
                }
                Outcome::Failed(trouble) if trouble.errno == UNREAD.raw_os_error() => {
                    return Outcome::Failed(self.claims.unread(path).unwrap_or(trouble));
                }
                outcome => return outcome,
            }
        }
    }

    /// Notes what has the name before the first copy for it is begun.
    fn look_first(&self, target: &Path) {
        if self.lock().ledger.first(target).is_some() {
            return;
        }
        // What cannot be looked at now cannot be replaced either.
        let Ok(seen) = find(&Root::at(&self.to), target) else { return };
        let first = seen.map_or(Over::Nothing, |seen| Over::It(Placed::now(&seen)));
        if let Err(error) = self.lock().ledger.meet(target, first) {
            tracing::warn!("write the ledger: {error}");
        }
    }

    fn end_attempt(&self, path: PathBuf, outcome: Outcome, tries: u32) {
        let attempt = match outcome {
            Outcome::Landed(landed) => return self.hand_over(path, landed),
            Outcome::Unchanged | Outcome::Gone => Attempt::Done,
            Outcome::Changed => Attempt::Changed,
            Outcome::Open => Attempt::Open,
            Outcome::Taken(trouble) | Outcome::Failed(trouble) => Attempt::Failed(trouble),
            Outcome::Blocked(obstacle) => Attempt::Failed(self.blocked(&path, &obstacle)),
        };
        if let Attempt::Failed(trouble) = &attempt {
            self.log_failure(&path, trouble, tries + 1);
        }
        self.settle_one(&mut self.lock(), &path, attempt);
    }

    /// Ends the work at a file: the one way to do so, which wakes all who may wait for it.
    pub(crate) fn settle_one(&self, state: &mut State, path: &Path, attempt: Attempt) {
        state.table.settle(path, attempt, Instant::now());
        self.work.notify_one();
        self.settled.notify_all();
    }

    /// The name on the PFS of a file below the drained folder.
    pub(crate) fn target_of(&self, state: &State, path: &Path) -> PathBuf {
        if let Some(diverted) = state.diverted.get(path) {
            return diverted.clone();
        }
        if let Some(landed) = state.ledger.get(path) {
            return landed.target.clone();
        }
        match self.same_name {
            SameName::Folder => self.to.join(&self.host).join(path),
            SameName::Suffix | SameName::Error => self.to.join(path),
        }
    }

    /// Holds everything, or lets it go on.
    pub(crate) fn pause(&self, paused: bool) {
        self.pace().pause(paused);
        self.work.notify_all();
    }

    /// Copies without limit, and gives way to nobody, from now on: the time is running out.
    pub(crate) fn hurry(&self) {
        if !self.hurries.swap(true, Ordering::Relaxed) {
            self.pace().limit(None);
            self.burst.ignore();
            self.work.notify_all();
        }
    }

    pub(crate) fn pace(&self) -> &Pace {
        self.copier.publisher.pace()
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no thread panics with the lock")
    }
}

/// Names on the PFS that this host has.
pub(crate) fn kept(ledger: &Ledger) -> HashSet<PathBuf> {
    ledger.targets().cloned().collect()
}
