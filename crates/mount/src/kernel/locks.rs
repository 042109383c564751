//! Locks: `fcntl` ranges and `flock`.
//!
//! Whoever waits for one has a thread of its own, so that those who would give it up are still served.

use std::sync::Arc;

use client::{Errno, FileLock, LockKind, Result};
use fuse::abi::{self, LOCK_FLOCK, LockIn, RELEASE_FLOCK_UNLOCK, ReleaseIn};
use fuse::reply::Reply;
use fuse::request::Request;
use model::Ino;

use super::{Kernel, done};
use crate::view::MountView;

/// How many may wait for locks at once; each has a thread. One more is told ENOLCK.
pub(super) const WAITING_MAX: usize = 1024;

/// `l_type` of fcntl(2).
const READ_LOCK: u32 = 0;
const WRITE_LOCK: u32 = 1;
const UNLOCK: u32 = 2;

impl Kernel {
    pub(super) fn test_lock(&self, request: &Request<'_>, asked: &LockIn, reply: Reply) {
        let lock = match file_lock(asked) {
            Ok(lock) => lock,
            Err(errno) => return reply.error(errno),
        };
        let (ino, owner, unlocked) =
            (Ino::from(request.ino()), owner_of(asked), abi::FileLock { kind: UNLOCK, ..asked.lock });
        match self.namespace.client().test_lock(ino, owner, &lock) {
            Err(Errno::INPROGRESS) => {}
            known => return tested(known, &unlocked, reply),
        }
        let (namespace, cancel) = (Arc::clone(&self.namespace), request.cancellable());
        let found = move || namespace.client().wait_test_lock(ino, owner, &lock, &|| cancel.is_cancelled());
        self.wait(reply, move |reply| tested(found(), &unlocked, reply));
    }

    /// Does what may take long, and answers then.
    fn wait(&self, reply: Reply, work: impl FnOnce(Reply) + Send + 'static) {
        let Some(place) = self.waiting.enter() else { return reply.error(Errno::NOLCK) };
        let wait = move || {
            work(reply);
            drop(place);
        };
        // Without a thread the closure is dropped and the reply in it, which answers the request.
        if let Err(error) = std::thread::Builder::new().name("lock".into()).spawn(wait) {
            tracing::warn!(%error, "no thread to wait for a lock");
        }
    }

    fn set_lock(&self, ino: Ino, asked: &LockIn) -> Result<()> {
        let lock = file_lock(asked)?;
        if lock.kind == LockKind::Unlock {
            return self.unlock(ino, owner_of(asked), &lock, asked.fh);
        }
        settle_before(&self.namespace, ino, &lock);
        self.namespace.client().set_lock(ino, owner_of(asked), &lock)?;
        self.ledger.locked(ino, owner_of(asked), &lock, asked.fh);
        Ok(())
    }

    /// In the ledger first: a successor must not claim what may be another's already. Before that, whatever was written
    /// under the lock: what a successor does not claim it must have nothing left to send of.
    fn unlock(&self, ino: Ino, owner: u64, lock: &FileLock, handle: u64) -> Result<()> {
        self.namespace.settle(ino);
        self.ledger.locked(ino, owner, lock, handle);
        self.namespace.client().set_lock(ino, owner, lock)
    }

    /// A file is closed by a process, perhaps not for good: its range locks end.
    pub(super) fn release_ranges(&self, ino: Ino, owner: u64) -> Result<()> {
        self.namespace.settle(ino);
        self.ledger.unlocked(ino, owner);
        self.namespace.client().release_locks(ino, owner)
    }

    pub(super) fn lock(&self, request: &Request<'_>, asked: &LockIn, blocking: bool, reply: Reply) {
        let ino = Ino::from(request.ino());
        match self.set_lock(ino, asked) {
            Err(Errno::AGAIN) if blocking => {}
            Err(Errno::INPROGRESS) => {}
            at_once => return done(at_once, reply),
        }
        let lock = match file_lock(asked) {
            Ok(lock) => lock,
            Err(errno) => return reply.error(errno),
        };
        let (namespace, ledger) = (Arc::clone(&self.namespace), Arc::clone(&self.ledger));
        let (owner, handle, cancel) = (owner_of(asked), asked.fh, request.cancellable());
        self.wait(reply, move |reply| {
            settle_before(&namespace, ino, &lock);
            let granted =
                namespace.client().wait_lock(ino, owner, &lock, blocking, &|| cancel.is_cancelled());
            done(granted.map(|()| ledger.locked(ino, owner, &lock, handle)), reply);
        });
    }

