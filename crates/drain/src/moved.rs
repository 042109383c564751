//! A walk through the drained folder while folders are renamed in it: one that goes from where the walk has not been to
//! where it was is in neither place.
//!
//! **Invariant:** what was in the drained folder before, and still is, was found, or is said not to be.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::drain::Drain;
use crate::generation::{Generation, Kind, Stamp, TICK};
use crate::status::Trouble;

/// Walks at most. After so many somebody goes on renaming.
const WALKS_MAX: usize = 8;

/// The first pause between two walks of more; each is twice as long as the one before.
const PAUSE: Duration = Duration::from_millis(50);

/// The folders that a walk has found, as they were before it read them.
type Folders = HashMap<PathBuf, Generation>;

impl Drain {
    /// As [`Drain::scan`] of the drained folder, again until nothing was moved meanwhile.
    pub(crate) fn scan_all(&self) -> Vec<Trouble> {
        let begun = now();
        let is_old = |it: &Generation| if it.born == (0, 0) { it.mtime < begun } else { it.born < begun };
        let (mut before, mut unseen, mut pause): (Option<Folders>, _, _) = (None, Vec::new(), Duration::ZERO);
        let mut has_moved = false;
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
            });
            let Some(last) = before.replace(folders) else {
                // Nearly always: then one walk is enough.
                if self.rest(before.as_ref(), begun) {
                    return unseen;
                }
                continue;
            };
            let is_gone =
                |(path, last): (&PathBuf, &Generation)| is_old(last) && !is_in(before.as_ref(), path, *last);
            if !moved && !last.iter().any(is_gone) {
                return unseen;
            }
            (has_moved, pause) = (moved, PAUSE.max(2 * pause));
        }
        // What only goes is removed.
        unseen.extend(has_moved.then(|| self.restless()));
        unseen
    }

    /// Whether nothing has come into any of the folders, or gone from it, since it was read, which was after `begun`.
    fn rest(&self, folders: Option<&Folders>, begun: Stamp) -> bool {
        self.top.let_go();
        let rests = |(path, before): (&PathBuf, &Generation)| {
            let is_top = path.as_os_str().is_empty();
            let now = if is_top { self.top.look(path) } else { self.top.glance(path) };
            let is_same = |now: &Generation| now.file() == before.file() && now.mtime == before.mtime;
            // A change within one tick of the clock has the time of the one before.
            later(before.mtime) < begun && now.is_ok_and(|now| is_same(&now.generation))
        };
        folders.is_some_and(|folders| folders.iter().all(rests))
    }

    fn restless(&self) -> Trouble {
        Trouble {
            path: ".".to_owned(),
            errno: 0,
            message: format!(
                "look through {}: folders in it are renamed again and again, some may have been missed",
                self.from.display()
            ),
            advice: "wait again when the program that does so has ended".to_owned(),
        }
    }
}

fn is_in(folders: Option<&Folders>, path: &Path, generation: Generation) -> bool {
    folders.and_then(|folders| folders.get(path)).is_some_and(|other| other.file() == generation.file())
}

/// By the clock that files are stamped by.
fn now() -> Stamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    (i64::try_from(since.as_secs()).unwrap_or(i64::MAX), since.subsec_nanos())
}

/// A tick after that.
fn later((seconds, nanos): Stamp) -> Stamp {
    let nanos = nanos + TICK.subsec_nanos();
    (seconds + i64::from(nanos / 1_000_000_000), nanos % 1_000_000_000)
}
