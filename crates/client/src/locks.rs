//! Locks: the home shard decides about them for all nodes.

use std::sync::Arc;
use std::time::Duration;

use model::Ino;
use rustix::io::Errno;
use wire::data::{FileLock, LockKind, Reply, Request};

use super::{Client, Result};

/// How long one request waits for a lock at the shard; sliced so that a cancellation is noticed.
const WAIT_MS: u32 = 100;

impl Client {
    /// A lock of somebody else that does not go together with `lock`.
    ///
    /// # Errors
    /// EINPROGRESS when a restarted shard does not know yet whether there is one.
    pub fn test_lock(&self, ino: Ino, owner: u64, lock: &FileLock) -> Result<Option<FileLock>> {
        match self.home(&Request::TestLock { ino, owner, lock: *lock })? {
            Reply::Lock(found) => Ok(found),
            _ => Err(Errno::PROTO),
        }
    }

    /// Takes, changes or gives up a lock.
    ///
    /// # Errors
    /// EAGAIN when somebody else's lock is in the way; EINPROGRESS when a restarted shard does not know yet whether one
    /// is.
    pub fn set_lock(&self, ino: Ino, owner: u64, lock: &FileLock) -> Result<()> {
        self.lock_within(ino, owner, lock, 0)
    }

    /// Takes a lock, waiting until it is known whether somebody else's is in the way and, if `blocking`, until none is.
    ///
    /// # Errors
    /// EINTR when `cancelled` says so; it is asked ten times a second.
    pub fn wait_lock(
        &self,
        ino: Ino,
        owner: u64,
        lock: &FileLock,
        blocking: bool,
        cancelled: &dyn Fn() -> bool,
    ) -> Result<()> {
        loop {
            match self.lock_within(ino, owner, lock, WAIT_MS) {
                Err(Errno::AGAIN) if !blocking => return Err(Errno::AGAIN),
                Err(Errno::AGAIN | Errno::INPROGRESS) if cancelled() => return Err(Errno::INTR),
                Err(Errno::AGAIN | Errno::INPROGRESS) => {}
                other => return other,
            }
        }
    }

    /// The same as [`Client::test_lock`], waiting until it is known.
    ///
    /// # Errors
    /// EINTR when `cancelled` says so; it is asked ten times a second.
    pub fn wait_test_lock(
        &self,
        ino: Ino,
        owner: u64,
        lock: &FileLock,
        cancelled: &dyn Fn() -> bool,
    ) -> Result<Option<FileLock>> {
        loop {
            match self.test_lock(ino, owner, lock) {
                Err(Errno::INPROGRESS) if cancelled() => return Err(Errno::INTR),
                Err(Errno::INPROGRESS) => std::thread::sleep(Duration::from_millis(WAIT_MS.into())),
                other => return other,
            }
        }
    }

    /// Gives up every range lock of an owner on a file, as closing it does. Costs nothing when it holds none.
    pub fn release_locks(&self, ino: Ino, owner: u64) -> Result<()> {
        if !self.files().may_hold(ino, owner) {
            return Ok(());
        }
        // Noted first: a shard that is restarted meanwhile may have given them to others already.
        self.files().unlocked(ino, owner);
        self.home(&Request::ReleaseLocks { ino, owner }).map(drop)
    }

    /// Shows the home shard every second that this client lives, from a thread of its own that ends with the client: so
    /// that it keeps its locks over a restart of the shard also while it does nothing else. A second is well within
    /// what a restarted shard waits for locks that it does not know yet.
    ///
    /// # Panics
    /// When the system has no thread left.
    pub fn keep_alive(self: &Arc<Client>) {
        self.every_second("heartbeat", |client| {
            // A shard that does not answer was logged by the call.
            let _logged = client.home(&Request::Ping);
        });
    }

    fn lock_within(&self, ino: Ino, owner: u64, lock: &FileLock, wait_ms: u32) -> Result<()> {
        let request = Request::SetLock { ino, owner, lock: *lock, wait_ms };
        if lock.kind == LockKind::Unlock {
            // Noted first: a shard that is restarted meanwhile may have given it to another already.
            self.files().locked(ino, owner, lock);
        }
        self.home(&request).map(drop)
    }
}
