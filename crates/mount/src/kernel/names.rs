//! Making and moving names.

use client::{Creator, Errno, FileKind, Names as _, Node, RequestId, Result};
use fuse::abi::{MkdirIn, MknodIn};
use fuse::reply::Reply;
use fuse::request::Request;
use model::Ino;
use rustix::fs::{FileType, RenameFlags};
use wire::data::message::RenameMode;

use super::Kernel;

impl Kernel {
    pub(super) fn make_node(&self, request: &Request<'_>, node: &MknodIn, name: &[u8], reply: Reply) {
        let Some(kind) = kind_of(node.mode) else { return reply.error(Errno::INVAL) };
        let new = Node { kind, mode: node.mode & 0o7777, rdev: u64::from(node.rdev) };
        let creator = creator(request, node.umask);
        self.entry(
            self.namespace.client().mknod(id_of(request), Ino::from(request.ino()), name, &new, &creator),
            reply,
        );
    }

    pub(super) fn make_directory(&self, request: &Request<'_>, node: &MkdirIn, name: &[u8], reply: Reply) {
        let (mode, creator) = (node.mode & 0o7777, creator(request, node.umask));
        self.entry(
            self.namespace.client().mkdir(id_of(request), Ino::from(request.ino()), name, mode, &creator),
            reply,
        );
    }

    pub(super) fn symlink(&self, request: &Request<'_>, name: &[u8], target: &[u8], reply: Reply) {
        let creator = creator(request, 0);
        let made =
            self.namespace.client().symlink(id_of(request), Ino::from(request.ino()), name, target, &creator);
        self.entry(made, reply);
    }

    /// Moves a name; each is a folder and a name in it.
    pub(super) fn rename(
        &self,
        id: RequestId,
        old: (Ino, &[u8]),
        new: (Ino, &[u8]),
        flags: u32,
    ) -> Result<()> {
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
        self.namespace.client().rename(id, old.0, old.1, new.0, new.1, mode)
    }
}

/// The number under which a change is asked for, also by a successor of this process.
pub(super) fn id_of(request: &Request<'_>) -> RequestId {
    RequestId::Given(request.unique())
}

/// In whose name the request makes inodes.
pub(super) fn creator(request: &Request<'_>, umask: u32) -> Creator {
    Creator { uid: request.uid(), gid: request.gid(), umask }
}

/// What the mode of a new inode makes of it.
pub(super) fn kind_of(mode: u32) -> Option<FileKind> {
    match FileType::from_raw_mode(mode) {
        FileType::RegularFile => Some(FileKind::Regular),
        FileType::Fifo => Some(FileKind::Fifo),
        FileType::Socket => Some(FileKind::Socket),
        FileType::CharacterDevice => Some(FileKind::CharDevice),
        FileType::BlockDevice => Some(FileKind::BlockDevice),
        _ => None,
    }
}
