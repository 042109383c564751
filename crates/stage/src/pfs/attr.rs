//! Attributes between the kernel's terms and the stage's.

use std::fs::Metadata;
use std::os::unix::fs::{FileTypeExt, MetadataExt};

use rustix::fs::{FileType, Timespec};
use rustix::io::Errno;
use wire::data::{Attr, FileKind, Time};

use crate::tree::Result;

pub(crate) fn attributes(metadata: &Metadata) -> Attr {
    Attr {
        ino: metadata.ino().into(),
        kind: kind(metadata),
        mode: metadata.mode() & 0o7777,
        nlink: u32::try_from(metadata.nlink()).unwrap_or(u32::MAX),
        uid: metadata.uid(),
        gid: metadata.gid(),
        rdev: metadata.rdev(),
        size: metadata.size(),
        blocks: metadata.blocks(),
        atime: time(metadata.atime(), metadata.atime_nsec()),
        mtime: time(metadata.mtime(), metadata.mtime_nsec()),
        ctime: time(metadata.ctime(), metadata.ctime_nsec()),
    }
}

fn kind(metadata: &Metadata) -> FileKind {
    let kind = metadata.file_type();
    match () {
        () if kind.is_dir() => FileKind::Directory,
        () if kind.is_symlink() => FileKind::Symlink,
        () if kind.is_fifo() => FileKind::Fifo,
        () if kind.is_socket() => FileKind::Socket,
        () if kind.is_char_device() => FileKind::CharDevice,
        () if kind.is_block_device() => FileKind::BlockDevice,
        () => FileKind::Regular,
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

fn time(seconds: i64, nanos: i64) -> Time {
    Time { seconds, nanos: u32::try_from(nanos).unwrap_or(0) }
}

pub(super) fn timespec(time: Option<Time>) -> Timespec {
    match time {
        Some(time) => Timespec { tv_sec: time.seconds, tv_nsec: time.nanos.into() },
        None => Timespec { tv_sec: 0, tv_nsec: rustix::fs::UTIME_OMIT },
    }
}
