//! A regular file as blocks of 1 MiB: their checksums, and how the work on them is divided.
//!
//! ```text
//! blocks           | 0 | 1 | 2 | ... | 15 | 16 | 17 | ...
//! by chunks          \______ unit ______/   \____ unit ...       what is copied by this host alone
//! by fragments       unit of fragment 0: 0, 2, 4, ... 30         what storage nodes copy, each its own stripes
//!                    unit of fragment 1: 1, 3, 5, ... 31
//! ```

use std::ops::Range;

use model::stripe::Layout;
use model::{FragmentIndex, Ino};

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
    pub(crate) home: Option<FragmentIndex>,
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

/// The blocks that have some of these bytes.
pub(crate) fn touched(bytes: &Range<u64>) -> Range<usize> {
    let first = usize::try_from(bytes.start / BLOCK_BYTES).expect("Forebay runs on 64-bit machines");
    first..count(bytes.end)
}

/// How many bytes of a file some blocks are.
pub(crate) fn length(run: &Range<usize>, size: u64) -> u64 {
    let Range { start, end } = bytes(run, size);
    end - start
}

/// Whether a block is in one of some runs in order.
pub(crate) fn has(runs: &[Range<usize>], block: usize) -> bool {
    runs[..runs.partition_point(|run| run.start <= block)].last().is_some_and(|run| block < run.end)
}

/// The blocks of both, as runs in order.
pub(crate) fn union(one: &[Range<usize>], other: &[Range<usize>]) -> Vec<Range<usize>> {
    let mut all = [one, other].concat();
    all.sort_unstable_by_key(|run| run.start);
    let mut joined: Vec<Range<usize>> = Vec::new();
    for run in all {
        match joined.last_mut() {
            Some(last) if last.end >= run.start => last.end = last.end.max(run.end),
            _ => joined.push(run),
        }
    }
    joined
}

impl Unit {
    /// The numbers of its blocks.
    pub(crate) fn blocks(&self) -> impl Iterator<Item = usize> + '_ {
        self.runs.iter().cloned().flatten()
    }

    /// Bytes in it, of a file of this size.
    pub(crate) fn length(&self, size: u64) -> u64 {
        self.runs.iter().map(|run| length(run, size)).sum()
    }
}

/// Divides those blocks of `data`, runs in order, that are `wanted` of a file of this size, in its order.
pub(crate) fn by_chunks(data: &[Range<usize>], wanted: impl Fn(usize) -> bool) -> Vec<Unit> {
    divide(data, UNIT_BLOCKS, |within| vec![(None, runs(within, &wanted))])
}

/// The same for a file of a buffer, so that each unit is on one fragment.
pub(crate) fn by_fragments(
    data: &[Range<usize>],
    layout: &Layout,
    ino: Ino,
    wanted: impl Fn(usize) -> bool,
) -> Vec<Unit> {
    let homes = layout.fragments_of(ino).collect::<Vec<FragmentIndex>>();
    let width = homes.len();
    if u64::from(layout.stripe_size_bytes) != BLOCK_BYTES || width == 1 {
        let home = homes.first().copied().filter(|_| width == 1);
        return by_chunks(data, wanted).into_iter().map(|unit| Unit { home, ..unit }).collect();
    }
    divide(data, UNIT_BLOCKS * width, |within| {
        let one = |(turn, home): (usize, &FragmentIndex)| {
            let first = within.start + (turn + width - within.start % width) % width;
            let own = (first..within.end).step_by(width).filter(|block| wanted(*block));
            (Some(*home), own.map(|block| block..block + 1).collect())
        };
        homes.iter().enumerate().map(one).collect()
    })
}

