//! A regular file as blocks of 1 MiB: their checksums, and how the work on them is divided.
//!
//! ```text
//! blocks           | 0 | 1 | 2 | ... | 15 | 16 | 17 | ...
//! by chunks          \______ unit ______/   \____ unit ...       what is copied by this host alone
//! by fragments       unit of fragment 0: 0, 2, 4, ... 30         what storage nodes copy, each its own stripes
//!                    unit of fragment 1: 1, 3, 5, ... 31
//! ```

use std::ops::Range;

use model::Ino;
use model::stripe::Layout;

use crate::checksum::Checksum;

/// What is read and written at once, the largest request of the data path; and a stripe.
pub(crate) const BLOCK_BYTES: u64 = 1 << 20;

/// Blocks in a unit: what a worker copies before it takes the next, and what at most is copied again by each worker
/// after it was killed.
pub(crate) const UNIT_BLOCKS: usize = 16;

/// Bytes in a unit. Files up to this size are copied by one worker, from start to end.
pub(crate) const UNIT_BYTES: u64 = BLOCK_BYTES * UNIT_BLOCKS as u64;

/// Blocks that are worked on together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Unit {
    /// The fragment that they are on, if it is one.
    pub(crate) home: Option<u32>,
    /// Consecutive blocks each, in order.
    pub(crate) runs: Vec<Range<usize>>,
}

/// How many blocks a file has.
pub(crate) fn count(size: u64) -> usize {
    usize::try_from(size.div_ceil(BLOCK_BYTES)).expect("Forebay runs on 64-bit machines")
}

/// The bytes of some blocks of a file.
pub(crate) fn bytes(run: &Range<usize>, size: u64) -> Range<u64> {
    let at = |block: usize| size.min(u64::try_from(block).expect("an index fits 64 bits") * BLOCK_BYTES);
    at(run.start)..at(run.end)
}

impl Unit {
    /// The numbers of its blocks.
    pub(crate) fn blocks(&self) -> impl Iterator<Item = usize> + '_ {
        self.runs.iter().cloned().flatten()
    }

    /// Bytes in it, of a file of this size.
    pub(crate) fn length(&self, size: u64) -> u64 {
        self.runs.iter().map(|run| bytes(run, size)).map(|range| range.end - range.start).sum()
    }
}

/// Divides those blocks that are `wanted` of a file of this size, in its order.
pub(crate) fn by_chunks(size: u64, wanted: impl Fn(usize) -> bool) -> Vec<Unit> {
    let all = count(size);
    let chunk = |start: usize| Unit { home: None, runs: runs(start..all.min(start + UNIT_BLOCKS), &wanted) };
    (0..all).step_by(UNIT_BLOCKS).map(chunk).filter(|unit| !unit.runs.is_empty()).collect()
}

/// The same for a file of a buffer, so that each unit is on one fragment.
pub(crate) fn by_fragments(
    size: u64,
    layout: &Layout,
    ino: Ino,
    wanted: impl Fn(usize) -> bool,
) -> Vec<Unit> {
    let (all, homes) = (count(size), layout.fragments_of(ino).collect::<Vec<u32>>());
    let width = homes.len();
    if u64::from(layout.stripe_size_bytes) != BLOCK_BYTES || width == 1 {
        let home = homes.first().copied().filter(|_| width == 1);
        return by_chunks(size, wanted).into_iter().map(|unit| Unit { home, ..unit }).collect();
    }
    let mut units = Vec::new();
    for start in (0..all).step_by(UNIT_BLOCKS * width) {
        for (turn, home) in homes.iter().enumerate() {
            let end = all.min(start + UNIT_BLOCKS * width);
            let own = (start + turn..end).step_by(width).filter(|block| wanted(*block));
            let runs: Vec<Range<usize>> = own.map(|block| block..block + 1).collect();
            if !runs.is_empty() {
                units.push(Unit { home: Some(*home), runs });
            }
        }
    }
    units
}

/// The wanted blocks of a range as runs.
fn runs(range: Range<usize>, wanted: &impl Fn(usize) -> bool) -> Vec<Range<usize>> {
    let mut runs: Vec<Range<usize>> = Vec::new();
    for block in range.filter(|block| wanted(*block)) {
        match runs.last_mut() {
            Some(last) if last.end == block => last.end += 1,
            _ => runs.push(block..block + 1),
        }
    }
    runs
}

/// CRC32C of each block of a file.
#[derive(Clone)]
pub(crate) struct Sums {
    size: u64,
    blocks: Vec<u32>,
}

impl Sums {
    /// Nothing is known yet.
    pub(crate) fn new(size: u64) -> Sums {
        Sums { size, blocks: vec![0; count(size)] }
    }

    /// A block's checksum.
    pub(crate) fn of(&self, block: usize) -> u32 {
        self.blocks[block]
    }

    /// Sets the checksums of blocks.
    pub(crate) fn set(&mut self, blocks: impl Iterator<Item = usize>, sums: &[u32]) {
        for (block, sum) in blocks.zip(sums) {
            self.blocks[block] = *sum;
        }
    }

    /// CRC32C of the whole file.
    pub(crate) fn whole(&self) -> u32 {
        let join = |whole: Checksum, (block, part): (usize, &u32)| {
            let Range { start, end } = bytes(&(block..block + 1), self.size);
            whole.then_part(*part, end - start)
        };
        self.blocks.iter().enumerate().fold(Checksum::default(), join).value()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: u64 = 77 * BLOCK_BYTES + 5;

    #[test]
    fn every_wanted_block_is_in_one_unit() {
        let wanted = |block: usize| !block.is_multiple_of(5);
        let layouts = [Layout::striped(1), Layout::striped(3), Layout::whole_files(4)];
        let divided = layouts.iter().map(|layout| by_fragments(SIZE, layout, Ino(7), wanted));
        for units in divided.chain([by_chunks(SIZE, wanted)]) {
            let mut blocks: Vec<usize> = units.iter().flat_map(Unit::blocks).collect();
            blocks.sort_unstable();
            assert_eq!(blocks, (0..78).filter(|block| wanted(*block)).collect::<Vec<_>>());
        }
    }

    #[test]
    fn a_unit_is_where_the_layout_puts_its_blocks() {
        let layout = Layout::striped(3);
        for unit in by_fragments(SIZE, &layout, Ino(7), |_| true) {
            assert!(unit.blocks().count() <= UNIT_BLOCKS);
            for range in unit.runs.iter().map(|run| bytes(run, SIZE)) {
                let pieces: Vec<_> = layout.pieces(Ino(7), range.start, range.end - range.start).collect();
                assert_eq!((pieces.len(), Some(pieces[0].fragment)), (1, unit.home));
            }
        }
    }

    #[test]
    fn the_sums_of_blocks_give_the_sum_of_the_file() {
        let contents: Vec<u8> = (0..2 * BLOCK_BYTES + 3).map(|i| (i * 31 % 251) as u8).collect();
        let mut sums = Sums::new(contents.len() as u64);
        for (block, part) in contents.chunks(BLOCK_BYTES as usize).enumerate() {
            sums.set(std::iter::once(block), &[crc32c::crc32c(part)]);
        }
        assert_eq!(sums.whole(), crc32c::crc32c(&contents));
        assert_eq!(Sums::new(0).whole(), 0);
    }
}
