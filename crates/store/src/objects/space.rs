//! How much a fragment may hold, and who keeps it to that.
//!
//! **Invariant:** what takes space is admitted here, or by the kernel. Where we count, nobody else may write: leave for
//! that is an [`Unseen`], and there is none.

use std::io;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::io::Errno;
use wire::node::FragmentSpec;

use super::metadata::Metadata;
use crate::extents::BLOCK_BYTES;

/// The space of one fragment.
#[derive(Debug)]
pub struct Space {
    /// Bytes that fit.
    capacity: u64,
    kept: Kept,
    metadata: Metadata,
}

/// Who keeps a fragment to its capacity.
#[derive(Debug)]
enum Kept {
    /// A plain folder: we count bytes and refuse what does not fit.
    ByUs { used: AtomicU64 },
    /// A file system of the right size: the kernel refuses what does not fit, also behind our back.
    ByTheKernel {
        mountpoint: PathBuf,
        /// Bytes available in it when it was empty.
        empty: u64,
    },
}

/// Leave to write past us. Only [`Space::admit_unseen`] gives it.
#[derive(Debug)]
pub struct Unseen(());

impl Space {
    /// Space for `capacity` bytes in a plain folder.
    pub fn counted(capacity: u64) -> Space {
        Space { capacity, kept: Kept::ByUs { used: AtomicU64::new(0) }, metadata: Metadata::beside(capacity) }
    }

    /// Space for `capacity` bytes in a file system of that size at `mountpoint`, which had `empty` bytes available when
    /// it was empty.
    pub fn volume(capacity: u64, mountpoint: PathBuf, empty: u64) -> Space {
        let metadata = Metadata::beside(capacity);
        Space { capacity, kept: Kept::ByTheKernel { mountpoint, empty }, metadata }
    }

    /// The space of the fragment that `spec` describes; `volume` is that of its own file system, where it has one. If
    /// the mirror of another fragment is in that too, it does not say which of them takes how much of it.
    pub fn of(spec: &FragmentSpec, volume: Option<Space>) -> Space {
        volume.filter(|_| !spec.behaviour.mirrored).unwrap_or_else(|| Space::counted(spec.capacity_bytes))
    }

    /// Bytes that fit.
    pub fn capacity(&self) -> u64 {
        self.capacity
    }

    /// The metadata that has its home beside.
    pub fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    /// Bytes in use.
    ///
    /// # Errors
    /// The errno of `statvfs` on the volume.
    pub fn used(&self) -> io::Result<u64> {
        match &self.kept {
            Kept::ByUs { used } => Ok(used.load(Ordering::Relaxed)),
            Kept::ByTheKernel { mountpoint, empty } => {
                let stat = rustix::fs::statvfs(mountpoint)?;
                Ok(empty.saturating_sub(stat.f_bavail * stat.f_frsize).min(self.capacity))
            }
        }
    }

    /// Whether we count (and so need each object's extents).
    pub fn counts(&self) -> bool {
        matches!(self.kept, Kept::ByUs { .. })
    }

    /// Admits a change that touches `blocks`; `missing` tells how many of them are more than before. Replies how many
    /// are taken.
    ///
    /// # Errors
    /// ENOSPC when they do not fit; what `missing` fails with.
    pub(super) fn admit(
        &self,
        blocks: &Range<u64>,
        missing: impl FnOnce() -> io::Result<u64>,
    ) -> io::Result<u64> {
        let Kept::ByUs { used } = &self.kept else { return Ok(0) };
        if blocks.is_empty() {
            return Ok(0);
        }
        let blocks = missing()?;
        let bytes = blocks.saturating_mul(BLOCK_BYTES);
        let more = |used: u64| used.checked_add(bytes).filter(|sum| *sum <= self.capacity);
        let taken = used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
        taken.map(|_| blocks).map_err(|_| Errno::NOSPC.into())
    }

    /// Admits somebody who writes past us, as who is given an object does: the kernel keeps him to the capacity.
    ///
    /// # Errors
    /// ENOTSUP where we count: nobody else would refuse what does not fit.
    pub(super) fn admit_unseen(&self) -> Result<Unseen, Errno> {
        match self.kept {
            Kept::ByUs { .. } => Err(Errno::NOTSUP),
            Kept::ByTheKernel { .. } => Ok(Unseen(())),
        }
    }

    /// Counts what is there already, even past the capacity.
    pub(super) fn take_existing(&self, blocks: u64) {
        if let Kept::ByUs { used } = &self.kept {
            used.fetch_add(blocks * BLOCK_BYTES, Ordering::Relaxed);
        }
    }

    /// Gives `blocks` back.
    pub(super) fn give_back(&self, blocks: u64) {
        if let Kept::ByUs { used } = &self.kept {
            // Never below nothing: a count that went wrong must not make the buffer full.
            let bytes = blocks.saturating_mul(BLOCK_BYTES);
            let less = |used: u64| Some(used.saturating_sub(bytes));
            let _always = used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
        }
    }
}