/// The units of blocks of `data`: of each part of it within `grid` blocks those that `parts` tells, with their homes.
fn divide(
    data: &[Range<usize>],
    grid: usize,
    parts: impl Fn(Range<usize>) -> Vec<(Option<FragmentIndex>, Vec<Range<usize>>)>,
) -> Vec<Unit> {
    let mut units: Vec<Unit> = Vec::new();
    // Units of the same part of the grid as what comes next.
    let (mut open, mut turn) = (0, usize::MAX);
    for run in data {
        let mut at = run.start;
        while at < run.end {
            let end = run.end.min((at / grid + 1) * grid);
            if at / grid != turn {
                (open, turn) = (units.len(), at / grid);
            }
            for (home, runs) in parts(at..end) {
                match units[open..].iter_mut().find(|unit| unit.home == home) {
                    Some(unit) => unit.runs.extend(runs),
                    None if runs.is_empty() => {}
                    None => units.push(Unit { home, runs }),
                }
            }
            at = end;
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

/// CRC32C of each block of a file; those that are all hole are zeros, and take no room.
#[derive(Clone)]
pub(crate) struct Sums {
    size: u64,
    /// Blocks that may have data, from the first on each, in order.
    runs: Vec<(usize, Vec<u32>)>,
}

impl Sums {
    /// Nothing is known yet of the blocks of `data`, runs in order.
    pub(crate) fn new(size: u64, data: &[Range<usize>]) -> Sums {
        Sums { size, runs: data.iter().map(|run| (run.start, vec![0; run.len()])).collect() }
    }

    /// A block's checksum.
    pub(crate) fn of(&self, block: usize) -> u32 {
        let run = self.runs[..self.after(block)].last();
        let sum = run.and_then(|(first, sums)| sums.get(block - first));
        sum.copied()
            .unwrap_or_else(|| Checksum::default().then_zeros(length(&(block..block + 1), self.size)).value())
    }

    /// Sets the checksums of blocks. Those of holes are known.
    pub(crate) fn set(&mut self, blocks: impl Iterator<Item = usize>, sums: &[u32]) {
        for (block, sum) in blocks.zip(sums) {
            let after = self.after(block);
            let run = self.runs[..after].last_mut();
            if let Some(place) = run.and_then(|(first, sums)| sums.get_mut(block - *first)) {
                *place = *sum;
            }
        }
    }

    /// CRC32C of the whole file.
    pub(crate) fn whole(&self) -> u32 {
        let (mut whole, mut at) = (Checksum::default(), 0);
        for (first, sums) in &self.runs {
            let run = bytes(&(*first..first + sums.len()), self.size);
            whole = whole.then_zeros(run.start - at);
            at = run.start;
            for sum in sums {
                let end = run.end.min(at + BLOCK_BYTES);
                whole = whole.then_part(*sum, end - at);
                at = end;
            }
        }
        whole.then_zeros(self.size - at).value()
    }

    /// How many runs begin at the block or before.
    fn after(&self, block: usize) -> usize {
        self.runs.partition_point(|(first, _)| *first <= block)
    }
}

#[cfg(test)]
#[expect(clippy::single_range_in_vec_init, reason = "lists of runs of blocks")]
mod tests {
    use super::*;

    const SIZE: u64 = 77 * BLOCK_BYTES + 5;

    #[test]
    fn every_wanted_block_is_in_one_unit() {
        let wanted = |block: usize| !block.is_multiple_of(5);
        let layouts = [Layout::striped(1), Layout::striped(3), Layout::whole_files(4)];
        for data in [vec![0..78], vec![1..4, 6..7, 13..48, 77..78], Vec::new()] {
            let divided = layouts.iter().map(|layout| by_fragments(&data, layout, Ino(7), wanted));
            for units in divided.chain([by_chunks(&data, wanted)]) {
                let mut blocks: Vec<usize> = units.iter().flat_map(Unit::blocks).collect();
                blocks.sort_unstable();
                let expected = data.iter().cloned().flatten().filter(|block| wanted(*block));
                assert_eq!(blocks, expected.collect::<Vec<_>>());
            }
        }
    }

    #[test]
    fn a_unit_is_where_the_layout_puts_its_blocks() {
        let layout = Layout::striped(3);
        for unit in by_fragments(&[0..78], &layout, Ino(7), |_| true) {
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
        let mut sums = Sums::new(contents.len() as u64, &[0..3]);
        for (block, part) in contents.chunks(BLOCK_BYTES as usize).enumerate() {
            sums.set(std::iter::once(block), &[crc32c::crc32c(part)]);
        }
        assert_eq!(sums.whole(), crc32c::crc32c(&contents));
        assert_eq!(Sums::new(0, &[]).whole(), 0);
    }

    #[test]
    fn runs_are_joined_and_searched() {
        let both = union(&[1..3, 8..9], &[2..4, 4..6, 20..21]);
        assert_eq!(both, [1..6, 8..9, 20..21]);
        let found: Vec<usize> = (0..30).filter(|block| has(&both, *block)).collect();
        assert_eq!(found, [1, 2, 3, 4, 5, 8, 20]);
    }

    #[test]
    fn a_file_of_holes_takes_as_much_room_and_work_as_it_has_data() {
        let (size, last) = (1 << 62, count(1 << 62) - 1);
        let data = [3..5, last..last + 1];
        let units = by_chunks(&data, |_| true);
        assert_eq!(units.iter().map(|unit| unit.runs[0].clone()).collect::<Vec<_>>(), data);
        let mut sums = Sums::new(size, &data);
        sums.set([4, 1000].into_iter(), &[11, 12]);
        let zeros = Checksum::default().then_zeros(BLOCK_BYTES).value();
        assert_eq!([0, 3, 4, 1000].map(|block| sums.of(block)), [zeros, 0, 11, zeros]);
    }

    #[test]
    fn holes_count_as_zeros_in_the_sum_of_the_file() {
        let mut contents = vec![0; 5 * BLOCK_BYTES as usize + 3];
        contents[2 * BLOCK_BYTES as usize..3 * BLOCK_BYTES as usize].fill(7);
        let mut sums = Sums::new(contents.len() as u64, &[2..3]);
        sums.set(std::iter::once(2), &[crc32c::crc32c(&[7; BLOCK_BYTES as usize])]);
        assert_eq!(sums.whole(), crc32c::crc32c(&contents));
        assert_eq!(sums.of(5), crc32c::crc32c(&[0; 3]));
    }
}
