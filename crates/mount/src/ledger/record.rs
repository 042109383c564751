//! One change, as the ledger's file has it.

use client::{FileLock, LockKind};
use model::{FragmentIndex, Ino};
use zerocopy::{FromBytes, Immutable, IntoBytes};

/// One change. Little more than its fields' numbers; which of them count depends on `kind`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
pub struct Record {
    pub(super) kind: u32,
    pub(super) flags: u32,
    pub(super) unique: u64,
    /// Which inode.
    pub(super) ino: u64,
    /// Of an open: the inode's backing file; 0: it is not passed through.
    pub backing_id: u32,
    /// Of opens: how many; of a lock: the process.
    pub(super) count: u32,
    pub(super) owner: u64,
    /// Of an open that is passed through: the device and the number of the backing file.
    pub(super) start: u64,
    pub(super) end: u64,
    /// Of a lock: the handle that it was taken through.
    pub(super) handle: u64,
}

/// What the kernel has of a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Backing {
    /// Its number; 0: none.
    pub id: u32,
    /// The device and the number of the object; zeros: not known, or none.
    pub object: (u64, u64),
}

/// Kinds of records. Zeros are none.
pub(super) const OPENED: u32 = 1;
pub(super) const CLOSED: u32 = 2;
pub(super) const LOCKED: u32 = 3;
pub(super) const UNLOCKED: u32 = 4;
/// An open or close that is part of the opens already, remembered for its request's sake.
pub(super) const DONE: u32 = 5;
/// A fragment, in `ino`, has a commit verifier, in `start`.
pub(super) const VERIFIER: u32 = 6;
/// A file lost writes when `start` was; `count`: the errno.
pub(super) const FAILED: u32 = 7;
/// The handle `owner` heard of it.
pub(super) const TOLD: u32 = 8;

/// Flags of opens and closes.
pub(super) const WRITE: u32 = 1;
pub(super) const PASSED: u32 = 2;
/// Flags of locks.
pub(super) const SHARED: u32 = 1;
pub(super) const EXCLUSIVE: u32 = 2;
pub(super) const WHOLE_FILE: u32 = 4;

impl Record {
    pub(super) fn opened(unique: u64, ino: Ino, write: bool, backing: Backing) -> Record {
        let flags = if write { WRITE } else { 0 };
        let Backing { id: backing_id, object: (start, end) } = backing;
        let (kind, ino) = (OPENED, ino.into());
        Record { kind, flags, unique, ino, backing_id, count: 1, start, end, ..Record::default() }
    }

    pub(super) fn closed(unique: u64, ino: Ino, write: bool, passed_through: bool) -> Record {
        let flags = if write { WRITE } else { 0 } | if passed_through { PASSED } else { 0 };
        Record { kind: CLOSED, flags, unique, ino: ino.into(), ..Record::default() }
    }

    pub(super) fn locked(ino: Ino, owner: u64, lock: &FileLock, handle: u64) -> Record {
        let kind = match lock.kind {
            LockKind::Shared => SHARED,
            LockKind::Exclusive => EXCLUSIVE,
            LockKind::Unlock => 0,
        };
        let flags = kind | if lock.whole_file { WHOLE_FILE } else { 0 };
        let FileLock { start, end, pid: count, .. } = *lock;
        Record { kind: LOCKED, flags, ino: ino.into(), owner, start, end, count, handle, ..Record::default() }
    }

    pub(super) fn unlocked(ino: Ino, owner: u64) -> Record {
        Record { kind: UNLOCKED, ino: ino.into(), owner, ..Record::default() }
    }

    pub(super) fn verifier(fragment: FragmentIndex, verifier: u64) -> Record {
        Record { kind: VERIFIER, ino: fragment.get().into(), start: verifier, ..Record::default() }
    }

    pub(super) fn failed(ino: Ino, stamp: u64, errno: i32) -> Record {
        Record {
            kind: FAILED,
            ino: ino.into(),
            start: stamp,
            count: errno.unsigned_abs(),
            ..Record::default()
        }
    }

    pub(super) fn told(ino: Ino, handle: u64) -> Record {
        Record { kind: TOLD, ino: ino.into(), owner: handle, ..Record::default() }
    }

    /// Which inode.
    pub fn ino(&self) -> Ino {
        self.ino.into()
    }

    /// Whose commit verifier it is.
    pub(super) fn fragment(&self) -> Option<FragmentIndex> {
        u32::try_from(self.ino).ok().map(FragmentIndex)
    }

    pub(super) fn has(&self, flag: u32) -> bool {
        self.flags & flag != 0
    }

    pub(super) fn lock(&self) -> FileLock {
        let kind = match self.flags & (SHARED | EXCLUSIVE) {
            SHARED => LockKind::Shared,
            EXCLUSIVE => LockKind::Exclusive,
            _ => LockKind::Unlock,
        };
        let whole_file = self.has(WHOLE_FILE);
        FileLock { kind, start: self.start, end: self.end, pid: self.count, whole_file }
    }
}
