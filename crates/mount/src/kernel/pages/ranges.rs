//! A set of byte positions, as ranges.
//!
//! It may hold more than was put in, never less: where it would become long, it takes the gaps along.

use std::collections::BTreeMap;
use std::ops::Range;

/// How many ranges one set keeps apart: a random walk over a large mapping must not cost memory for each step.
const RANGES_MAX: usize = 1024;

/// Ranges that neither overlap nor touch.
#[derive(Debug, Default)]
pub struct Ranges {
    /// Ends, by start.
    ends: BTreeMap<u64, u64>,
}

impl Ranges {
    /// Every position.
    pub fn all() -> Ranges {
        Ranges { ends: BTreeMap::from([(0, u64::MAX)]) }
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Whether any position of `range` is in it.
    pub fn overlaps(&self, range: &Range<u64>) -> bool {
        self.ends.range(..range.end).next_back().is_some_and(|(_, end)| *end > range.start)
    }

    /// Adds `range`.
    pub fn insert(&mut self, range: &Range<u64>) {
        let Range { mut start, mut end } = *range;
        if start >= end {
            return;
        }
        while let Some((&at, &to)) = self.ends.range(..=end).next_back() {
            if to < start {
                break;
            }
            self.ends.remove(&at);
            (start, end) = (start.min(at), end.max(to));
        }
        self.ends.insert(start, end);
        if self.ends.len() > RANGES_MAX
            && let (Some((&first, _)), Some((_, &last))) =
                (self.ends.first_key_value(), self.ends.last_key_value())
        {
            self.ends = BTreeMap::from([(first, last)]);
        }
    }

    /// Takes `range` out.
    pub fn remove(&mut self, range: &Range<u64>) {
        while let Some((&at, &to)) = self.ends.range(..range.end).next_back() {
            if to <= range.start {
                break;
            }
            self.ends.remove(&at);
            if to > range.end {
                self.ends.insert(range.end, to);
            }
            if at < range.start {
                self.ends.insert(at, range.start);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn ranges_agree_with_a_table_of_positions(
            steps in prop::collection::vec((any::<bool>(), 0u64..60, 0u64..20), 0..40)
        ) {
            let (mut ranges, mut table) = (Ranges::default(), BTreeSet::new());
            for (add, start, len) in steps {
                let range = start..start + len;
                if add {
                    ranges.insert(&range);
                    table.extend(range);
                } else {
                    ranges.remove(&range);
                    table.retain(|at| !range.contains(at));
                }
                for at in 0..80 {
                    prop_assert_eq!(ranges.overlaps(&(at..at + 1)), table.contains(&at));
                }
            }
        }
    }

    #[test]
    fn a_set_that_becomes_long_loses_nothing() {
        let mut ranges = Ranges::default();
        let at = |n: usize| 2 * n as u64..2 * n as u64 + 1;
        (0..3 * RANGES_MAX).for_each(|n| ranges.insert(&at(n)));
        assert!((0..3 * RANGES_MAX).all(|n| ranges.overlaps(&at(n))));
        assert!(ranges.ends.len() <= RANGES_MAX);
    }
}
