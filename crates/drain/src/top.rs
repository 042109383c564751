//! The drained folder, held open: what is said of it is said of the folder that was there when the drain began.
//!
//! **Invariant:** where another is at its path now, or none (it was renamed, removed, or its file system unmounted),
//! every question is answered by an error, never by "there is nothing".

use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use disk::below::{Folders, Place, Root};
use rustix::fs::{Mode, OFlags, openat};
use rustix::io::Errno;

use crate::generation::{self, Seen, Stamp};

/// The drained folder.
pub(crate) struct Top {
    /// Reached from the folder itself, which stays open.
    folders: Folders,
    /// Its device and inode number.
    held: (u64, u64),
}

impl Top {
    /// The folder that is at `path` now.
    ///
    /// # Errors
    /// Of `open`.
    pub(crate) fn open(path: &Path) -> rustix::io::Result<Top> {
        let root = Root::hold(path)?;
        Ok(Top { held: root.identity()?, folders: Folders::below(root) })
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        self.folders.root().path()
    }

    /// Which folder it is, whatever paths it has; `None` where its file system does not say when it was made.
    pub(crate) fn identity(&self) -> Option<(u64, Stamp)> {
        let seen = generation::look(self.folders.root(), Path::new("")).ok()?;
        Some(seen.generation.file()).filter(|(_, born)| *born != (0, 0))
    }

    /// The folder, from which what is below it is reached.
    pub(crate) fn root(&self) -> &Root {
        self.folders.root()
    }

    /// Its device and inode number, which are no other's as long as this is open.
    pub(crate) fn numbers(&self) -> (u64, u64) {
        self.held
    }

    /// The user whose it is; `None` where that cannot be told.
    pub(crate) fn owner(&self) -> Option<u32> {
        let held = self.folder(Path::new("")).and_then(rustix::fs::fstat);
        held.ok().map(|found| found.st_uid)
    }

    /// Whether it still is there.
    ///
    /// # Errors
    /// STALE where it is not; of `stat` otherwise.
    pub(crate) fn is_there(&self) -> rustix::io::Result<()> {
        match rustix::fs::stat(self.path()) {
            Ok(there) if (there.st_dev, there.st_ino) == self.held => Ok(()),
            Ok(_) | Err(Errno::NOENT | Errno::NOTDIR) => Err(Errno::STALE),
            Err(errno) => Err(errno),
        }
    }

    /// The folder itself, opened to be read.
    ///
    /// # Errors
    /// As of [`Root::inside`].
    pub(crate) fn opened(&self) -> rustix::io::Result<OwnedFd> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        openat(self.folder(Path::new(""))?, ".", flags, Mode::empty())
    }

    /// The folder `path`, which is below it or relative to it, held open. Whoever says that something is not in it asks
    /// [`Top::is_there`] then.
    ///
    /// # Errors
    /// As of [`Root::inside`].
    pub(crate) fn folder(&self, path: &Path) -> rustix::io::Result<OwnedFd> {
        self.folders.root().inside(path).map(|place| place.folder)
    }

    /// What is at `path`, for who only needs to know whether to look at it: its folder may have been held since
    /// [`Top::let_go`].
    ///
    /// # Errors
    /// As of [`generation::look`].
    pub(crate) fn glance(&self, path: &Path) -> rustix::io::Result<Seen> {
        self.folders.with(path, generation::look_in)
    }

    /// A folder may have another path now.
    pub(crate) fn let_go(&self) {
        self.folders.let_go();
    }

    /// What is at `path`, which is below it or relative to it.
    ///
    /// # Errors
    /// As of [`generation::look`] and [`Top::is_there`].
    pub(crate) fn look(&self, path: &Path) -> rustix::io::Result<Seen> {
        self.look_at(path).map(|(seen, _)| seen)
    }

    /// The same, and the place of `path`.
    ///
    /// # Errors
    /// As of [`Top::look`].
    pub(crate) fn look_at(&self, path: &Path) -> rustix::io::Result<(Seen, Place)> {
        let place = self.folders.root().reach(path);
        let seen = place.and_then(|place| {
            let seen = generation::look_in(place.folder.as_fd(), &place.name)?;
            Ok((seen, place))
        });
        self.is_there()?;
        seen
    }

    /// The same; `None` where there is nothing.
    ///
    /// # Errors
    /// As of [`Top::look`], other than that there is nothing.
    pub(crate) fn find(&self, path: &Path) -> rustix::io::Result<Option<Seen>> {
        generation::if_there(self.look(path))
    }
}
