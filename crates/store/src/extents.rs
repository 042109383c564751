//! Which blocks of an object hold data: how a fragment in a plain folder knows what it has used.
//!
//! Pure. Asking the file system instead (`st_blocks`) would count XFS's speculative preallocation, which is given back
//! only later, and so refuse writes that fit.

use std::collections::BTreeMap;
use std::ops::Range;

/// Space is counted in blocks of this many bytes, the smallest unit that ext4 and XFS allocate by default.
pub const BLOCK_BYTES: u64 = 4096;

/// A set of blocks, as disjoint ranges that do not touch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Extents {
    /// First block -> block after the last.
    ranges: BTreeMap<u64, u64>,
    blocks: u64,
}

/// The blocks that the byte range touches.
pub fn blocks_touched(bytes: Range<u64>) -> Range<u64> {
    if bytes.is_empty() {
        return 0..0;
    }
    bytes.start / BLOCK_BYTES..bytes.end.div_ceil(BLOCK_BYTES)
}

/// The blocks that lie wholly in the byte range.
pub fn blocks_inside(bytes: Range<u64>) -> Range<u64> {
    let range = bytes.start.div_ceil(BLOCK_BYTES)..bytes.end / BLOCK_BYTES;
    if range.is_empty() { 0..0 } else { range }
}

impl Extents {
    /// How many blocks are in the set.
    pub fn blocks(&self) -> u64 {
        self.blocks
    }

    /// How many ranges make up the set.
    pub fn pieces(&self) -> usize {
        self.ranges.len()
    }

    /// How many blocks of `range` are not in the set.
    pub fn missing(&self, range: Range<u64>) -> u64 {
        let present: u64 =
            self.overlapping(&range).map(|(start, end)| end.min(range.end) - start.max(range.start)).sum();
        range.end.saturating_sub(range.start) - present
    }

    /// Puts `range` into the set.
    pub fn insert(&mut self, range: Range<u64>) {
        if range.is_empty() {
            return;
        }
        // Ranges that only touch are merged too, so that a file written front to back stays one range.
        let touching: Vec<(u64, u64)> =
            self.overlapping(&(range.start.saturating_sub(1)..range.end + 1)).collect();
        let (mut start, mut end) = (range.start, range.end);
        for (old_start, old_end) in touching {
            self.ranges.remove(&old_start);
            self.blocks -= old_end - old_start;
            start = start.min(old_start);
            end = end.max(old_end);
        }
        self.ranges.insert(start, end);
        self.blocks += end - start;
    }

    /// Takes `range` out of the set. Returns how many blocks that freed.
    pub fn remove(&mut self, range: Range<u64>) -> u64 {
        if range.is_empty() {
            return 0;
        }
        let overlapping: Vec<(u64, u64)> = self.overlapping(&range).collect();
        let before = self.blocks;
        for (start, end) in overlapping {
            self.ranges.remove(&start);
            self.blocks -= end - start;
            for rest in [start..range.start.min(end), range.end.max(start)..end] {
                if !rest.is_empty() {
                    self.blocks += rest.end - rest.start;
                    self.ranges.insert(rest.start, rest.end);
                }
            }
        }
        before - self.blocks
    }

    fn overlapping(&self, range: &Range<u64>) -> impl Iterator<Item = (u64, u64)> {
        let range = range.clone();
        let first = self.ranges.range(..range.start).next_back().map_or(range.start, |(&start, _)| start);
        let upper = range.end.max(first);
        self.ranges
            .range(first..upper)
            .map(|(&start, &end)| (start, end))
            .filter(move |&(start, end)| start < range.end && end > range.start)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn extents_agree_with_a_set_of_blocks(
            steps in prop::collection::vec((any::<bool>(), 0u64..64, 0u64..20), 0..60),
        ) {
            let (mut extents, mut model) = (Extents::default(), BTreeSet::new());
            for (insert, start, len) in steps {
                let range = start..start + len;
                let missing = range.clone().filter(|b| !model.contains(b)).count() as u64;
                prop_assert_eq!(extents.missing(range.clone()), missing);
                if insert {
                    extents.insert(range.clone());
                    model.extend(range);
                } else {
                    let freed = extents.remove(range.clone());
                    prop_assert_eq!(freed, len - missing);
                    model.retain(|b| !range.contains(b));
                }
                prop_assert_eq!(extents.blocks(), model.len() as u64);
                let mut pairs = extents.ranges.iter().zip(extents.ranges.iter().skip(1));
                let touching = pairs.any(|((_, end), (start, _))| end >= start);
                prop_assert!(!touching);
            }
        }
    }

    #[test]
    fn a_byte_range_touches_partial_blocks_and_holds_only_whole_ones() {
        assert_eq!(blocks_touched(4095..4097), 0..2);
        assert_eq!(blocks_inside(4095..4097), 0..0);
        assert_eq!(blocks_inside(4096..12288), 1..3);
        assert_eq!(blocks_touched(5..5), 0..0);
    }
}
