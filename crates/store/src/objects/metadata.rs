//! How much metadata the namespaces may have that have their home in a fragment: a share of its capacity, beside that.
//!
//! **Invariant:** what takes none is never refused.

use std::sync::atomic::{AtomicU64, Ordering};

use rustix::io::Errno;

/// One byte of metadata for so many of capacity.
const CAPACITY_FOR_ONE: u64 = 8;

/// However small the capacity is, bytes: a million files.
const BYTES_MIN: u64 = 256 << 20;

/// The metadata of one fragment, bytes as their tree weighs them.
#[derive(Debug)]
pub struct Metadata {
    max: u64,
    used: AtomicU64,
}

impl Metadata {
    /// Beside so much capacity.
    pub(super) fn beside(capacity: u64) -> Metadata {
        Metadata { max: (capacity / CAPACITY_FOR_ONE).max(BYTES_MIN), used: AtomicU64::new(0) }
    }

    /// Bytes that there are.
    pub fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    /// Bytes that there may be.
    pub fn max(&self) -> u64 {
        self.max
    }

    /// Whether so many more may come. (Namespaces that ask at one moment may each get the last of it.)
    ///
    /// # Errors
    /// ENOSPC.
    pub fn admit(&self, more: u64) -> Result<(), Errno> {
        let fits = more == 0 || self.used().checked_add(more).is_some_and(|sum| sum <= self.max);
        if fits { Ok(()) } else { Err(Errno::NOSPC) }
    }

    /// One of the namespaces has `after` now, and had `before`.
    pub fn changed(&self, before: u64, after: u64) {
        if after >= before {
            self.used.fetch_add(after - before, Ordering::Relaxed);
        } else {
            self.used.fetch_sub(before - after, Ordering::Relaxed);
        }
    }
}
