//! The drained folder, held open: what is said of it is said of the folder that was there when the drain began.
//!
//! **Invariant:** where another is at its path now, or none (it was renamed, removed, or its file system unmounted),
//! every question is answered by an error, never by "there is nothing".

use std::path::Path;

use disk::below::{Place, Root};
use rustix::io::Errno;

use crate::generation::{self, Seen, Stamp};

/// The drained folder.
pub(crate) struct Top(Root);

impl Top {
    /// The folder that is at `path` now.
    ///
    /// # Errors
    /// Of `open`.
    pub(crate) fn open(path: &Path) -> rustix::io::Result<Top> {
        Root::hold(path).map(Top)
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    /// Which folder it is, whatever paths it has; `None` where its file system does not say when it was made.
    pub(crate) fn identity(&self) -> Option<(u64, Stamp)> {
        let seen = generation::look(&self.0, Path::new("")).ok()?;
        Some(seen.generation.file()).filter(|(_, born)| *born != (0, 0))
    }

    /// Whether it still is there.
    ///
    /// # Errors
    /// STALE where it is not; of `stat` otherwise.
    pub(crate) fn is_there(&self) -> rustix::io::Result<()> {
        let held = self.0.identity()?;
        match rustix::fs::stat(self.path()) {
            Ok(there) if (there.st_dev, there.st_ino) == held => Ok(()),
            Ok(_) | Err(Errno::NOENT | Errno::NOTDIR) => Err(Errno::STALE),
            Err(errno) => Err(errno),
        }
    }

    /// The place of `path`, which is below it or relative to it.
    ///
    /// # Errors
    /// As of [`Root::reach`].
    pub(crate) fn place(&self, path: &Path) -> rustix::io::Result<Place> {
        self.0.reach(path)
    }

    /// What is at `path`, which is below it or relative to it.
    ///
    /// # Errors
    /// As of [`generation::look`] and [`Top::is_there`].
    pub(crate) fn look(&self, path: &Path) -> rustix::io::Result<Seen> {
        let seen = generation::look(&self.0, path);
        self.is_there()?;
        seen
    }

    /// The same; `None` where there is nothing.
    ///
    /// # Errors
    /// As of [`Top::look`], other than that there is nothing.
    pub(crate) fn find(&self, path: &Path) -> rustix::io::Result<Option<Seen>> {
        match self.look(path) {
            Err(Errno::NOENT | Errno::NOTDIR) => Ok(None),
            seen => seen.map(Some),
        }
    }
}
