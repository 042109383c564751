//! How whoever follows a log learns how far it goes, and that it has grown, at no cost while he is busy with what he
//! knows of.
//!
//! **Invariant:** who says that he waits, and then finds nothing new under the lock that appends are made under, is
//! told of the next one.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::Thread;

use crate::log_folder::LogFile;

/// How far a log goes.
#[derive(Clone, Debug)]
pub struct Extent {
    /// The file.
    pub file: Arc<dyn LogFile>,
    /// Which of the files that had the name since the shard was opened.
    pub generation: u64,
    /// Its length, bytes.
    pub length: u64,
    /// The next entry's sequence number.
    pub next: u64,
    /// Everything before this entry was synced wherever it has to be.
    pub confirmed: u64,
}

/// Between the log and the one thread that follows it.
#[derive(Debug, Default)]
pub struct Growth {
    waiting: AtomicBool,
    follower: OnceLock<Thread>,
}

impl Growth {
    /// This thread follows the log.
    pub fn follow(&self) {
        let _first = self.follower.set(std::thread::current());
    }

    /// The follower waits from now on.
    pub fn wait(&self) {
        self.waiting.store(true, Ordering::Release);
    }

    /// The log has grown.
    pub fn tell(&self) {
        if self.waiting.load(Ordering::Acquire) {
            self.wake();
        }
    }

    /// Wakes the follower, whatever there is.
    pub fn wake(&self) {
        self.waiting.store(false, Ordering::Release);
        self.follower.get().into_iter().for_each(Thread::unpark);
    }
}
