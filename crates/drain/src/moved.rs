//! Walks through the drained folder while files and folders are renamed in it: one that goes from where the walk has
//! not been to where it was is in neither place, and one that waits for its copy is gone from where that was to begin.
//!
//! **Invariant:** what was in the drained folder before, and still is, was found, or is said not to be.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::drain::Drain;
use crate::generation::{Generation, Kind, Seen, Stamp, TICK, now};
use crate::ledger::Landed;
use crate::status::Trouble;

/// Walks at most. After so many somebody goes on renaming.
pub(crate) const WALKS_MAX: usize = 8;

/// The first pause between two walks of more; each is twice as long as the one before.
const PAUSE: Duration = Duration::from_millis(50);

/// The folders that a walk has found, as they were before it read them.
type Folders = HashMap<PathBuf, Generation>;

/// Files, each by its name and what it is: what has been waited for.
pub(crate) type Known = HashSet<(PathBuf, (u64, Stamp))>;

/// What a walk has found.
pub(crate) struct Walk {
    begun: Stamp,
    folders: Folders,
    /// What could not be looked at.
    pub unseen: Vec<Trouble>,
}

impl Drain {
    /// As [`Drain::scan`] of the drained folder, again until nothing was moved meanwhile.
    pub(crate) fn scan_all(&self) -> Walk {
        self.scan_all_with(&mut |_, _| {})
    }

    /// The same. Tells of each file, each time that it is found.
    fn scan_all_with(&self, tell: &mut dyn FnMut(&Path, &Seen)) -> Walk {
        let begun = now();
        let is_old = |it: &Generation| it.is_older(begun);
        let (mut before, mut unseen): (Option<Folders>, _) = (None, Vec::new());
        let (mut has_moved, mut pause) = (false, Duration::ZERO);
        for _ in 0..WALKS_MAX {
            std::thread::sleep(pause);
            let (mut folders, mut moved) = (Folders::new(), false);
            self.top.let_go();
            if let Ok(top) = self.top.look(Path::new("")) {
                folders.insert(PathBuf::new(), top.generation);
            }
            unseen = self.scan_with(Path::new(""), &mut |path, seen, is_unknown| {
                let is_new =
                    is_unknown || seen.kind == Kind::Folder && !is_in(before.as_ref(), path, seen.generation);
                moved |= is_new && is_old(&seen.generation);
                if seen.kind == Kind::Folder {
                    folders.insert(path.to_owned(), seen.generation);
                }
                tell(path, seen);
            });
            let Some(last) = before.replace(folders) else {
                // Nearly always: then one walk is enough.
                if before.as_ref().is_some_and(|folders| self.rest(begun, folders)) {
                    break;
                }
                continue;
            };
            let is_gone =
                |(path, last): (&PathBuf, &Generation)| is_old(last) && !is_in(before.as_ref(), path, *last);
            if !moved && !last.iter().any(is_gone) {
                has_moved = false;
                break;
            }
            (has_moved, pause) = (moved, PAUSE.max(2 * pause));
        }
        // What only goes is removed.
        unseen.extend(has_moved.then(|| self.restless()));
        Walk { begun, folders: before.unwrap_or_default(), unseen }
    }

    /// Whether nothing has come into any of the folders, or gone from it, since the walk has read it.
    pub(crate) fn rests(&self, walk: &Walk) -> bool {
        self.rest(walk.begun, &walk.folders)
    }

    fn rest(&self, begun: Stamp, folders: &Folders) -> bool {
        self.top.let_go();
        let rests = |(path, before): (&PathBuf, &Generation)| {
            let is_top = path.as_os_str().is_empty();
            let now = if is_top { self.top.look(path) } else { self.top.glance(path) };
            // Programs set the other times back.
            let is_same = |now: &Generation| now.file() == before.file() && now.ctime == before.ctime;
            // A change within one tick of the clock has the time of the one before.
            later(before.ctime) < begun && now.is_ok_and(|now| is_same(&now.generation))
        };
        folders.iter().all(rests)
    }

    /// Whether something older than `begun` is to be copied under a name that it did not have when it was waited for.
    /// What has landed under its name and was not waited for under another is a newer version.
    pub(crate) fn has_renamed(&self, begun: Stamp, known: &Known) -> bool {
        let state = self.lock();
        let has_landed = |(path, seen): (&PathBuf, &Generation)| {
            let is_it = |landed: &Landed| seen.is_told() && landed.generation.file() == seen.file();
            state.ledger.get(path).is_some_and(is_it)
        };
        let is_known = |(path, seen): (&PathBuf, &Generation)| known.contains(&(path.clone(), seen.file()));
        let files: HashSet<_> = known.iter().map(|(_, file)| *file).collect();
        let is_newer = |it: (&PathBuf, &Generation)| has_landed(it) && !files.contains(&it.1.file());
        let mut versions = state.table.versions();
        versions.any(|it| it.1.is_older(begun) && !is_known(it) && !is_newer(it))
    }

    /// Those of these paths, all gone from the node, of which no file has another name there that is not on the PFS in
    /// that version: of the others, the copy under the old name is the only one. None where nobody can tell.
    pub(crate) fn without_heir(&self, gone: Vec<PathBuf>) -> Vec<PathBuf> {
        let traces = |path: &PathBuf| self.lock().ledger.traces(path);
        let wanted: HashSet<_> = gone.iter().flat_map(traces).map(|trace| trace.generation.file()).collect();
        let mut owed = HashSet::new();
        let walk = self.scan_all_with(&mut |path, seen| {
            let (file, state) = (seen.generation.file(), self.lock());
            let has_landed = |landed: &Landed| landed.generation == seen.generation;
            let is_heir = seen.kind.is_drained() && wanted.contains(&file);
            if is_heir && !state.ledger.get(path).is_some_and(has_landed) {
                owed.insert(file);
            }
        });
        if !walk.unseen.is_empty() {
            return Vec::new();
        }
        let is_free =
            |path: &PathBuf| !traces(path).iter().any(|trace| owed.contains(&trace.generation.file()));
        gone.into_iter().filter(is_free).collect()
    }

    pub(crate) fn restless(&self) -> Trouble {
        Trouble {
            path: ".".to_owned(),
            errno: 0,
            message: format!(
                "look through {}: files and folders in it are renamed again and again, some may have been missed",
                self.from.display()
            ),
            advice: "wait again when the program that does so has ended".to_owned(),
        }
    }
}

fn is_in(folders: Option<&Folders>, path: &Path, generation: Generation) -> bool {
    folders.and_then(|folders| folders.get(path)).is_some_and(|other| other.file() == generation.file())
}

/// A tick after that.
fn later((seconds, nanos): Stamp) -> Stamp {
    let nanos = nanos + TICK.subsec_nanos();
    (seconds + i64::from(nanos / 1_000_000_000), nanos % 1_000_000_000)
}
