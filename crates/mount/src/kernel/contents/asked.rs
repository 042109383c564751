//! What the kernel's requests to read and change bytes ask for.
//!
//! **Invariant:** no state; what is not supported is refused, never done in another way.

use std::ops::Range;

use client::{Errno, Result};
use fuse::abi::WriteIn;
use rustix::fs::{FallocateFlags, OFlags};
use wire::data::message::AllocateMode;

use crate::kernel::pages::PAGE_BYTES;

/// The whole pages that `len` bytes from `offset` on lie in.
pub fn pages_of(offset: u64, len: u64) -> Range<u64> {
    let end = offset.saturating_add(len).checked_next_multiple_of(PAGE_BYTES).unwrap_or(u64::MAX);
    offset - offset % PAGE_BYTES..end
}

/// Whether a write goes to the end, wherever that is.
pub fn appends(write: &WriteIn) -> bool {
    OFlags::from_bits_retain(write.flags).contains(OFlags::APPEND)
}

/// What `fallocate` asks for, one after the other.
pub fn allocate_modes(mode: u32) -> Result<&'static [AllocateMode]> {
    let (flags, keep) = (FallocateFlags::from_bits_retain(mode), FallocateFlags::KEEP_SIZE);
    if flags.is_empty() {
        Ok(&[AllocateMode::Grow])
    } else if flags == keep {
        Ok(&[AllocateMode::KeepSize])
    } else if flags == FallocateFlags::PUNCH_HOLE | keep {
        Ok(&[AllocateMode::PunchHole])
    } else if flags == FallocateFlags::ZERO_RANGE | keep {
        Ok(&[AllocateMode::Zero])
    } else if flags == FallocateFlags::ZERO_RANGE {
        Ok(&[AllocateMode::Zero, AllocateMode::Grow])
    } else {
        Err(Errno::OPNOTSUPP)
    }
}
