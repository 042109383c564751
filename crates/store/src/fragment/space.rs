//! How much a fragment may hold, and who keeps it to that.

use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::io::Errno;

use super::extents::BLOCK_BYTES;

/// The space of one fragment.
#[derive(Debug)]
pub enum Space {
    /// A plain folder: we count blocks and refuse what does not fit.
    Counted {
        /// Bytes that fit.
        capacity: u64,
        /// Bytes counted.
        used: AtomicU64,
    },
    /// A file system of the right size: the kernel refuses what does not fit, also behind our back.
    Volume {
        /// Bytes that fit.
        capacity: u64,
        /// Where it is mounted.
        mountpoint: PathBuf,
        /// Bytes available in it when it was empty.
        empty: u64,
    },
}

impl Space {
    /// Space for `capacity` bytes in a plain folder.
    pub fn counted(capacity: u64) -> Space {
        Space::Counted { capacity, used: AtomicU64::new(0) }
    }

    /// Bytes that fit.
    pub fn capacity(&self) -> u64 {
        match self {
            Space::Counted { capacity, .. } | Space::Volume { capacity, .. } => *capacity,
        }
    }

    /// Bytes in use.
    ///
    /// # Errors
    /// The errno of `statvfs` on the volume.
    pub fn used(&self) -> io::Result<u64> {
        match self {
            Space::Counted { used, .. } => Ok(used.load(Ordering::Relaxed)),
            Space::Volume { capacity, mountpoint, empty } => {
                let stat = rustix::fs::statvfs(mountpoint)?;
                Ok(empty.saturating_sub(stat.f_bavail * stat.f_frsize).min(*capacity))
            }
        }
    }

    /// Whether we count (and so need each object's extents).
    pub fn counts(&self) -> bool {
        matches!(self, Space::Counted { .. })
    }

    /// Takes `blocks` more.
    ///
    /// # Errors
    /// ENOSPC when they do not fit.
    pub fn take(&self, blocks: u64) -> Result<(), Errno> {
        let Space::Counted { capacity, used } = self else { return Ok(()) };
        let bytes = blocks.saturating_mul(BLOCK_BYTES);
        used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |used| {
            used.checked_add(bytes).filter(|sum| sum <= capacity)
        })
        .map(drop)
        .map_err(|_| Errno::NOSPC)
    }

    /// Counts what is there already, even past the capacity.
    pub fn take_existing(&self, blocks: u64) {
        if let Space::Counted { used, .. } = self {
            used.fetch_add(blocks * BLOCK_BYTES, Ordering::Relaxed);
        }
    }

    /// Gives `blocks` back.
    pub fn give_back(&self, blocks: u64) {
        if let Space::Counted { used, .. } = self {
            // Never below nothing: a count that went wrong must not make the buffer full.
            let bytes = blocks.saturating_mul(BLOCK_BYTES);
            let less = |used: u64| Some(used.saturating_sub(bytes));
            let _always = used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
        }
    }
}
