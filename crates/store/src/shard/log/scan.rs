//! From the bytes of a log to its entries, or to what is wrong with it.

use std::path::Path;

use super::super::record::{Entry, Record};
use super::{LogError, format};

/// What the bytes of a log are.
pub struct Scanned {
    /// Where the last whole entry ends.
    pub end: usize,
    /// The next entry's sequence number.
    pub next: u64,
    /// Where what it began with ends.
    pub begun: u64,
}

/// Gives every entry in the bytes of the log at `path` to `each`. Those before `marked` must be there.
///
/// # Errors
/// [`LogError`]: not one of them is to be trusted then.
pub fn scan(
    path: &Path,
    bytes: &[u8],
    marked: u64,
    each: &mut dyn FnMut(Entry),
) -> Result<Scanned, LogError> {
    let path = path.to_owned();
    let newer = |why: String| LogError::Newer { path: path.clone(), why };
    if let Some(why) = format::newer_head(bytes) {
        return Err(newer(why.to_string()));
    }
    let Some((mut at, mut next)) = format::parse_head(bytes) else { return Err(LogError::Foreign { path }) };
    let (mut synced, mut begun) = (0, at as u64);
    while let Some((entry, end)) = format::decode(bytes, at, next) {
        synced = synced.max(format::synced_to(&entry));
        (at, next) = (end, next + 1);
        if entry.record == Record::Begun {
            begun = at as u64;
        } else {
            each(entry);
        }
    }
    if format::is_unknown(bytes, at, next) {
        let why = format!("this Forebay does not know the record at byte {at}: a newer one wrote it");
        return Err(newer(why));
    }
    if at < bytes.len() && format::is_damaged(bytes, at, next, synced) {
        return Err(LogError::Damaged { path, offset: at });
    }
    if next < marked {
        return Err(LogError::Cut { path, offset: at, found: next, synced: marked });
    }
    Ok(Scanned { end: at, next, begun })
}
