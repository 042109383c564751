//! What a walk knows of folders that it has listed, to look at them again: whether they were changed since, what was
//! taken of them, and where it went.
//!
//! **Invariant:** of one folder no two entries with one name are copied at the same time.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};

use model::Ino;
use rustix::io::Errno;

use crate::entry::Folder;
use crate::fault::{Fault, Tried};
use crate::folder::make_usable;
use crate::run::Run;
use crate::tree::{self, Found};
use crate::version::Version;

/// A folder of the source that was listed.
pub(super) struct Walked {
    pub(super) source: Found,
    /// What it was like then; `None`: it is to be listed again.
    pub(super) version: Option<Version>,
    pub(super) seen: Seen,
    /// Where its entries go, while some of them are not done.
    folder: Weak<Folder>,
    target: PathBuf,
    /// That gets the source's metadata.
    keeps: bool,
}

impl Walked {
    /// A folder that is about to be listed.
    pub(super) fn of(source: Found, folder: &Arc<Folder>) -> Walked {
        Walked {
            source,
            version: None,
            seen: Seen::default(),
            folder: Arc::downgrade(folder),
            target: folder.target.path.clone(),
            keeps: folder.source.is_some(),
        }
    }

    /// Whether it is to be listed again. One that is gone is not: where it is now is in another folder's list.
    pub(super) fn is_other(&self, run: &Run) -> bool {
        match version(run, &self.source) {
            Ok(now) => self.version != Some(now) && now.is_of(self.source.attr.ino),
            Err(Errno::NOENT | Errno::NOTDIR | Errno::STALE) => false,
            // Listing it says why.
            Err(_) => true,
        }
    }

    /// Where its entries go.
    pub(super) fn folder(&self, run: &Run) -> Result<Arc<Folder>, Fault> {
        if let Some(folder) = self.folder.upgrade() {
            return Ok(folder);
        }
        let target = &*run.sides.target;
        let there = target.find(&self.target).tried(target, &self.target, "look up folder")?;
        if self.keeps {
            make_usable(run, &there);
        }
        let now = look(run, &self.source).unwrap_or_else(|_| self.source.clone());
        Ok(Folder::again(self.keeps.then_some(now), there))
    }
}

/// The entries of a folder that were taken, as hashes.
#[derive(Default)]
pub(super) struct Seen {
    /// Names with their inodes, in order, of the turns that ended.
    entries: Vec<u64>,
    /// Those of this turn, and its names alone.
    fresh: HashSet<u64>,
    names: HashSet<u64>,
    /// A name of this turn is now another inode's.
    owes: bool,
}

impl Seen {
    /// Whether an entry was not taken before. One whose name was another's in this turn is for the next: both would be
    /// copied at once.
    pub(super) fn is_news(&mut self, path: &Path, ino: Ino) -> bool {
        let (entry, name) = (hash(&(path, ino)), hash(path));
        if self.entries.binary_search(&entry).is_ok() || self.fresh.contains(&entry) {
            return false;
        }
        let is_free = self.names.insert(name);
        self.owes |= !is_free;
        is_free && self.fresh.insert(entry)
    }

    /// How many were taken in the turns that ended.
    pub(super) fn count(&self) -> usize {
        self.entries.len()
    }

    /// Whether nothing is left for another turn.
    pub(super) fn is_whole(&self) -> bool {
        !self.owes
    }

    /// What was taken is done before the next turn.
    pub(super) fn end_turn(&mut self) {
        self.entries.extend(std::mem::take(&mut self.fresh));
        self.entries.sort_unstable();
        self.names = HashSet::new();
        self.owes = false;
    }
}

fn hash<T: Hash + ?Sized>(what: &T) -> u64 {
    let mut hasher = DefaultHasher::new();
    what.hash(&mut hasher);
    hasher.finish()
}

/// A folder of the source as it is now, also where it, or a folder above it, has another name: see `Planner::source`.
fn look(run: &Run, source: &Found) -> tree::Result<Found> {
    let tree = &*run.sides.source;
    match tree.find(&source.path) {
        Err(Errno::NOENT | Errno::NOTDIR) => tree.known(source.attr.ino, &source.path),
        found => found,
    }
}

/// Its version.
pub(super) fn version(run: &Run, source: &Found) -> tree::Result<Version> {
    look(run, source).map(|found| Version::of(&found.attr))
}