    /// A handle is closed for good: so end its `flock`, and the range locks that belong to it and not to a process
    /// (`F_OFD_SETLK`), of which the kernel says nothing. Those of processes are gone by now, as each has closed the
    /// handle. What was locked through other handles stays: this close may arrive after the kernel gave another open
    /// file the address of this one, and with it the name of the owner.
    pub(super) fn release_locks(&self, ino: Ino, release: &ReleaseIn) -> Result<()> {
        let mut taken = self.ledger.taken_through(ino, release.fh);
        let is_known = taken.iter().any(|(_, lock)| lock.whole_file);
        if release.release_flags & RELEASE_FLOCK_UNLOCK != 0 && !is_known {
            // It asked for one, and may have it: the answer may not have arrived.
            let whole =
                FileLock { kind: LockKind::Unlock, start: 0, end: u64::MAX, pid: 0, whole_file: true };
            taken.push((release.fh, whole));
        }
        let give_up = |(owner, lock): (u64, FileLock)| {
            self.unlock(ino, owner, &FileLock { kind: LockKind::Unlock, ..lock }, release.fh)
        };
        taken.into_iter().map(give_up).fold(Ok(()), Result::and)
    }
}

/// Answers who is in the way of a lock.
fn tested(found: Result<Option<FileLock>>, unlocked: &abi::FileLock, reply: Reply) {
    match found {
        Ok(Some(lock)) => reply.lock(&kernel_lock(&lock)),
        Ok(None) => reply.lock(unlocked),
        Err(errno) => reply.error(errno),
    }
}

/// Who owns a lock. One of a whole file is its handle's: the kernel names the address of the open file, which it gives
/// to the next one while it still has to tell of the close of this one.
fn owner_of(asked: &LockIn) -> u64 {
    if asked.lk_flags & LOCK_FLOCK != 0 { asked.fh } else { asked.owner }
}

/// Whoever is let in by a lock that becomes shared must see what was written under it.
fn settle_before(namespace: &MountView, ino: Ino, lock: &FileLock) {
    if lock.kind == LockKind::Shared {
        namespace.settle(ino);
    }
}

fn file_lock(asked: &LockIn) -> Result<FileLock> {
    let kind = match asked.lock.kind {
        READ_LOCK => LockKind::Shared,
        WRITE_LOCK => LockKind::Exclusive,
        UNLOCK => LockKind::Unlock,
        _ => return Err(Errno::INVAL),
    };
    let whole_file = asked.lk_flags & LOCK_FLOCK != 0;
    Ok(FileLock { kind, start: asked.lock.start, end: asked.lock.end, pid: asked.lock.pid, whole_file })
}

fn kernel_lock(lock: &FileLock) -> abi::FileLock {
    let kind = match lock.kind {
        LockKind::Shared => READ_LOCK,
        LockKind::Exclusive => WRITE_LOCK,
        LockKind::Unlock => UNLOCK,
    };
    abi::FileLock { start: lock.start, end: lock.end, kind, pid: lock.pid }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_survives_both_ways() {
        for kind in [READ_LOCK, WRITE_LOCK, UNLOCK] {
            let lock = abi::FileLock { start: 5, end: 9, kind, pid: 7 };
            let asked = LockIn { lock, ..LockIn::default() };
            assert_eq!(kernel_lock(&file_lock(&asked).unwrap()), lock);
        }
        let strange = LockIn { lock: abi::FileLock { kind: 77, ..Default::default() }, ..LockIn::default() };
        assert_eq!(file_lock(&strange), Err(Errno::INVAL));
    }
}
