//! What passes have put on the target while the job ran: the very inodes, so that nothing else is ever taken for them.
//!
//! **Invariant:** a path alone says nothing about whose file is there: another stage, job or user may have given it to
//! another file of the same size and times.

use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::sync::MutexGuard;

use super::record::{Record, ThereRecord};
use super::{Inode, Journal, key};

/// What this run has not met at the source.
#[derive(Default)]
pub(crate) struct Left {
    /// `None`: nobody noted what was put there.
    pub(crate) files: Vec<(PathBuf, Option<Inode>)>,
    /// Deepest first.
    pub(crate) folders: Vec<(PathBuf, Inode)>,
}

/// What is known of earlier passes.
#[derive(Default)]
pub(super) struct Drained {
    files: BTreeMap<PathBuf, Option<Inode>>,
    folders: BTreeMap<PathBuf, Inode>,
    /// Of all files, also of those that were met or that no pass published, by the hash of their path.
    inodes: HashMap<u64, Inode>,
}

impl Drained {
    pub(super) fn finished(&mut self, target: PathBuf, in_pass: bool) {
        self.inodes.remove(&key(&target));
        if in_pass {
            self.files.insert(target, None);
        } else {
            self.files.remove(&target);
        }
    }

    pub(super) fn published(&mut self, target: &Path, inode: Inode) {
        self.inodes.insert(key(target), inode);
        if let Some(noted) = self.files.get_mut(target) {
            *noted = Some(inode);
        }
    }

    pub(super) fn opened(&mut self, folder: PathBuf, inode: Inode) {
        self.folders.insert(folder, inode);
    }
}

impl Journal {
    /// The source has what is to get this path, and it is no folder.
    pub(crate) fn met(&self, target: &Path) {
        self.drained().files.remove(target);
    }

    /// The source has a folder that is to get this path, and the target has one.
    pub(crate) fn met_folder(&self, target: &Path) {
        let mut drained = self.drained();
        drained.files.remove(target);
        drained.folders.remove(target);
    }

    /// Records which inode was given this path, when that was renamed there.
    pub(crate) fn publish(&self, target: &Path, inode: Inode) {
        self.append(&Record::Published(ThereRecord::new(target, inode)));
    }

    /// Records that a pass made a folder.
    pub(crate) fn open_folder(&self, folder: &Path, inode: Inode) {
        self.append(&Record::Opened(ThereRecord::new(folder, inode)));
    }

    /// Which inode an earlier run gave this path; `None`: no run did, or it is not known.
    pub(crate) fn published(&self, target: &Path) -> Option<Inode> {
        self.drained().inodes.get(&key(target)).copied()
    }

    /// What earlier passes have put at or below `top` and the source does not have any more, as far as this run has met
    /// it. It is given away once.
    pub(crate) fn left_below(&self, top: &Path) -> Left {
        let mut drained = self.drained();
        let files = take_below(&mut drained.files, top).into_iter().collect();
        let mut folders: Vec<_> = take_below(&mut drained.folders, top).into_iter().collect();
        folders.sort_by_cached_key(|(path, _)| std::cmp::Reverse(path.components().count()));
        Left { files, folders }
    }

    /// Whether earlier passes have put anything below `folder` that this run has not met at the source.
    pub(crate) fn has_left_below(&self, folder: &Path) -> bool {
        let drained = self.drained();
        let below = (Bound::Excluded(folder), Bound::Unbounded);
        let file = drained.files.range::<Path, _>(below).next().map(|(path, _)| path);
        let sub = drained.folders.range::<Path, _>(below).next().map(|(path, _)| path);
        [file, sub].into_iter().flatten().any(|path| path.starts_with(folder))
    }

    fn drained(&self) -> MutexGuard<'_, Drained> {
        self.drained.lock().expect("no thread panics with the lock")
    }
}

/// Takes away what is at or below `top`.
fn take_below<V>(all: &mut BTreeMap<PathBuf, V>, top: &Path) -> BTreeMap<PathBuf, V> {
    let (below, others) = std::mem::take(all).into_iter().partition(|(path, _)| path.starts_with(top));
    *all = others;
    below
}
