//! Damaged objects are made good from their other copy: in one block after the other, each of them only where the other
//! copy's bytes match the seal that is here.
//!
//! An object that is gone or has another length is first given the length that it had: what it lacks are then blocks
//! that do not match.
//!
//! **Invariant:** a block is written to only while its object's guard is locked, and while that knows the block:
//! whoever changes it has not begun, or has said so before. What was handed out is not repaired: whoever has it says
//! nothing.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;

use rustix::fs::{Timespec, Timestamps, UTIME_OMIT};

use super::guard::{Guard, State};
use super::report::Fault;
use super::{BLOCK, CHUNK_BLOCKS, sum_of};
use crate::extents::BLOCK_BYTES;

impl Guard {
    /// Those of `blocks` that do not match their sums, as ranges of at most one chunk; with `all`, every one that has a
    /// sum, whatever the page cache says.
    pub fn to_repair(&self, file: &File, blocks: Range<u64>, all: bool) -> Vec<Range<u64>> {
        let mut runs: Vec<Range<u64>> = Vec::new();
        for block in blocks {
            let state = self.lock();
            if state.handed.is_some() {
                return Vec::new();
            }
            if state.knows(file, block).is_none() || (!all && state.check(self.ino(), file, block).is_ok()) {
                continue;
            }
            match runs.last_mut() {
                Some(run) if run.end == block && run.end - run.start < CHUNK_BLOCKS => run.end += 1,
                _ => runs.push(block..block + 1),
            }
        }
        runs
    }

    /// Makes a block what the other copy has, if that is what was sealed. Whether it is.
    ///
    /// # Errors
    /// The errno of the write.
    pub fn repair(&self, file: &File, block: u64, bytes: &[u8]) -> io::Result<bool> {
        let state = self.lock();
        if state.handed.is_some() {
            return Ok(false);
        }
        let sums = state.knows(file, block).and_then(|seal| seal.sums(block / CHUNK_BLOCKS).ok());
        if sums.is_none_or(|sums| sums[(block % CHUNK_BLOCKS) as usize] != sum_of(bytes)) {
            return Ok(false);
        }
        let start = block * BLOCK_BYTES;
        if state.broken.is_some() || !restore_length(&state, file)? {
            return Ok(false);
        }
        let length = file.metadata()?.len();
        if start >= length {
            return Ok(false);
        }
        let mut whole = [0; BLOCK];
        whole[..bytes.len()].copy_from_slice(bytes);
        let within = usize::try_from(length - start).unwrap_or(BLOCK).min(BLOCK);
        keep_time(&state, file, || file.write_all_at(&whole[..within], start))?;
        Ok(true)
    }

    /// Gives an object back the length that it was sealed with, if nobody has changed what it has lost. Whether it has
    /// it.
    ///
    /// # Errors
    /// The errno of what failed.
    pub fn repair_length(&self, file: &File) -> io::Result<bool> {
        let mut state = self.lock();
        let is_restored = match state.broken {
            None => true,
            Some(Fault::Length { .. }) => restore_length(&state, file)?,
            Some(_) => false,
        };
        if is_restored {
            state.broken = None;
        }
        Ok(is_restored)
    }

    /// Whether all of it is as it was sealed, as far as anybody knows.
    pub fn is_untouched(&self) -> bool {
        let state = self.lock();
        state.base.is_some() && state.touched.blocks() == 0 && !state.is_written()
    }
}

/// Gives an object the length that it was sealed with, where that is known: it lacks blocks from then on. Whether it
/// has the length that it should have.
fn restore_length(state: &State, file: &File) -> io::Result<bool> {
    let (Some(base), None) = (&state.base, state.handed) else { return Ok(state.broken.is_none()) };
    let (is, was) = (file.metadata()?.len(), base.length);
    if is == was || state.broken.is_none() && base.fault_of_length(&state.touched, is).is_none() {
        return Ok(true);
    }
    let lost = is.min(was) / BLOCK_BYTES..was.max(is).div_ceil(BLOCK_BYTES);
    if state.is_written() || state.touched.missing(lost.clone()) != lost.end - lost.start {
        return Ok(false);
    }
    file.set_len(was)?;
    set_time(file, base.mtime)?;
    Ok(true)
}

/// Does something to an object that is no change of it. Whoever changes other parts of it sets its time anyway.
fn keep_time(state: &State, file: &File, act: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
    let before = rustix::fs::fstat(file)?;
    act()?;
    if state.is_written() {
        return Ok(());
    }
    set_time(file, (before.st_mtime, u32::try_from(before.st_mtime_nsec).unwrap_or(0)))
}

/// Sets an object's time of change.
pub fn set_time(file: &File, (seconds, nanos): (i64, u32)) -> io::Result<()> {
    let omitted = Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT };
    let changed = Timespec { tv_sec: seconds, tv_nsec: i64::from(nanos) };
    let times = Timestamps { last_access: omitted, last_modification: changed };
    Ok(rustix::fs::futimens(file, &times)?)
}
