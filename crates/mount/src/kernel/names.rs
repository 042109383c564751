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
        let new = new_inode(creator(request, node.umask), kind, node.mode);
        self.make(request, name, &NewInode { rdev: u64::from(node.rdev), ..new }, reply);
    }

    pub(super) fn make_directory(&self, request: &Request<'_>, node: &MkdirIn, name: &[u8], reply: Reply) {
        let new = new_inode(creator(request, node.umask), FileKind::Directory, node.mode);
        self.make(request, name, &new, reply);
    }

    pub(super) fn symlink(&self, request: &Request<'_>, name: &[u8], target: &[u8], reply: Reply) {
        let new = new_inode(creator(request, 0), FileKind::Symlink, 0o777);
        self.make(request, name, &NewInode { target, ..new }, reply);
    }

    /// Moves a name; each is a folder and a name in it.
    pub(super) fn rename(&self, id: u64, old: (u64, &[u8]), new: (u64, &[u8]), flags: u32) -> Result<()> {
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
        self.filesystem.rename(id, old.0, old.1, new.0, new.1, mode)
    }

    fn make(&self, request: &Request<'_>, name: &[u8], new: &NewInode<'_>, reply: Reply) {
        self.entry(self.filesystem.make(request.unique(), request.ino(), name, new), reply);
    }
}

/// In whose name the request makes inodes.
pub(super) fn creator(request: &Request<'_>, umask: u32) -> Creator {
    Creator { uid: request.uid(), gid: request.gid(), umask }
}

fn new_inode(creator: Creator, kind: FileKind, mode: u32) -> NewInode<'static> {
    NewInode { kind, mode: mode & 0o7777, rdev: 0, target: b"", creator }
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
