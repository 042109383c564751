//! What has a path in the drained folder since the drain began, and is where that is drained to: the start refuses it.
//!
//! **Invariant:** nothing is drained from the folder that it is drained to, nor from the drained folder by a second
//! path.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use disk::below::Root;

use crate::generation::{Kind, Seen, look};
use crate::overlap;
use crate::settings::OWN_FOLDER;
use crate::top::Top;

/// The folders that are left out of walks.
pub(crate) struct LeftOut {
    to: PathBuf,
    /// Its device and inode number, if it could be looked at.
    numbers: Option<(u64, u64)>,
    told: Mutex<HashSet<PathBuf>>,
}

impl LeftOut {
    /// Those that are on the way to `to`, or are it, or in it, and the drained folder in itself.
    pub(crate) fn of(to: &Path) -> LeftOut {
        LeftOut { to: to.to_owned(), numbers: numbers_of(to), told: Mutex::default() }
    }

    /// Whether the folder `path`, below `top`, is one. That is said once.
    pub(crate) fn has(&self, top: &Top, path: &Path, seen: &Seen) -> bool {
        let whole = top.path().join(path);
        let why = if self.is_target(seen) || seen.is_mounted && overlap::is_of(&whole, &self.to) {
            format!("where the drain goes, {}, by another path: unmount it there", self.to.display())
        } else if numbers(seen) == top.numbers() {
            "the drained folder itself, by another path: unmount it there".to_owned()
        } else if path == Path::new(OWN_FOLDER) && is_drainers(top) {
            "an earlier drainer's own folder: remove it when nobody needs it".to_owned()
        } else {
            return false;
        };
        let mut told = self.told.lock().expect("no thread panics with the lock");
        if told.insert(path.to_owned()) {
            tracing::warn!("{} is left out, as it is {why}", whole.display());
        }
        true
    }

    /// Looked at again: the number may be another folder's since.
    fn is_target(&self, seen: &Seen) -> bool {
        let numbers = Some(numbers(seen));
        self.numbers == numbers && numbers_of(&self.to) == numbers
    }
}

/// Whether a drainer has left its own folder in the drained one: this one has another.
fn is_drainers(top: &Top) -> bool {
    let is_file = |seen: Option<Seen>| seen.is_some_and(|seen| seen.kind == Kind::File);
    let has = |name| top.find(&Path::new(OWN_FOLDER).join(name)).is_ok_and(is_file);
    ["lock", "ledger"].into_iter().all(has)
}

fn numbers_of(folder: &Path) -> Option<(u64, u64)> {
    look(&Root::at(folder), Path::new("")).ok().as_ref().map(numbers)
}

fn numbers(seen: &Seen) -> (u64, u64) {
    (seen.device, seen.generation.ino)
}
