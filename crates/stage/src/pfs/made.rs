//! Entries that only a name leads to when they have been made, while the name may be another's already.
//!
//! **Invariant:** what is said to be made is like what was asked for and has no other name, so that what is done to it
//! changes nobody's file.

use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use disk::below::{Place, by_descriptor};
use rustix::fs::{
    AtFlags, CWD, Mode, OFlags, fstat, linkat, mkdirat, mknodat, openat, readlinkat, symlinkat,
};
use rustix::io::Errno;
use wire::data::{Attr, FileKind};

use super::ENTRY;
use super::attr::{attributes, node_type, of_open, with};
use crate::tree::{Found, Held, New, Result};

/// Makes an entry.
pub(super) fn make(Place { folder, name }: &Place, path: &Path, new: New<'_>) -> Result<(Found, Held)> {
    match new {
        New::Folder(mode) => mkdirat(folder, name, Mode::from_raw_mode(mode))?,
        New::Symlink(text) => symlinkat(text, folder, name)?,
        New::Node { kind, rdev } => {
            mknodat(folder, name, node_type(kind)?, Mode::from_raw_mode(0o600), rdev)?;
        }
    }
    let held = openat(folder, name, ENTRY | OFlags::CLOEXEC, Mode::empty())?;
    let made = of_open(&held)?;
    if !is_it(&held, &attributes(&made), new)? {
        return Err(Errno::STALE);
    }
    Ok((with(path.to_owned(), &made), Some(held)))
}

fn is_it(held: impl AsFd, made: &Attr, new: New<'_>) -> Result<bool> {
    let has_one_name = made.nlink <= 1;
    Ok(match new {
        New::Folder(_) => made.kind == FileKind::Directory,
        New::Symlink(text) => {
            let is_link = made.kind == FileKind::Symlink && has_one_name;
            is_link && readlinkat(held, "", Vec::new())?.as_bytes() == text.as_os_str().as_bytes()
        }
        New::Node { kind, rdev } => (made.kind, made.rdev) == (kind, rdev) && has_one_name,
    })
}

/// Gives `existing` one more name, if that is what was opened: by its path another could get it.
pub(super) fn link(held: OwnedFd, existing: &Found, to: &Place) -> Result<Held> {
    if !existing.is(&fstat(&held)?) {
        return Err(Errno::NOENT);
    }
    linkat(CWD, by_descriptor(&held), &to.folder, &to.name, AtFlags::SYMLINK_FOLLOW)?;
    Ok(Some(held))
}
