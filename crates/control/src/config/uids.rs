//! Whose buffers may be in a pool.

use std::ops::RangeInclusive;

use super::Pool;

/// As `1000-59999`, or one alone.
pub(super) fn ranges(pool: &Pool) -> Result<Vec<RangeInclusive<u32>>, String> {
    let range = |text: &String| {
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        let range = first.trim().parse().ok()?..=last.trim().parse().ok()?;
        Some(range).filter(|range| !range.is_empty())
    };
    let read = |text| {
        range(text).ok_or_else(|| format!("{}: uids: {text:?} is not a range such as 1000-59999", pool.name))
    };
    pool.uids.iter().map(read).collect()
}
