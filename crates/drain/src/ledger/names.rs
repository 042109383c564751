//! The ledger by names on the PFS: what has been put under which.

use std::collections::hash_map::Entry;
use std::path::{Path, PathBuf};

use super::Ledger;
use super::record::{Record, append};
use crate::placed::{Placed, Under};

impl Ledger {
    /// Records which inode gets or has the name `target` on the PFS.
    ///
    /// # Errors
    /// The node's disk.
    pub(crate) fn place(&mut self, target: &Path, inode: Placed) -> std::io::Result<()> {
        let mut line = Vec::new();
        append(&mut line, &Record::Placed { target: target.into(), inode });
        self.put_placed(target.to_owned(), inode);
        self.write(&line)
    }

    /// What was put under the name `target`.
    pub(crate) fn placed(&self, target: &Path) -> Option<&Under> {
        self.placed.get(target)
    }

    pub(super) fn put_placed(&mut self, target: PathBuf, inode: Placed) {
        match self.placed.entry(target) {
            Entry::Occupied(mut known) => known.get_mut().note(inode),
            Entry::Vacant(place) => {
                place.insert(Under::new(inode));
            }
        }
    }

    /// The path that something under the name `target` is of.
    pub(crate) fn path_of(&self, target: &Path) -> Option<PathBuf> {
        self.paths().find(|path| self.traces(path).iter().any(|trace| trace.target == target)).cloned()
    }

    /// Forgets a path, and what was put under its names.
    pub(super) fn forget(&mut self, path: &Path) {
        for trace in self.traces(path) {
            self.placed.remove(&trace.target);
        }
        self.take(path);
    }
}
