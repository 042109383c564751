//! Whether what this client wrote of a file leaves a hole in it.
//!
//! A file without holes takes the space that its size says, and nobody needs to ask the storage nodes. Pure.

use std::ops::Range;

/// Ranges that are remembered past the first gap; with more, the nodes are asked.
const ISLANDS_MAX: usize = 64;

/// What has data.
#[derive(Clone, Debug, Default)]
pub struct Coverage {
    /// Everything before.
    dense: u64,
    /// Ranges behind a gap, in order, which do not touch. Writes of several threads overtake each other, so a gap may
    /// close.
    islands: Vec<Range<u64>>,
    /// A hole was made, or what was written is not known.
    unknown: bool,
}

impl Coverage {
    /// Of a file of this size without holes.
    pub fn dense(size: u64) -> Coverage {
        Coverage { dense: size, ..Coverage::default() }
    }

    /// These bytes were written.
    pub fn wrote(&mut self, range: Range<u64>) {
        if range.start > self.dense {
            self.remember(range);
        } else {
            self.dense = self.dense.max(range.end);
            while self.islands.first().is_some_and(|first| first.start <= self.dense) {
                self.dense = self.dense.max(self.islands.remove(0).end);
            }
        }
    }

    /// The file has this size now.
    pub fn resized(&mut self, size: u64) {
        self.unknown |= size > self.dense;
        self.dense = self.dense.min(size);
        self.islands.clear();
    }

    /// Something happened to the file's space.
    pub fn lost_track(&mut self) {
        self.unknown = true;
    }

    /// Whether there may be a hole.
    pub fn may_have_holes(&self) -> bool {
        self.unknown || !self.islands.is_empty()
    }

    fn remember(&mut self, mut range: Range<u64>) {
        self.islands.retain(|island| {
            let apart = island.end < range.start || range.end < island.start;
            if !apart {
                range = range.start.min(island.start)..range.end.max(island.end);
            }
            apart
        });
        let place = self.islands.partition_point(|island| island.start < range.start);
        self.islands.insert(place, range);
        if self.islands.len() > ISLANDS_MAX {
            self.islands.clear();
            self.unknown = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(ranges: &[Range<u64>]) -> Coverage {
        let mut coverage = Coverage::dense(10);
        ranges.iter().for_each(|range| coverage.wrote(range.clone()));
        coverage
    }

    #[test]
    fn writes_in_any_order_leave_no_hole_once_all_are_there() {
        assert!(!after(&[0..5, 10..20, 15..30]).may_have_holes());
        assert!(after(&[20..30, 40..50]).may_have_holes());
        assert!(!after(&[40..50, 20..30, 30..40, 10..20]).may_have_holes());
        let backwards: Vec<Range<u64>> = (1..500).rev().map(|n| n * 10..n * 10 + 10).collect();
        assert!(!after(&backwards).may_have_holes(), "neighbours are one range");
    }

    #[test]
    fn what_is_not_known_may_have_holes() {
        let scattered: Vec<Range<u64>> = (1..100).map(|n| n * 20..n * 20 + 10).collect();
        let mut coverage = after(&scattered);
        coverage.wrote(0..10_000);
        assert!(coverage.may_have_holes(), "too many ranges were forgotten");
        let mut grown = Coverage::dense(10);
        grown.resized(5);
        assert!(!grown.may_have_holes());
        grown.resized(6);
        assert!(grown.may_have_holes());
    }
}
