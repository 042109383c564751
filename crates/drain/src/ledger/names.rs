//! The ledger by names on the PFS: what has been put under which.

use std::collections::hash_map::Entry;
use std::path::{Path, PathBuf};

use super::Ledger;
use super::record::{Record, append};
use crate::intents::Intent;
use crate::placed::{Over, Placed, Under};

impl Ledger {
    /// Records which inode gets or has the name `target` on the PFS, and in place of what.
    ///
    /// # Errors
    /// The node's disk.
    pub(crate) fn place(&mut self, target: &Path, inode: Placed, over: Option<Over>) -> std::io::Result<()> {
        let mut line = Vec::new();
        append(&mut line, &Record::Placed { target: target.into(), inode, over });
        self.put_placed(target.to_owned(), inode, over);
        self.write(&line)
    }

    /// Records what has the name `target` on the PFS before the first copy for it is begun.
    ///
    /// # Errors
    /// The node's disk.
    pub(crate) fn meet(&mut self, target: &Path, first: Over) -> std::io::Result<()> {
        let mut line = Vec::new();
        append(&mut line, &Record::First { target: target.into(), over: first });
        self.first.insert(target.to_owned(), first);
        self.write(&line)
    }

    /// What that was, until a copy has the name.
    pub(crate) fn first(&self, target: &Path) -> Option<Over> {
        self.first.get(target).copied()
    }

    /// Takes over what the claims say that this does not: see [`crate::intents`].
    pub(crate) fn learn(&mut self, intents: impl Iterator<Item = Intent>) {
        for Intent { name, inode, over } in intents {
            if !self.placed.get(&name).is_some_and(|known| known.knows(&inode)) {
                self.put_placed(name, inode, Some(over));
            }
        }
    }

    /// Records that nothing is left on the node of what landed from `path`, and that what is there under these names
    /// stays: a later file of the node does not take its place.
    ///
    /// # Errors
    /// The node's disk.
    pub(crate) fn keep(&mut self, path: &Path, names: &[&Path]) -> std::io::Result<()> {
        let kept = |name: &&Path| Some((name.to_path_buf(), self.placed.get(*name)?.clone()));
        let kept: Vec<_> = names.iter().filter_map(kept).collect();
        self.gone(path)?;
        for (name, under) in kept {
            for (inode, over) in under.notes() {
                self.place(&name, inode, over)?;
            }
        }
        Ok(())
    }

    /// What was put under the name `target`.
    pub(crate) fn placed(&self, target: &Path) -> Option<&Under> {
        self.placed.get(target)
    }

    /// Names that something was put under.
    pub(crate) fn names(&self) -> impl Iterator<Item = &PathBuf> {
        self.placed.keys()
    }

    pub(super) fn put_placed(&mut self, target: PathBuf, inode: Placed, over: Option<Over>) {
        if inode.is_there() {
            self.first.remove(&target);
        }
        match self.placed.entry(target) {
            Entry::Occupied(mut known) => known.get_mut().note(inode, over),
            Entry::Vacant(place) => {
                place.insert(Under::new(inode, over));
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
            self.first.remove(&trace.target);
        }
        self.take(path);
    }
}
