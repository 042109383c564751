//! Bytes at places in a file: exactly those that were written, the latest of each.

use std::collections::BTreeMap;

/// Ranges that neither overlap nor touch.
#[derive(Debug, Default)]
pub struct Extents {
    /// By offset.
    ranges: BTreeMap<u64, Vec<u8>>,
}

impl Extents {
    /// Adds bytes; they replace what was there.
    pub fn insert(&mut self, offset: u64, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        let end = offset + bytes.len() as u64;
        let (mut start, mut merged) = (offset, Vec::new());
        // The range that begins before: its head is kept, and its tail if it reaches further.
        let before = self.ranges.range_mut(..offset).next_back();
        let mut tail = Vec::new();
        if let Some((&at, range)) = before
            && at + range.len() as u64 >= offset
        {
            let cut = index(offset - at);
            if range.len() > cut + bytes.len() {
                // The new bytes lie inside.
                range[cut..cut + bytes.len()].copy_from_slice(bytes);
                return;
            }
            range.truncate(cut);
            (start, merged) = (at, self.ranges.remove(&at).expect("it was just found"));
        }
        merged.extend_from_slice(bytes);
        while let Some((&at, _)) = self.ranges.range(offset..=end).next() {
            let range = self.ranges.remove(&at).expect("it was just found");
            if at + range.len() as u64 > end {
                tail = range[index(end - at)..].to_vec();
            }
        }
        merged.extend_from_slice(&tail);
        self.ranges.insert(start, merged);
    }

    /// Every range: its offset and its bytes, in order.
    pub fn iter(&self) -> impl Iterator<Item = (u64, &[u8])> {
        self.ranges.iter().map(|(offset, bytes)| (*offset, bytes.as_slice()))
    }

    /// Forgets all.
    pub fn clear(&mut self) {
        self.ranges.clear();
    }
}

/// A distance inside what is held, which fits the memory.
fn index(distance: u64) -> usize {
    usize::try_from(distance).expect("a range is in memory")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn extents_agree_with_a_table_of_bytes(
            writes in prop::collection::vec((0u64..60, prop::collection::vec(any::<u8>(), 0..20)), 0..40)
        ) {
            let (mut extents, mut table) = (Extents::default(), BTreeMap::new());
            for (offset, bytes) in &writes {
                extents.insert(*offset, bytes);
                table.extend(bytes.iter().zip(*offset..).map(|(byte, at)| (at, *byte)));
            }
            let kept: BTreeMap<u64, u8> = extents
                .iter()
                .flat_map(|(offset, bytes)| (offset..).zip(bytes.iter().copied()))
                .collect();
            prop_assert_eq!(kept, table);
            let ends = extents.iter().map(|(offset, bytes)| offset + bytes.len() as u64);
            let starts = extents.iter().skip(1).map(|(offset, _)| offset);
            prop_assert!(ends.zip(starts).all(|(end, start)| end < start), "ranges touch");
        }
    }
}
