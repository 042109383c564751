//! Reads that are checked: every block of the answer that somebody has summed and nobody has changed since.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::sync::Arc;

use super::guard::Guard;
use super::log::Sums;
use super::report::Fault;
use super::{BLOCK, CHUNK_BLOCKS, CHUNK_BYTES, SUM_OF_ZEROS, Seal, sum_of};
use crate::extents::{BLOCK_BYTES, blocks_touched};

/// What a read is compared with: taken before it, as a change may begin while it is under way.
#[derive(Debug)]
pub struct Expected {
    seal: Arc<Seal>,
    first: u64,
    /// Blocks from the first that are not known.
    changed: Option<Vec<bool>>,
    /// The object is as long as the seal says.
    whole: bool,
}

impl Expected {
    /// How long the object was when it was sealed.
    pub fn length(&self) -> u64 {
        self.seal.length
    }
}

impl Guard {
    /// What the bytes of the object should be; `None` where nothing is known of them.
    ///
    /// # Errors
    /// EIO where the object as a whole is not what was sealed.
    pub fn expected(&self, file: &File, bytes: Range<u64>) -> io::Result<Option<Expected>> {
        let state = self.lock();
        if let Some(fault) = &state.broken {
            return Err(fault.error(self.ino()));
        }
        let Some(base) = state.seal(file) else { return Ok(None) };
        let blocks = blocks_touched(bytes);
        let untouched = state.touched.missing(blocks.clone()) == blocks.end - blocks.start;
        let changed = (!untouched).then(|| blocks.clone().map(|block| state.is_touched(block)).collect());
        let whole = state.touched.blocks() == 0;
        Ok(Some(Expected { seal: base.clone(), first: blocks.start, changed, whole }))
    }

    /// Compares what was read from `offset` on.
    ///
    /// # Errors
    /// EIO where a block is not what was sealed; the errno of reading it again.
    pub fn verify(&self, file: &File, expected: &Expected, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        let blocks = blocks_touched(offset..offset + bytes.len() as u64);
        let mut sums: Option<(u64, Sums)> = None;
        for block in blocks {
            let is_changed = |changed: &Vec<bool>| changed[(block - expected.first) as usize];
            if expected.changed.as_ref().is_some_and(is_changed) {
                continue;
            }
            let chunk = block / CHUNK_BLOCKS;
            if sums.as_ref().is_none_or(|(index, _)| *index != chunk) {
                // Damaged sums are found again, and reported, by the closer look.
                sums = expected.seal.sums(chunk).ok().map(|sums| (chunk, sums));
            }
            let sum = sums.as_ref().map(|(_, sums)| sums[(block % CHUNK_BLOCKS) as usize]);
            // What the answer has of the block, and where.
            let start = (block * BLOCK_BYTES).max(offset);
            let end = ((block + 1) * BLOCK_BYTES).min(offset + bytes.len() as u64);
            let part = &mut bytes[(start - offset) as usize..(end - offset) as usize];
            // A block of the object's last bytes is whole, too.
            let is_whole = part.len() == BLOCK
                || (start.is_multiple_of(BLOCK_BYTES) && expected.whole && end == expected.seal.length);
            if !is_whole || sum != Some(sum_of(part)) {
                let skip = (start % BLOCK_BYTES) as usize;
                let read = self.look_closer(file, block)?;
                part.copy_from_slice(&read[skip..skip + part.len()]);
            }
        }
        Ok(())
    }

    /// Reads and checks a block while nobody can change it whom we know of.
    fn look_closer(&self, file: &File, block: u64) -> io::Result<[u8; BLOCK]> {
        self.lock().check(self.ino(), file, block)
    }

    /// The first part of `range`, which is a hole or beyond the end, that had bytes when it was sealed and that nobody
    /// has changed since: it is lost, and whoever reads it is told so. It is never empty.
    ///
    /// # Errors
    /// EIO where the sums are damaged.
    pub fn lost_data(&self, file: &File, range: Range<u64>) -> io::Result<Option<Range<u64>>> {
        let state = self.lock();
        let Some(seal) = state.seal(file) else { return Ok(None) };
        let end = range.end.min(seal.length);
        if range.start >= end {
            // Or its block, which may be whole, would be taken for it.
            return Ok(None);
        }
        for chunk in seal.summed(range.start / CHUNK_BYTES) {
            let first = chunk.index * CHUNK_BLOCKS;
            let inside =
                first.max(range.start / BLOCK_BYTES)..(first + CHUNK_BLOCKS).min(end.div_ceil(BLOCK_BYTES));
            if inside.is_empty() {
                break;
            }
            let sums = seal.sums(chunk.index).map_err(|_| Fault::Sums { block: first }.error(self.ino()))?;
            let had_bytes =
                |block: &u64| sums[(block - first) as usize] != SUM_OF_ZEROS && !state.is_touched(*block);
            if let Some(block) = inside.clone().find(had_bytes) {
                let start = (block * BLOCK_BYTES).max(range.start);
                return Ok(Some(start..((block + 1) * BLOCK_BYTES).min(end)));
            }
        }
        Ok(None)
    }
}
