//! What the planner found: entries on their way, and the folders of the target that they go to.
//!
//! **Invariant:** every planned entry holds its folder and every folder its parent: folders in memory are those with
//! entries that are not done.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::tree::Found;

/// Anything but a folder.
pub(crate) struct Entry {
    pub(crate) source: Found,
    pub(crate) target: PathBuf,
    pub(crate) folder: Arc<Folder>,
    pub(crate) role: Role,
}

/// What an entry is to the other names of its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// It has no other name.
    Alone,
    /// It is the one to copy.
    First,
    /// It becomes a link.
    Other,
}

/// A folder of the target while its entries are staged.
pub(crate) struct Folder {
    /// Whose metadata it gets; `None` for a folder that was there before and that nobody asked to change.
    pub(crate) source: Option<Found>,
    pub(crate) target: Found,
    pub(crate) parent: Option<Arc<Folder>>,
    /// It is one of the entries that the stage counts.
    pub(crate) counted: bool,
    failed: AtomicBool,
}

impl Folder {
    /// A folder that was there before.
    pub(crate) fn existing(target: Found) -> Arc<Folder> {
        Folder::again(None, target)
    }

    /// The destination folder itself, made by this stage.
    pub(crate) fn top(source: Found, target: Found) -> Arc<Folder> {
        Folder::again(Some(source), target)
    }

    /// A folder found below the source folder.
    pub(crate) fn below(parent: &Arc<Folder>, source: Found, target: Found) -> Arc<Folder> {
        let (source, parent) = (Some(source), Some(parent.clone()));
        Arc::new(Folder { source, target, parent, counted: true, failed: AtomicBool::new(false) })
    }

    /// One that was finished, and gets more entries. It gets its metadata again if it had that from the source.
    pub(crate) fn again(source: Option<Found>, target: Found) -> Arc<Folder> {
        Arc::new(Folder { source, target, parent: None, counted: false, failed: AtomicBool::new(false) })
    }

    /// Notes that it could not be staged whole; says whether that is new.
    pub(crate) fn note_failure(&self) -> bool {
        !self.failed.swap(true, Ordering::Relaxed)
    }

    /// Whether it could not be staged whole.
    pub(crate) fn has_failed(&self) -> bool {
        self.failed.load(Ordering::Relaxed)
    }
}
