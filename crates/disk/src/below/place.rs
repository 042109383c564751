//! What is done with a name in a folder that is held open.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::PathBuf;

use rustix::fs::{AtFlags, Mode, OFlags, RenameFlags, openat};
use rustix::io::{Errno, Result};

use super::by_descriptor;

/// A name in a folder that is held open.
#[derive(Debug)]
pub struct Place {
    /// The folder.
    pub folder: OwnedFd,
    /// The name; `.` for the folder itself.
    pub name: OsString,
}

impl Place {
    /// A path that leads there as long as this is held, wherever the folder is moved to: for what takes paths. It
    /// depends on who takes it whether a symbolic link is followed that has the name itself.
    pub fn path(&self) -> PathBuf {
        by_descriptor(&self.folder).join(&self.name)
    }

    /// Opens the file `name` of the same folder to write, empty, and makes it if it is missing. A link in its place
    /// goes; what it leads to is let alone.
    ///
    /// # Errors
    /// Of the file system.
    pub fn create(&self, name: &OsStr) -> std::io::Result<File> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let open = || openat(&self.folder, name, flags, Mode::from_raw_mode(0o666));
        let opened = match open() {
            Err(Errno::LOOP) => {
                rustix::fs::unlinkat(&self.folder, name, AtFlags::empty())?;
                open()?
            }
            opened => opened?,
        };
        Ok(File::from(opened))
    }

    /// Puts what has `name` in the same folder here.
    ///
    /// # Errors
    /// Of the file system.
    pub fn replace_with(&self, name: &OsStr) -> Result<()> {
        rustix::fs::renameat(&self.folder, name, &self.folder, &self.name)
    }

    /// Puts what has `name` in the same folder here, unless there is something. NFS and some parallel file systems
    /// cannot do that in one; a link does.
    ///
    /// # Errors
    /// Of the file system; EXIST where there is something.
    pub fn fill_with(&self, name: &OsStr) -> Result<()> {
        let folder = &self.folder;
        match rustix::fs::renameat_with(folder, name, folder, &self.name, RenameFlags::NOREPLACE) {
            Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => {
                rustix::fs::linkat(folder, name, folder, &self.name, AtFlags::empty())?;
                rustix::fs::unlinkat(folder, name, AtFlags::empty())
            }
            outcome => outcome,
        }
    }
}
