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
    /// What is put here is called `aside` before, a name of the caller's that nothing has, and what was here after:
    /// whoever removes `name`, at whatever moment this was ended, removes nothing of anybody's. What may not go and
    /// could not be put back stays under `aside`.
    ///
    /// Where the file system cannot do that in one, `may_go` is asked right before.
    ///
    /// # Errors
    /// Of the file system; EXIST where what is here may not go.
    pub fn displace_with(&self, name: &OsStr, aside: &OsStr, may_go: impl MayGo) -> Result<()> {
        let (folder, put) = (&self.folder, self.number(name)?);
        match rustix::fs::renameat_with(folder, name, folder, aside, RenameFlags::NOREPLACE) {
            Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => return self.replace_if(name, may_go),
            moved => moved?,
        }
        let outcome = self.change_with(aside, put, may_go);
        if outcome.is_err() && self.number(aside) == Ok(put) {
            // Who made it removes it.
            rustix::fs::renameat_with(folder, aside, folder, name, RenameFlags::NOREPLACE)?;
        }
        outcome
    }

    fn replace_if(&self, name: &OsStr, may_go: impl MayGo) -> Result<()> {
        if may_go(self.folder.as_fd(), &self.name)? { self.replace_with(name) } else { Err(Errno::EXIST) }
    }

    /// As [`Place::displace_with`] of what has the number `put`, and is called `aside` already.
    fn change_with(&self, aside: &OsStr, put: u64, may_go: impl MayGo) -> Result<()> {
        match self.change(aside) {
            Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => return self.replace_if(aside, may_go),
            // It has gone meanwhile.
            Err(Errno::NOENT) => return self.fill_with(aside),
            changed => changed?,
        }
        let may_go = may_go(self.folder.as_fd(), aside);
        if may_go == Ok(true) {
            return unlinkat(&self.folder, aside, AtFlags::empty());
        }
        self.change(aside)?;
        if self.number(aside)? != put {
            // Somebody has put another in its place since: that one stays here.
            self.change(aside)?;
        }
        may_go.and(Err(Errno::EXIST))
    }

    /// Removes what is here, if `may_go` says so of it when it has no name any more that anybody else knows: it is
    /// called `aside` first, a name of the caller's that nothing has. Else it is put back, unless something else is
    /// here by then: then it stays under `aside`.
    ///
    /// # Errors
    /// Of the file system; EXIST where what is here may not go.
    pub fn remove_with(&self, aside: &OsStr, may_go: impl MayGo) -> Result<()> {
        let folder = &self.folder;
        match rustix::fs::renameat_with(folder, &self.name, folder, aside, RenameFlags::NOREPLACE) {
            Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) if self.number(aside) == Err(Errno::NOENT) => {
                rustix::fs::renameat(folder, &self.name, folder, aside)?;
            }
            moved => moved?,
        }
        let may_go = may_go(folder.as_fd(), aside);
        if may_go == Ok(true) {
            return unlinkat(folder, aside, AtFlags::empty());
        }
        self.fill_with(aside)?;
        may_go.and(Err(Errno::EXIST))
    }

    /// Puts back what was taken from here and lies under `aside`: where nothing is here, or what `may_go`, which goes.
    /// What is here already, as who puts it back may be ended in between, loses that name only.
    ///
    /// # Errors
    /// Of the file system; EXIST where something else is here: then all stays as it is.
    pub fn give_back(&self, aside: &OsStr, may_go: impl MayGo) -> Result<()> {
        match self.fill_with(aside) {
            Err(Errno::EXIST) => {}
            filled => return filled,
        }
        if self.number(aside)? == self.number(&self.name)? {
            return unlinkat(&self.folder, aside, AtFlags::empty());
        }
        if !may_go(self.folder.as_fd(), &self.name)? {
            return Err(Errno::EXIST);
        }
        self.change(aside)?;
        if may_go(self.folder.as_fd(), aside)? {
            return unlinkat(&self.folder, aside, AtFlags::empty());
        }
        self.change(aside)?;
        Err(Errno::EXIST)
    }

    /// Has what is here and what has `name` in the same folder change names.
    fn change(&self, name: &OsStr) -> Result<()> {
        rustix::fs::renameat_with(&self.folder, name, &self.folder, &self.name, RenameFlags::EXCHANGE)
    }

    fn number(&self, name: &OsStr) -> Result<u64> {
        statat(&self.folder, name, AtFlags::SYMLINK_NOFOLLOW).map(|found| found.st_ino)
    }
}

/// Says whether what has this name in this folder may go.
pub trait MayGo: Fn(BorrowedFd<'_>, &OsStr) -> Result<bool> {}

impl<F: Fn(BorrowedFd<'_>, &OsStr) -> Result<bool>> MayGo for F {}
