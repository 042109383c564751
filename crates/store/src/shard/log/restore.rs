//! Putting the copy of a log in the place of one that is lost. When it must not be, [`crate::alone`] knows.
//!
//! ```text
//! NAMESPACE/meta.accepted   a copy has taken the place of the log that may lack what was confirmed: an operator has
//!                           accepted that
//! NAMESPACE/meta.log.lost   what a copy has taken the place of: kept, for whoever wants to look
//! ```
//!
//! **Invariant:** a log gives its place only to one that has every entry that the mark speaks of.

use std::io;
use std::path::Path;

use super::error::io_error;
use super::mark::Mark;
use super::scan::scan;
use super::{DRAFT, LogError, NAME, OPEN, OPEN_FOLDER};
use crate::log_folder::Folder;

const ACCEPTED: &str = "meta.accepted";
const LOST: &str = "meta.log.lost";

/// So many inode numbers no home gives out between two copies that take its place.
const NUMBERS_LOST_MAX: u64 = 1 << 40;

/// Whether the log was once a copy that may have lacked what was confirmed.
///
/// # Errors
/// The errno of what failed: it is not known.
pub fn is_accepted(folder: &dyn Folder) -> io::Result<bool> {
    Ok(disk::if_there(folder.open(ACCEPTED))?.is_some())
}

/// Notes durably that it is, or is so once more.
///
/// # Errors
/// The errno of what failed.
pub fn note_accepted(folder: &dyn Folder) -> io::Result<()> {
    let times = times_accepted(folder)?;
    let bytes = vec![b'+'; usize::try_from(times + 1).map_err(io::Error::other)?];
    let file = folder.create(ACCEPTED)?;
    file.write_at(0, &bytes)?;
    file.sync()?;
    folder.sync()
}

/// The first inode number that no file had which such a copy lacks: its objects may be left, and must not become
/// another file's.
///
/// # Errors
/// The errno of what failed: it is not known.
pub fn first_unused(folder: &dyn Folder) -> io::Result<u64> {
    Ok(times_accepted(folder)? * NUMBERS_LOST_MAX)
}

/// The note has a byte for each time; one that is empty was made when nobody counted, or was cut short.
fn times_accepted(folder: &dyn Folder) -> io::Result<u64> {
    let Some(note) = disk::if_there(folder.open(ACCEPTED))? else { return Ok(0) };
    Ok(note.len()?.max(1))
}

/// Whether an error says that the log, and not a way to it, is lost: a copy may take its place then. One that a newer
/// Forebay wrote is there.
pub fn is_lost(error: &LogError) -> bool {
    match error {
        LogError::Io { operation, cause, .. } => {
            [OPEN, OPEN_FOLDER].contains(operation) && cause.kind() == io::ErrorKind::NotFound
        }
        LogError::Newer { .. } => false,
        LogError::Damaged { .. } | LogError::Cut { .. } | LogError::Foreign { .. } => true,
    }
}

/// Whether the log in the folder can be used.
///
/// # Errors
/// As `Log::open`.
pub fn check(folder: &dyn Folder) -> Result<(), LogError> {
    let path = folder.path_of(NAME);
    let failed = |operation, cause| io_error(operation, path.clone(), cause);
    let file = folder.open(NAME).map_err(|e| failed(OPEN, e))?;
    let (_, marked) = Mark::open(folder).map_err(|e| failed("read the mark of", e))?;
    let len = file.len().map_err(|e| failed("measure", e))?;
    let bytes = file.read_at(0, super::index(len)).map_err(|e| failed("read", e))?;
    scan(&path, &bytes, marked, &mut drop).map(drop)
}

/// Puts `bytes`, the copy at `origin`, in the place of the log in the folder, durably. Returns how many entries the
/// log has had then.
///
/// # Errors
/// [`LogError`] where the copy is damaged or lacks something that was synced: nothing is changed then. Else the errno
/// of what failed.
pub fn put(folder: &dyn Folder, bytes: &[u8], origin: &Path) -> Result<u64, LogError> {
    let failed = |operation, cause| io_error(operation, folder.path_of(NAME), cause);
    let (_, marked) = Mark::open(folder).map_err(|e| failed("read the mark of", e))?;
    let scanned = scan(origin, bytes, marked, &mut drop)?;
    let draft = folder.create(DRAFT).map_err(|e| failed("restore", e))?;
    let whole = &bytes[..scanned.end];
    draft.write_at(0, whole).and_then(|()| draft.sync()).map_err(|e| failed("restore", e))?;
    disk::if_there(folder.replace(NAME, LOST)).map_err(|e| failed("set aside", e))?;
    folder.publish(DRAFT, NAME).map_err(|e| failed("name the restored", e))?;
    folder.sync().map_err(|e| failed("sync the folder of", e))?;
    Ok(scanned.next)
}
