//! The note that this node has confirmed changes alone, which the copy on another node may lack: of a metadata log, or
//! of objects. Such a copy takes the place of nothing.
//!
//! ```text
//! FOLDER/meta.alone    from before the first change is confirmed that the copy may lack, until it has all of them
//! ```

use std::io;

use crate::log_folder::Folder;

const ALONE: &str = "meta.alone";

/// Whether this node has confirmed what the copy may lack.
///
/// # Errors
/// The errno of what failed: it is not known.
pub fn is_alone(folder: &dyn Folder) -> io::Result<bool> {
    Ok(disk::if_there(folder.open(ALONE))?.is_some())
}

/// Notes durably whether that is so.
///
/// # Errors
/// The errno of what failed.
pub fn note_alone(folder: &dyn Folder, alone: bool) -> io::Result<()> {
    if alone {
        folder.create(ALONE)?;
    } else {
        disk::if_there(folder.remove(ALONE))?;
    }
    folder.sync()
}
