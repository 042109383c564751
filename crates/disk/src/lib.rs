//! What is on a disk and what is not: the one place that says which errors mean "there is nothing", and how a file, a
//! folder or its removal becomes durable; what is mounted; where the state folder is. It knows nothing of what the
//! files mean.
//!
//! ```text
//! PARENT/NAME              a folder in use
//! PARENT/.making-NAME      one that is being made: nobody was told of it yet
//! PARENT/.removing-NAME    one that is being removed: nobody may use it any more
//! ```
//!
//! **Invariant:** an error other than "there is nothing" is never taken for it: whoever cannot look does not know.

pub mod aligned;
pub mod below;
mod folders;
pub mod format;
mod kept;
pub mod mount_table;
pub mod regular;
mod room;
pub mod state;

use std::fs::{File, Metadata, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

pub use folders::{Found, Stage, begin_removal, discard, making, names, publish, removing};
pub use kept::{read, replace};
pub use room::Room;

/// Whether this error of a look-up says that there is nothing at the path: no such name, or a name above it that is no
/// folder. Every other error (EIO, EACCES, ESTALE, ELOOP, EMFILE, ...) says that nobody knows.
pub fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)
}

/// Whether this error says that a file system, or somebody's share of it, has no room left.
pub fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded)
}

/// What is at `path`, links followed; `None` where there is nothing.
///
/// # Errors
/// It cannot be told: see [`is_absent`].
pub fn find(path: &Path) -> io::Result<Option<Metadata>> {
    if_there(std::fs::metadata(path))
}

/// Whether there is anything at `path`, links followed.
///
/// # Errors
/// As [`find`].
pub fn exists(path: &Path) -> io::Result<bool> {
    Ok(find(path)?.is_some())
}

/// Whether there is a folder at `path`, links followed.
///
/// # Errors
/// As [`find`].
pub fn is_folder(path: &Path) -> io::Result<bool> {
    Ok(find(path)?.is_some_and(|found| found.is_dir()))
}

/// Whether there is a regular file at `path`, links followed.
///
/// # Errors
/// As [`find`].
pub fn is_file(path: &Path) -> io::Result<bool> {
    Ok(find(path)?.is_some_and(|found| found.is_file()))
}

/// The result, or `None` where the error says that there is nothing.
///
/// # Errors
/// Every other one.
pub fn if_there<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Ok(found) => Ok(Some(found)),
        Err(error) if is_absent(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Removes a file; nothing to do where there is none.
///
/// # Errors
/// It is still there, or nobody knows.
pub fn remove_file(path: &Path) -> io::Result<()> {
    if_there(std::fs::remove_file(path)).map(drop)
}

/// Removes a folder that is empty; nothing to do where there is none.
///
/// # Errors
/// It is still there, or nobody knows.
pub fn remove_folder(path: &Path) -> io::Result<()> {
    if_there(std::fs::remove_dir(path)).map(drop)
}

/// Makes the folder `path` in one that is there, durably; nothing to do where there is one.
///
/// # Errors
/// The file system's, also where `path` is something else.
pub fn make_folder(path: &Path) -> io::Result<()> {
    match std::fs::create_dir(path) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists && is_folder(path)? => Ok(()),
        made => made,
    }?;
    sync_names(path)
}

/// Makes the folder `path`, and those above it that are missing, so that everybody may pass through them, whatever this
/// process's umask is. What is there stays as it is.
///
/// # Errors
/// The file system's, also where `path` is something else.
pub fn make_passable(path: &Path) -> io::Result<()> {
    if is_folder(path)? {
        return Ok(());
    }
    if let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        make_passable(parent)?;
    }
    match std::fs::create_dir(path) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists && is_folder(path)? => return Ok(()),
        made => made?,
    }
    std::fs::set_permissions(path, Permissions::from_mode(0o755))
}

/// Makes the names in the folder that `path` is in survive a power loss.
///
/// # Errors
/// The file system's.
pub fn sync_names(path: &Path) -> io::Result<()> {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => File::open(parent)?.sync_all(),
        _ => File::open(".")?.sync_all(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_missing_name_counts_as_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let (file, link) = (dir.path().join("file"), dir.path().join("link"));
        std::fs::write(&file, "").unwrap();
        std::os::unix::fs::symlink("link", &link).unwrap();
        assert!(exists(&file).unwrap() && is_file(&file).unwrap() && !is_folder(&file).unwrap());
        assert!(is_folder(dir.path()).unwrap());
        assert!(!exists(&dir.path().join("none")).unwrap());
        assert!(!exists(&file.join("below a file")).unwrap());
        // ELOOP: something is there, and nobody knows what.
        exists(&link).unwrap_err();
        is_folder(&link).unwrap_err();
    }

    #[test]
    fn what_is_gone_is_removed_and_what_cannot_be_removed_is_told() {
        let dir = tempfile::tempdir().unwrap();
        remove_file(&dir.path().join("none")).unwrap();
        remove_folder(&dir.path().join("none")).unwrap();
        std::fs::create_dir_all(dir.path().join("full/of")).unwrap();
        remove_folder(&dir.path().join("full")).unwrap_err();
        remove_file(&dir.path().join("full")).unwrap_err();
    }

    #[test]
    fn a_folder_is_made_once_and_not_over_a_file() {
        let dir = tempfile::tempdir().unwrap();
        let (folder, file) = (dir.path().join("folder"), dir.path().join("file"));
        make_folder(&folder).unwrap();
        make_folder(&folder).unwrap();
        std::fs::write(&file, "kept").unwrap();
        make_folder(&file).unwrap_err();
        assert_eq!(std::fs::read(&file).unwrap(), b"kept");
    }
}
