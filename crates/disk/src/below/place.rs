//! What is done with a name in a folder that is held open.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;

use rustix::fs::{AtFlags, Mode, OFlags, RenameFlags, openat, statat, unlinkat};
use rustix::io::{Errno, Result};

use super::by_descriptor;
use crate::regular::{self, is_another};

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
    /// goes, what it leads to is let alone, and so goes a pipe, socket or device node.
    ///
    /// # Errors
    /// Of the file system.
    pub fn create(&self, name: &OsStr) -> std::io::Result<File> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC | OFlags::NOFOLLOW;
        let mode = Mode::from_raw_mode(0o666);
        let open = || regular::only(|also| openat(&self.folder, name, flags | also, mode));
        match open() {
            Err(error) if is_another(&error) || Errno::from_io_error(&error) == Some(Errno::LOOP) => {
                unlinkat(&self.folder, name, AtFlags::empty())?;
                open()
            }
            opened => opened,
        }
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
                unlinkat(folder, name, AtFlags::empty())
            }
            outcome => outcome,
        }
    }

    /// Puts what has `name` in the same folder here, in place of what is here, which goes if `may_go` says so of it
    /// when it has no name any more that anybody else knows: the two change names first. Else they change back, and
    /// nothing is lost of whoever was quick enough to come between a look and this.
    ///
    /// Where the file system cannot do that in one, `may_go` is asked right before.
    ///
    /// # Errors
    /// Of the file system; EXIST where what is here may not go.
    pub fn displace_with(
        &self,
        name: &OsStr,
        may_go: impl Fn(BorrowedFd<'_>, &OsStr) -> Result<bool>,
    ) -> Result<()> {
        let folder = self.folder.as_fd();
        let number = |name: &OsStr| statat(folder, name, AtFlags::SYMLINK_NOFOLLOW).map(|found| found.st_ino);
        let change = || rustix::fs::renameat_with(folder, name, folder, &self.name, RenameFlags::EXCHANGE);
        let put = number(name)?;
        match change() {
            Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => {
                return if may_go(folder, &self.name)? { self.replace_with(name) } else { Err(Errno::EXIST) };
            }
            // It has gone meanwhile.
            Err(Errno::NOENT) => return self.fill_with(name),
            changed => changed?,
        }
        let may_go = may_go(folder, name);
        if may_go == Ok(true) {
            return unlinkat(folder, name, AtFlags::empty());
        }
        change()?;
        if number(name)? != put {
            // Somebody has put another in its place since: that one stays, as it would have.
            change()?;
        }
        may_go.and(Err(Errno::EXIST))
    }
}
