//! Which volumes the node has, noted apart from the volumes: `NODE/locals.noted/ID`. Where the volumes' folder is a
//! disk of its own that is not mounted, this says that what is not found there is not gone.
//!
//! **Invariant:** a volume that may owe something is noted, and a note goes before its volume does: one that is noted
//! and not found was not discarded.

use std::io;
use std::path::{Path, PathBuf};

use daemon::error::site;
use wire::control::{ApiError, ErrorCode};

/// The note of one volume.
#[derive(Clone, Debug)]
pub(super) struct Noted {
    file: PathBuf,
    /// Where the volume's folder is, for messages.
    folder: PathBuf,
    id: String,
}

impl Noted {
    /// Of the volume `id`, in the folder of all volumes.
    pub(super) fn of(folder: &Path, id: &str) -> Noted {
        let file = folder.with_extension("noted").join(id);
        Noted { file, folder: folder.to_owned(), id: id.to_owned() }
    }

    /// From now on the volume is known to be there.
    ///
    /// # Errors
    /// The disk's.
    pub(super) fn put(&self) -> io::Result<()> {
        let Some(folder) = self.file.parent() else { return Ok(()) };
        std::fs::create_dir_all(folder)?;
        if disk::exists(&self.file)? { Ok(()) } else { disk::replace(&self.file, b"") }
    }

    /// The volume may go: nothing is owed.
    ///
    /// # Errors
    /// The disk's.
    pub(super) fn remove(&self) -> io::Result<()> {
        disk::remove_file(&self.file)
    }

    /// Of a volume that is not found: whether it is gone.
    ///
    /// # Errors
    /// It was never discarded, or nobody knows.
    pub(super) fn check_gone(&self) -> Result<(), ApiError> {
        match disk::exists(&self.file) {
            Ok(false) => Ok(()),
            Ok(true) => Err(self.away()),
            Err(error) => {
                let message = format!("look for {}: {error}", self.file.display());
                Err(site(
                    ErrorCode::NodeDisk,
                    message,
                    "check the state folder's disk, then repeat the command",
                ))
            }
        }
    }

    fn away(&self) -> ApiError {
        let (id, folder, file) = (&self.id, self.folder.display(), self.file.display());
        let message = format!(
            "volume {id} was never discarded, and is not in {folder}: nobody can tell whether all of it is drained"
        );
        let advice = format!(
            "mount the disk that {folder} is on, then repeat the command; if that disk is lost with what was on it, \
             remove {file}"
        );
        site(ErrorCode::LocalAway, message, advice)
    }
}
