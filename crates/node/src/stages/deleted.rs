//! The mark of a stage that is deleted, in its folder. Files may have changed since the stage copied them.
//!
//! **Invariant:** a stage with the mark is never run again, whatever cut its removal short.

use std::io;
use std::path::Path;

const MARK: &str = "deleted";

/// Marks the stage that is kept in `folder`, durably. Nothing to do where the folder is gone.
///
/// # Errors
/// The disk's.
pub(super) fn mark(folder: &Path) -> io::Result<()> {
    if disk::is_folder(folder)? { disk::replace(&folder.join(MARK), b"") } else { Ok(()) }
}

/// Whether the stage that is kept in `folder` is marked.
///
/// # Errors
/// It cannot be told.
pub(super) fn is_marked(folder: &Path) -> io::Result<bool> {
    disk::exists(&folder.join(MARK))
}
