//! Layouts and numbers of the protocol, as `linux/fuse.h` has them (7.45; what is newer than the kernel is not asked
//! for).
//!
//! Names follow the header, so that a reader finds the one in the other. Fields that the kernel ignores are `unused`.

#![expect(missing_docs, reason = "the names are the kernel header's, which says what they mean")]

use zerocopy::{FromBytes, Immutable, IntoBytes};

/// The protocol's major number: 7 since 2005.
pub const MAJOR: u32 = 7;
/// The newest minor number that this file knows.
pub const MINOR: u32 = 45;
/// The oldest that is served: layouts are as below since then, and a request may have 256 pages.
pub const MINOR_MIN: u32 = 28;

/// From this minor number on the kernel knows [`notification::INC_EPOCH`].
pub const MINOR_EPOCHS: u32 = 44;

/// Marks a request's number when the kernel sends it again to a successor.
pub const UNIQUE_RESEND: u64 = 1 << 63;

/// Declares structures of the protocol: bytes in, bytes out, no padding but what is named.
macro_rules! layouts {
    ($($(#[$doc:meta])* $name:ident { $($field:ident: $type:ty),* $(,)? })*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable)]
        #[repr(C)]
        pub struct $name { $(pub $field: $type),* }
    )*};
}

layouts! {
    /// Before every request.
    InHeader {
        len: u32, opcode: u32, unique: u64, nodeid: u64, uid: u32, gid: u32, pid: u32, total_extlen: u16, unused: u16,
    }
    /// Before every reply; `error` is 0 or a negative errno, for notifications their number.
    OutHeader { len: u32, error: i32, unique: u64 }

    /// Times are seconds and nanoseconds since 1970; the seconds' bits are those of an `i64`.
    Attr {
        ino: u64, size: u64, blocks: u64, atime: u64, mtime: u64, ctime: u64,
        atimensec: u32, mtimensec: u32, ctimensec: u32,
        mode: u32, nlink: u32, uid: u32, gid: u32, rdev: u32, blksize: u32, flags: u32,
    }
    EntryOut {
        nodeid: u64, generation: u64, entry_valid: u64, attr_valid: u64, entry_valid_nsec: u32, attr_valid_nsec: u32,
        attr: Attr,
    }
    AttrOut { attr_valid: u64, attr_valid_nsec: u32, unused: u32, attr: Attr }
    GetAttrIn { getattr_flags: u32, unused: u32, fh: u64 }
    SetAttrIn {
        valid: u32, unused1: u32, fh: u64, size: u64, lock_owner: u64, atime: u64, mtime: u64, ctime: u64,
        atimensec: u32, mtimensec: u32, ctimensec: u32, mode: u32, unused4: u32, uid: u32, gid: u32, unused5: u32,
    }
    MknodIn { mode: u32, rdev: u32, umask: u32, unused: u32 }
    MkdirIn { mode: u32, umask: u32 }
    RenameIn { newdir: u64 }
    Rename2In { newdir: u64, flags: u32, unused: u32 }
    LinkIn { oldnodeid: u64 }
    OpenIn { flags: u32, open_flags: u32 }
    CreateIn { flags: u32, mode: u32, umask: u32, open_flags: u32 }
    OpenOut { fh: u64, open_flags: u32, backing_id: u32 }
    ReleaseIn { fh: u64, flags: u32, release_flags: u32, lock_owner: u64 }
    FlushIn { fh: u64, unused: u32, unused2: u32, lock_owner: u64 }
    /// Also of the two READDIRs.
    ReadIn { fh: u64, offset: u64, size: u32, read_flags: u32, lock_owner: u64, flags: u32, unused: u32 }
    WriteIn { fh: u64, offset: u64, size: u32, write_flags: u32, lock_owner: u64, flags: u32, unused: u32 }
    WriteOut { size: u32, unused: u32 }
    StatFsOut {
        blocks: u64, bfree: u64, bavail: u64, files: u64, ffree: u64, bsize: u32, namelen: u32, frsize: u32,
        unused: [u32; 7],
    }
    FsyncIn { fh: u64, fsync_flags: u32, unused: u32 }
    /// The short one: `FUSE_SETXATTR_EXT` is not negotiated.
    SetXattrIn { size: u32, flags: u32 }
    /// Follows [`SetXattrIn`] where `SETXATTR_EXT` was agreed on.
    SetXattrExtension { set_flags: u32, padding: u32 }
    GetXattrIn { size: u32, unused: u32 }
    GetXattrOut { size: u32, unused: u32 }
    /// `end` is the last byte; `kind` one of `F_RDLCK`, `F_WRLCK` and `F_UNLCK`.
    FileLock { start: u64, end: u64, kind: u32, pid: u32 }
    LockIn { fh: u64, owner: u64, lock: FileLock, lk_flags: u32, unused: u32 }
    AllocateIn { fh: u64, offset: u64, length: u64, mode: u32, unused: u32 }
    SeekIn { fh: u64, offset: u64, whence: u32, unused: u32 }
    SeekOut { offset: u64 }
    InterruptIn { unique: u64 }
    /// A second word of flags follows where `flags` has `INIT_EXT`.
    InitIn { major: u32, minor: u32, max_readahead: u32, flags: u32 }
    InitOut {
        major: u32, minor: u32, max_readahead: u32, flags: u32, max_background: u16, congestion_threshold: u16,
        max_write: u32, time_gran: u32, max_pages: u16, map_alignment: u16, flags2: u32, max_stack_depth: u32,
        request_timeout: u16, unused: [u16; 11],
    }
    /// The name follows, and zeros up to a multiple of 8.
    DirEntry { ino: u64, off: u64, namelen: u32, kind: u32 }
    InvalInodeOut { ino: u64, off: i64, len: i64 }
    /// The name follows, and a zero.
    InvalEntryOut { parent: u64, namelen: u32, flags: u32 }
    BackingMap { fd: i32, flags: u32, unused: u64 }
}

/// What is asked.
pub mod opcode {
    pub const LOOKUP: u32 = 1;
    pub const FORGET: u32 = 2;
    pub const GETATTR: u32 = 3;
    pub const SETATTR: u32 = 4;
    pub const READLINK: u32 = 5;
    pub const SYMLINK: u32 = 6;
    pub const MKNOD: u32 = 8;
    pub const MKDIR: u32 = 9;
    pub const UNLINK: u32 = 10;
    pub const RMDIR: u32 = 11;
    pub const RENAME: u32 = 12;
    pub const LINK: u32 = 13;
    pub const OPEN: u32 = 14;
    pub const READ: u32 = 15;
    pub const WRITE: u32 = 16;
    pub const STATFS: u32 = 17;
    pub const RELEASE: u32 = 18;
    pub const FSYNC: u32 = 20;
    pub const SETXATTR: u32 = 21;
    pub const GETXATTR: u32 = 22;
    pub const LISTXATTR: u32 = 23;
    pub const REMOVEXATTR: u32 = 24;
    pub const FLUSH: u32 = 25;
    pub const INIT: u32 = 26;
    pub const OPENDIR: u32 = 27;
    pub const READDIR: u32 = 28;
    pub const RELEASEDIR: u32 = 29;
    pub const FSYNCDIR: u32 = 30;
    pub const GETLK: u32 = 31;
    pub const SETLK: u32 = 32;
    pub const SETLKW: u32 = 33;
    pub const CREATE: u32 = 35;
    pub const INTERRUPT: u32 = 36;
    pub const DESTROY: u32 = 38;
    pub const BATCH_FORGET: u32 = 42;
    pub const FALLOCATE: u32 = 43;
    pub const READDIRPLUS: u32 = 44;
    pub const RENAME2: u32 = 45;
    pub const LSEEK: u32 = 46;
}

/// What the two sides agree on at INIT. Bits from 32 on travel in the second word of flags.
pub mod capability {
    pub const ASYNC_READ: u64 = 1 << 0;
    pub const POSIX_LOCKS: u64 = 1 << 1;
    pub const EXPORT_SUPPORT: u64 = 1 << 4;
    pub const BIG_WRITES: u64 = 1 << 5;
    pub const DONT_MASK: u64 = 1 << 6;
    pub const FLOCK_LOCKS: u64 = 1 << 10;
    pub const AUTO_INVAL_DATA: u64 = 1 << 12;
    pub const DO_READDIRPLUS: u64 = 1 << 13;
    pub const READDIRPLUS_AUTO: u64 = 1 << 14;
    pub const ASYNC_DIO: u64 = 1 << 15;
    pub const PARALLEL_DIROPS: u64 = 1 << 18;
    pub const POSIX_ACL: u64 = 1 << 20;
    pub const MAX_PAGES: u64 = 1 << 22;
    pub const CACHE_SYMLINKS: u64 = 1 << 23;
    pub const HANDLE_KILLPRIV_V2: u64 = 1 << 28;
    pub const SETXATTR_EXT: u64 = 1 << 29;
    pub const INIT_EXT: u64 = 1 << 30;
    pub const DIRECT_IO_ALLOW_MMAP: u64 = 1 << 36;
    pub const PASSTHROUGH: u64 = 1 << 37;
    pub const HAS_RESEND: u64 = 1 << 39;
}

/// How an opened file is used ([`OpenOut::open_flags`]).
pub mod open_flag {
    pub const DIRECT_IO: u32 = 1 << 0;
    pub const KEEP_CACHE: u32 = 1 << 1;
    pub const PARALLEL_DIRECT_WRITES: u32 = 1 << 6;
    pub const PASSTHROUGH: u32 = 1 << 7;
}

/// Which fields of [`SetAttrIn`] count ([`SetAttrIn::valid`]).
pub mod set_attr {
    pub const MODE: u32 = 1 << 0;
    pub const UID: u32 = 1 << 1;
    pub const GID: u32 = 1 << 2;
    pub const SIZE: u32 = 1 << 3;
    pub const ATIME: u32 = 1 << 4;
    pub const MTIME: u32 = 1 << 5;
    /// It is asked through an open file.
    pub const FH: u32 = 1 << 6;
    pub const ATIME_NOW: u32 = 1 << 7;
    pub const MTIME_NOW: u32 = 1 << 8;
    pub const KILL_SUIDGID: u32 = 1 << 11;
}

/// In [`ReadIn::read_flags`]: a program reads past the kernel's pages. Without it a page is filled.
pub const READ_LOCKOWNER: u32 = 1 << 1;
/// In [`WriteIn::write_flags`]: pages are written back, of any program that stored into them.
pub const WRITE_CACHE: u32 = 1 << 0;
/// O_DSYNC of open(2), in the flags of opens and writes; O_SYNC includes it. The constant `DSYNC` of rustix is O_SYNC
/// on some targets.
pub const O_DSYNC: u32 = 0o10_000;
/// In [`WriteIn::write_flags`]: a program writes past the kernel's pages. Without it, and without [`WRITE_CACHE`], it
/// writes through them.
pub const WRITE_LOCKOWNER: u32 = 1 << 1;
/// In [`WriteIn::write_flags`]: the write clears set-user-id and set-group-id.
pub const WRITE_KILL_SUIDGID: u32 = 1 << 2;
/// In [`SetXattrExtension::set_flags`]: an access list is set by somebody who loses set-group-id by it.
pub const SETXATTR_KILL_SGID: u32 = 1 << 0;
/// In [`ReleaseIn::release_flags`]: the handle may hold a lock on the whole file.
pub const RELEASE_FLOCK_UNLOCK: u32 = 1 << 1;
/// In [`LockIn::lk_flags`]: `flock`, not `fcntl`.
pub const LOCK_FLOCK: u32 = 1 << 0;

/// What is told without being asked ([`OutHeader::error`], with `unique` 0).
pub mod notification {
    pub const INVAL_INODE: i32 = 2;
    pub const INVAL_ENTRY: i32 = 3;
    pub const RESEND: i32 = 7;
    pub const INC_EPOCH: i32 = 8;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn structures_have_the_sizes_that_the_kernel_expects() {
        assert_eq!(size_of::<InHeader>(), 40);
        assert_eq!(size_of::<OutHeader>(), 16);
        assert_eq!(size_of::<Attr>(), 88);
        assert_eq!(size_of::<EntryOut>(), 128);
        assert_eq!(size_of::<AttrOut>(), 104);
        assert_eq!(size_of::<SetAttrIn>(), 88);
        assert_eq!(size_of::<ReadIn>(), 40);
        assert_eq!(size_of::<WriteIn>(), 40);
        assert_eq!(size_of::<StatFsOut>(), 80);
        assert_eq!(size_of::<LockIn>(), 48);
        assert_eq!(size_of::<InitOut>(), 64);
        assert_eq!(size_of::<DirEntry>(), 24);
        assert_eq!(size_of::<BackingMap>(), 16);
    }
}
