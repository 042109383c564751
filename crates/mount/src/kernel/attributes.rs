//! Attributes, extended ones too, between the kernel's layout and ours.

use std::time::Duration;

use client::{Attr, Errno, FileKind, Names as _, Result, SetAttr, Time};
use fuse::abi::{self, AttrOut, EntryOut, SetAttrIn, set_attr};
use fuse::reply::Reply;
use fuse::request::Request;
use model::Ino;
use rustix::fs::{FileType, XattrFlags};
use wire::data::message::XattrMode;

use super::names::id_of;
use super::{Kernel, REQUEST_BYTES_MAX};
use crate::usage::statfs_of;

impl Kernel {
    pub(super) fn set_attr(&self, request: &Request<'_>, set: &SetAttrIn, reply: Reply) {
        self.attr(self.contents.set_attr(id_of(request), Ino::from(request.ino()), &wanted(set)), reply);
    }

    /// Names of extended attributes, each ended by a zero.
    pub(super) fn list_xattr(&self, ino: Ino) -> Result<Vec<u8>> {
        let names = self.namespace.client().listxattr(ino)?;
        Ok(names.into_iter().flat_map(|name| name.into_iter().chain([0])).collect())
    }

    pub(super) fn statfs(&self, reply: Reply) {
        match self.namespace.usage() {
            Ok(usage) => reply.statfs(&statfs_of(&usage)),
            Err(errno) => reply.error(errno),
        }
    }
}

/// Answers with a value, or with its size where no room (`size` 0) was given for it.
pub(super) fn xattr(result: Result<Vec<u8>>, size: u32, reply: Reply) {
    match result {
        Ok(value) if size == 0 => reply.xattr_size(u32::try_from(value.len()).unwrap_or(u32::MAX)),
        Ok(value) if value.len() > size as usize => reply.error(Errno::RANGE),
        Ok(value) => reply.bytes(&value),
        Err(errno) => reply.error(errno),
    }
}

/// The flags of `setxattr`.
pub(super) fn xattr_mode(flags: u32, kill_sgid: bool) -> XattrMode {
    let flags = XattrFlags::from_bits_retain(flags);
    if kill_sgid {
        XattrMode::DropSetGid
    } else if flags.contains(XattrFlags::CREATE) {
        XattrMode::Create
    } else if flags.contains(XattrFlags::REPLACE) {
        XattrMode::Replace
    } else {
        XattrMode::Any
    }
}

/// An inode behind a name. Inode numbers are never used again, so that their generation is always 0.
pub(super) fn entry_out(attr: &Attr, cache_for: Duration) -> EntryOut {
    EntryOut {
        nodeid: attr.ino.into(),
        generation: 0,
        entry_valid: cache_for.as_secs(),
        attr_valid: cache_for.as_secs(),
        entry_valid_nsec: cache_for.subsec_nanos(),
        attr_valid_nsec: cache_for.subsec_nanos(),
        attr: kernel_attr(attr),
    }
}

/// An inode's attributes.
pub(super) fn attr_out(attr: &Attr, cache_for: Duration) -> AttrOut {
    AttrOut {
        attr_valid: cache_for.as_secs(),
        attr_valid_nsec: cache_for.subsec_nanos(),
        unused: 0,
        attr: kernel_attr(attr),
    }
}

/// Type and permissions in one word, as `stat` has them.
pub(super) fn mode_of(attr: &Attr) -> u32 {
    let kind = match attr.kind {
        FileKind::Regular => FileType::RegularFile,
        FileKind::Directory => FileType::Directory,
        FileKind::Symlink => FileType::Symlink,
        FileKind::Fifo => FileType::Fifo,
        FileKind::Socket => FileType::Socket,
        FileKind::CharDevice => FileType::CharacterDevice,
        FileKind::BlockDevice => FileType::BlockDevice,
    };
    kind.as_raw_mode() | attr.mode & 0o7777
}

fn kernel_attr(attr: &Attr) -> abi::Attr {
    abi::Attr {
        ino: attr.ino.into(),
        size: attr.size,
        blocks: attr.blocks,
        atime: attr.atime.seconds.cast_unsigned(),
        mtime: attr.mtime.seconds.cast_unsigned(),
        ctime: attr.ctime.seconds.cast_unsigned(),
        atimensec: attr.atime.nanos,
        mtimensec: attr.mtime.nanos,
        ctimensec: attr.ctime.nanos,
        mode: mode_of(attr),
        nlink: attr.nlink,
        uid: attr.uid,
        gid: attr.gid,
        // Linux's device numbers have 32 bits here.
        rdev: u32::try_from(attr.rdev).unwrap_or(0),
        blksize: REQUEST_BYTES_MAX,
        flags: 0,
    }
}

/// What is to be set.
pub(super) fn wanted(set: &SetAttrIn) -> SetAttr {
    let has = |flag| set.valid & flag != 0;
    let time = |flag, now, seconds: u64, nanos| {
        has(flag).then(|| if has(now) { time_now() } else { Time { seconds: seconds.cast_signed(), nanos } })
    };
    SetAttr {
        mode: has(set_attr::MODE).then_some(set.mode & 0o7777),
        uid: has(set_attr::UID).then_some(set.uid),
        gid: has(set_attr::GID).then_some(set.gid),
        size: has(set_attr::SIZE).then_some(set.size),
        atime: time(set_attr::ATIME, set_attr::ATIME_NOW, set.atime, set.atimensec),
        mtime: time(set_attr::MTIME, set_attr::MTIME_NOW, set.mtime, set.mtimensec),
        drop_privileges: has(set_attr::KILL_SUIDGID),
    }
}

fn time_now() -> Time {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Realtime);
    Time { seconds: now.tv_sec, nanos: u32::try_from(now.tv_nsec).unwrap_or(0) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_before_1970_survive_both_ways() {
        for time in [
            Time { seconds: -1, nanos: 250_000_000 },
            Time { seconds: -7, nanos: 0 },
            Time { seconds: 0, nanos: 1 },
            Time { seconds: 1_700_000_000, nanos: 999_999_999 },
        ] {
            let attr = Attr {
                ino: Ino(1),
                kind: FileKind::Regular,
                mode: 0o644,
                nlink: 1,
                uid: 0,
                gid: 0,
                rdev: 0,
                size: 0,
                blocks: 0,
                atime: time,
                mtime: time,
                ctime: time,
            };
            let kernel = kernel_attr(&attr);
            let set = SetAttrIn {
                valid: set_attr::MTIME,
                mtime: kernel.mtime,
                mtimensec: kernel.mtimensec,
                ..SetAttrIn::default()
            };
            assert_eq!(wanted(&set).mtime, Some(time));
        }
    }

    #[test]
    fn only_what_the_kernel_marks_is_set() {
        let set = SetAttrIn { valid: set_attr::UID, uid: 5, gid: 6, size: 7, ..SetAttrIn::default() };
        assert_eq!(wanted(&set), SetAttr { uid: Some(5), ..SetAttr::default() });
    }
}
