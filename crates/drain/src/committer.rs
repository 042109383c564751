//! The end of a copy: the folder on the PFS is synced, for all files that were copied into it meanwhile at once; then
//! the ledger and the logs say "done". And what follows from renames and removals on the node.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

use disk::below::{Place, Root};
use model::phase::Direction;
use rustix::fs::{AtFlags, unlinkat};
use stage::fault::Fault;

use crate::drain::Drain;
use crate::generation::Kind;
use crate::ledger::{Landed, Ledger};
use crate::logs::Verb;
use crate::mounted;
use crate::settings::Removed;
use crate::state::State;
use crate::status::Trouble;
use crate::table::Attempt;
use crate::taken::Removal;

/// How long one that was copied waits for others: small files come faster than a folder is synced. Far shorter than
/// what a file lies before it is copied.
const GATHER: Duration = Duration::from_millis(5);

impl Drain {
    /// Takes what was copied, for ever.
    pub(crate) fn land(&self) {
        loop {
            let state = self.lock();
            let waited = self.copied.wait_while(state, |state| state.landing.is_empty());
            drop(waited.expect("no thread panics with the lock"));
            std::thread::sleep(GATHER);
            let batch = std::mem::take(&mut self.lock().landing);
            self.land_batch(batch);
        }
    }

    /// Has it landed soon.
    pub(crate) fn hand_over(&self, path: PathBuf, landed: Landed) {
        let mut state = self.lock();
        state.landing.push((path, landed));
        // Whoever comes after the first is taken with it.
        if state.landing.len() == 1 {
            self.copied.notify_one();
        }
    }

    fn land_batch(&self, batch: Vec<(PathBuf, Landed)>) {
        let folders: HashSet<&Path> = batch.iter().filter_map(|(_, landed)| landed.target.parent()).collect();
        let synced: HashMap<PathBuf, Result<(), Fault>> = folders
            .into_iter()
            .map(|folder| (folder.to_owned(), self.copier.publisher.sync_folder(folder)))
            .collect();
        // After the sync: what is found there then was there for all of it.
        let pfs = self.copier.pfs.check();
        let (mut landed, mut lost) = (Vec::new(), Vec::new());
        for file in batch {
            if let Err(error) = &pfs {
                let trouble = mounted::trouble(&file.1.target, error);
                lost.push((file.0, trouble));
                continue;
            }
            match file.1.target.parent().and_then(|folder| synced.get(folder)) {
                Some(Err(fault)) => lost.push((file.0, unsynced(fault))),
                _ => landed.push(file),
            }
        }
        for (path, trouble) in lost {
            self.log_failure(&path, &trouble, 1);
            self.settle_one(&mut self.lock(), &path, Attempt::Failed(trouble));
        }
        self.record(&landed);
        for (path, _) in &landed {
            self.drop_old_names(path);
        }
    }

    fn record(&self, landed: &[(PathBuf, Landed)]) {
        let mut state = self.lock();
        if let Err(error) = state.ledger.land(landed) {
            tracing::warn!("write the ledger: {error}; after a restart files may be copied again");
        }
        for (path, file) in landed {
            let attempts = state.table.tries(path) + 1;
            let size = file.generation.size;
            state.bytes_done += size;
            state.rate.landed(self.copier.publisher.work_of(size));
            self.logs.spectral(Verb::Done, &file.target);
            self.log_done(path, file, attempts);
        }
        for (path, file) in landed {
            self.settle_one(&mut state, path, Attempt::Done);
            if state.table.is_pending(path) {
                self.logs.spectral(Verb::Enqueue, &file.target);
            }
        }
    }

    /// The file of `path` may have had another name before, under which it landed too: that goes from the PFS as it has
    /// gone from the node.
    fn drop_old_names(&self, path: &Path) {
        let state = self.lock();
        let is_here = |other: &PathBuf| landed_elsewhere(&state.ledger, other).iter().any(|one| one == path);
        let others: Vec<_> = state.ledger.other_paths(path).into_iter().filter(is_here).collect();
        drop(state);
        for other in others {
            self.retire_if_gone(&other);
        }
    }

    /// Finds renames and, where they are followed, removals that nobody noticed.
    pub(crate) fn reconcile(&self) {
        let state = self.lock();
        let renamed: Vec<PathBuf> =
            state.ledger.paths().filter(|path| self.lives_on(&state, path)).cloned().collect();
        drop(state);
        renamed.iter().for_each(|path| self.retire_if_gone(path));
        if self.removed != Removed::Follow {
            return;
        }
        let all: Vec<PathBuf> = self.lock().ledger.paths().cloned().collect();
        let gone: Vec<PathBuf> = all.into_iter().filter(|path| self.is_nowhere(path)).collect();
        // Looked at first: what was renamed then has its other name by now.
        if !gone.is_empty() {
            self.without_heir(gone).iter().for_each(|path| self.retire_if_gone(path));
        }
    }

