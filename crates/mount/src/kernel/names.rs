//! Making and moving names.

use client::{Creator, Errno, FileKind};
use fuse::abi::{MkdirIn, MknodIn};
use fuse::reply::Reply;
use fuse::request::Request;
use rustix::fs::{FileType, RenameFlags};
use wire::data::message::RenameMode;

use super::Kernel;
use crate::filesystem::{FileSystem, NewInode, Result};

impl<F: FileSystem> Kernel<F> {
    pub(super) fn make_node(&self, request: &Request<'_>, node: &MknodIn, name: &[u8], reply: Reply) {
        let Some(kind) = kind_of(node.mode) else { return reply.error(Errno::INVAL) };
        self.make(request, name, kind, node.mode, u64::from(node.rdev), b"", reply);
    }

    pub(super) fn make_directory(&self, request: &Request<'_>, node: &MkdirIn, name: &[u8], reply: Reply) {
        self.make(request, name, FileKind::Directory, node.mode, 0, b"", reply);
    }

    pub(super) fn symlink(&self, request: &Request<'_>, name: &[u8], target: &[u8], reply: Reply) {
        self.make(request, name, FileKind::Symlink, 0o777, 0, target, reply);
    }

    /// Moves a name; each is a folder and a name in it.
    pub(super) fn rename(&self, old: (u64, &[u8]), new: (u64, &[u8]), flags: u32) -> Result<()> {
        let flags = RenameFlags::from_bits_retain(flags);
        let mode = if flags.is_empty() {
            RenameMode::Replace
        } else if flags == RenameFlags::NOREPLACE {
            RenameMode::NoReplace
        } else if flags == RenameFlags::EXCHANGE {
            RenameMode::Exchange
        } else {
            return Err(Errno::INVAL);
        };
        self.filesystem.rename(old.0, old.1, new.0, new.1, mode)
    }

    #[expect(clippy::too_many_arguments, reason = "one inode has as many properties")]
    fn make(
        &self,
        request: &Request<'_>,
        name: &[u8],
        kind: FileKind,
        mode: u32,
        rdev: u64,
        target: &[u8],
        reply: Reply,
    ) {
        let new = NewInode { kind, mode: mode & 0o7777, rdev, target, creator: creator(request) };
        self.entry(self.filesystem.make(request.ino(), name, &new), reply);
    }
}

/// In whose name the request makes inodes.
pub(super) fn creator(request: &Request<'_>) -> Creator {
    Creator { uid: request.uid(), gid: request.gid() }
}

fn kind_of(mode: u32) -> Option<FileKind> {
    match FileType::from_raw_mode(mode) {
        FileType::RegularFile => Some(FileKind::Regular),
        FileType::Fifo => Some(FileKind::Fifo),
        FileType::Socket => Some(FileKind::Socket),
        FileType::CharacterDevice => Some(FileKind::CharDevice),
        FileType::BlockDevice => Some(FileKind::BlockDevice),
        _ => None,
    }
}
