//! What had a name on the PFS before the copy that is to get it was begun, where the PFS does not tell when a file was
//! made: what came to the name meanwhile, or was changed, is told by that.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use disk::below::Root;

use crate::generation::{Seen, find, look};

/// Names that copies are made for.
pub(crate) struct Before {
    root: Root,
    /// Otherwise the birth of the copy tells.
    is_needed: bool,
    seen: Mutex<HashMap<PathBuf, Option<Seen>>>,
}

impl Before {
    /// Names below the folder `to` on the PFS.
    pub(crate) fn of(to: &Path) -> Before {
        let root = Root::at(to);
        let is_needed = !look(&root, Path::new("")).is_ok_and(|seen| seen.generation.is_told());
        Before { root, is_needed, seen: Mutex::default() }
    }

    /// A copy for this name is about to be begun.
    pub(crate) fn look(&self, name: &Path) {
        // What cannot be looked at now cannot be replaced either.
        if let (true, Ok(seen)) = (self.is_needed, find(&self.root, name)) {
            self.lock().insert(name.to_owned(), seen);
        }
    }

    /// Whether what has the name now came since, or was changed.
    pub(crate) fn differs(&self, name: &Path, there: &Seen) -> bool {
        let is_it = |seen: &Seen| there.is_still(seen) && there.generation.ctime == seen.generation.ctime;
        self.lock().get(name).is_some_and(|before| !before.as_ref().is_some_and(is_it))
    }

    /// A copy has the name.
    pub(crate) fn forget(&self, name: &Path) {
        self.lock().remove(name);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<PathBuf, Option<Seen>>> {
        self.seen.lock().expect("no thread panics with the lock")
    }
}
