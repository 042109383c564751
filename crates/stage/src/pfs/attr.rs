//! Attributes between the kernel's terms and the stage's.

use std::ffi::OsStr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::time::Instant;

use rustix::fs::{AtFlags, FileType, Stat, Statx, StatxFlags, StatxTimestamp, Timespec, makedev, statx};
use rustix::io::Errno;
use wire::data::{Attr, FileKind, Time};

use crate::tree::{Found, Result};

/// Attributes as the kernel tells them.
pub fn attributes(found: &Statx) -> Attr {
    Attr {
        ino: found.stx_ino.into(),
        kind: kind(FileType::from_raw_mode(found.stx_mode.into())),
        mode: u32::from(found.stx_mode) & 0o7777,
        nlink: found.stx_nlink,
        uid: found.stx_uid,
        gid: found.stx_gid,
        rdev: makedev(found.stx_rdev_major, found.stx_rdev_minor),
        size: found.stx_size,
        blocks: found.stx_blocks,
        atime: time(found.stx_atime),
        mtime: time(found.stx_mtime),
        ctime: time(found.stx_ctime),
    }
}

/// The number of the device that it is on.
pub fn device(found: &Statx) -> u64 {
    makedev(found.stx_dev_major, found.stx_dev_minor)
}

impl Found {
    /// Whether this is the same entry of the file system, whatever it holds.
    pub fn is(&self, there: &Stat) -> bool {
        (there.st_dev, there.st_ino) == (self.device, self.attr.ino.into())
    }
}

/// An entry, by its own descriptor.
pub(super) fn found(path: PathBuf, entry: OwnedFd) -> Result<Found> {
    Ok(with(path, &of_open(entry)?))
}

/// An entry, by its name.
pub(super) fn look(folder: BorrowedFd<'_>, name: &OsStr) -> Result<Statx> {
    let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT;
    statx(folder, name, flags, StatxFlags::BASIC_STATS)
}

pub(super) fn with(path: PathBuf, found: &Statx) -> Found {
    Found { path, device: device(found), attr: attributes(found), since: Instant::now() }
}

/// What is open, and when it was made.
pub(crate) fn of_open(open: impl AsFd) -> Result<Statx> {
    statx(open, "", AtFlags::EMPTY_PATH, StatxFlags::BASIC_STATS | StatxFlags::BTIME)
}

fn kind(kind: FileType) -> FileKind {
    match kind {
        FileType::Directory => FileKind::Directory,
        FileType::Symlink => FileKind::Symlink,
        FileType::Fifo => FileKind::Fifo,
        FileType::Socket => FileKind::Socket,
        FileType::CharacterDevice => FileKind::CharDevice,
        FileType::BlockDevice => FileKind::BlockDevice,
        FileType::RegularFile | FileType::Unknown => FileKind::Regular,
    }
}

pub(super) fn node_type(kind: FileKind) -> Result<FileType> {
    match kind {
        FileKind::Fifo => Ok(FileType::Fifo),
        FileKind::Socket => Ok(FileType::Socket),
        FileKind::CharDevice => Ok(FileType::CharacterDevice),
        FileKind::BlockDevice => Ok(FileType::BlockDevice),
        FileKind::Regular | FileKind::Directory | FileKind::Symlink => Err(Errno::INVAL),
    }
}

fn time(stamp: StatxTimestamp) -> Time {
    Time { seconds: stamp.tv_sec, nanos: stamp.tv_nsec }
}

pub(super) fn timespec(time: Option<Time>) -> Timespec {
    match time {
        Some(time) => Timespec { tv_sec: time.seconds, tv_nsec: time.nanos.into() },
        None => Timespec { tv_sec: 0, tv_nsec: rustix::fs::UTIME_OMIT },
    }
}