    /// Whether the node has nothing to drain under this name, for sure.
    fn is_nowhere(&self, path: &Path) -> bool {
        self.top.find(path).is_ok_and(|seen| !seen.is_some_and(|seen| seen.kind.is_drained()))
    }

    /// Whether the file that landed from `path` has another name on the node, from which it landed too.
    pub(crate) fn lives_on(&self, state: &State, path: &Path) -> bool {
        let files: Vec<_> = state.ledger.traces(path).iter().map(|trace| trace.generation.file()).collect();
        let is_it =
            |other: &PathBuf| self.top.look(other).is_ok_and(|seen| files.contains(&seen.generation.file()));
        landed_elsewhere(&state.ledger, path).iter().any(is_it)
    }

    /// Removes what landed from `path` if there is no such file on the node any more.
    fn retire_if_gone(&self, path: &Path) {
        let mut state = self.lock();
        let traces = state.ledger.traces(path);
        // What is on the PFS stays where nobody can tell: it may be all that is left of the file.
        // Nobody copies to the name meanwhile: it is in work here.
        if !self.is_nowhere(path) || !state.table.seize(path) {
            return;
        }
        drop(state);
        self.retire(path, &traces);
        self.settle_one(&mut self.lock(), path, Attempt::Done);
    }

    /// Removes from the PFS what landed from `path`. What is not what this drainer has put there stays.
    pub(crate) fn retire(&self, path: &Path, traces: &[Landed]) {
        let (mut seen, mut kept) = (HashSet::new(), Vec::new());
        for trace in traces {
            let placed = self.lock().ledger.placed(&trace.target).cloned();
            // A copy that was begun may not have got as far as its name.
            let landed = self.lock().ledger.get(path).is_some_and(|landed| landed.target == trace.target);
            if !seen.insert(&trace.target) {
                continue;
            }
            if placed.is_none() && !landed {
                self.let_go(&trace.target);
                continue;
            }
            let beside = || self.copier.publisher.beside(&trace.target);
            match self.copier.taken.remove(&trace.target, beside, placed.as_ref()) {
                // The name stays this node's: no other takes what is there for a file of an earlier job.
                Ok(Removal::Kept(why)) => {
                    kept.push(&*trace.target);
                    self.log_kept(path, trace, why);
                }
                Ok(Removal::Removed) => self.retired(path, trace),
                Err(error) => {
                    let target = trace.target.display();
                    tracing::warn!("remove {target}, which was renamed or removed on the node: {error}");
                    return;
                }
            }
        }
        let mut state = self.lock();
        state.diverted.remove(path);
        state.suffixed.forget(path);
        if let Err(error) = state.ledger.keep(path, &kept) {
            tracing::warn!("write the ledger: {error}");
        }
    }
}

impl Drain {
    /// No file here has the name `target` any more.
    fn let_go(&self, target: &Path) {
        if let Err(errno) = self.claims.forget(target) {
            let target = target.display();
            tracing::warn!("give up the claim to {target}: {errno}; another node may avoid that name");
        }
    }

    fn retired(&self, path: &Path, trace: &Landed) {
        self.remove_emptied_folders(path, &trace.target);
        self.let_go(&trace.target);
        self.log_removed(path, trace);
    }

    /// Folders go with their last file, if there are none of their names on the node any more.
    fn remove_emptied_folders(&self, path: &Path, target: &Path) {
        let here = path.ancestors().skip(1).filter(|folder| !folder.as_os_str().is_empty());
        for (folder, there) in here.zip(target.ancestors().skip(1)) {
            let is_folder =
                self.top.find(folder).map(|seen| seen.is_some_and(|seen| seen.kind == Kind::Folder));
            let remove = |place: Place| unlinkat(&place.folder, &place.name, AtFlags::REMOVEDIR);
            // Not empty: that is the end of it.
            if is_folder != Ok(false) || Root::at(&self.to).reach(there).and_then(remove).is_err() {
                return;
            }
            self.copier.publisher.forget_folder(there);
        }
    }
}

/// Other paths from which a file of `path` has landed, in a version no older than any that is or may be on the PFS of
/// `path`: what is there of `path` is there of these, too.
fn landed_elsewhere(ledger: &Ledger, path: &Path) -> Vec<PathBuf> {
    let traces = ledger.traces(path);
    let has_all = |other: &PathBuf| {
        ledger.get(other).is_some_and(|landed| {
            let (file, changed) = (landed.generation.file(), landed.generation.ctime);
            let mut same = traces.iter().filter(|trace| trace.generation.file() == file);
            same.all(|trace| trace.generation.ctime <= changed)
        })
    };
    ledger.other_paths(path).into_iter().filter(has_all).collect()
}

fn unsynced(fault: &Fault) -> Trouble {
    let failure = fault.failure(Direction::Out);
    Trouble { path: failure.path, errno: failure.errno, message: failure.message, advice: failure.advice }
}
