//! Small files are read when they are opened, together.

use std::collections::HashMap;

use client::Operations;
use model::Ino;
use wire::data::Attr;

use super::Buffer;
use crate::tree::Result;

/// What of a batch of files is read when they are opened, bytes: of each file at most, and together.
const AHEAD_EACH_MAX: u64 = 64 << 10;
const AHEAD_MAX: u64 = 1 << 20;

impl<N: Operations> Buffer<N> {
    /// The contents of the files that are worth reading together, by their places; what cannot be read is read again
    /// when it is copied.
    pub(super) fn read_ahead(&self, opened: &[Result<Attr>]) -> HashMap<usize, Vec<u8>> {
        let mut left = AHEAD_MAX;
        let mut chosen = Vec::new();
        for (place, attr) in opened.iter().enumerate() {
            let Ok(attr) = attr else { continue };
            if (1..=AHEAD_EACH_MAX.min(left)).contains(&attr.size) {
                left -= attr.size;
                chosen.push((place, attr.ino, usize::try_from(attr.size).expect("at most AHEAD_EACH_MAX")));
            }
        }
        let files: Vec<(Ino, usize)> = chosen.iter().map(|(_, ino, length)| (*ino, *length)).collect();
        let read = chosen.iter().zip(self.namespace.read_all(&files));
        let whole = read.filter_map(|((place, _, length), bytes)| {
            bytes.filter(|bytes| bytes.len() == *length).map(|bytes| (*place, bytes))
        });
        whole.collect()
    }
}
