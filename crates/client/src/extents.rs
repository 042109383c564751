//! Writing many small pieces of a file with few requests.

use std::ops::Range;

use model::{FragmentIndex, Ino};
use rustix::io::Errno;
use wire::data::{PAYLOAD_BYTES_MAX, Request};

use super::{Client, Result};

/// Pieces in one request: their list must fit a message.
const EXTENTS_MAX: usize = 16_384;

/// What goes to one fragment with one request.
#[derive(Default)]
struct Batch {
    extents: Vec<(u64, u32)>,
    bytes: Vec<u8>,
    /// Where in the file they lie.
    ranges: Vec<Range<u64>>,
}

impl Client {
    /// Writes every piece, given as its offset and its bytes, in no particular order. When it returns, the storage
    /// nodes have them all.
    ///
    /// # Errors
    /// As [`crate::Contents::write`]; any of the pieces may have been written then.
    pub fn write_extents<'a>(
        &self,
        ino: Ino,
        pieces: impl IntoIterator<Item = (u64, &'a [u8])>,
    ) -> Result<()> {
        let mut batches: Vec<Batch> = (0..self.layout.fragments).map(|_| Batch::default()).collect();
        for (offset, bytes) in pieces {
            for piece in self.layout.pieces(ino, offset, bytes.len() as u64) {
                let start = usize::try_from(piece.file_offset - offset).map_err(|_| Errno::INVAL)?;
                let len = usize::try_from(piece.len).map_err(|_| Errno::INVAL)?;
                let batch = batches.get_mut(piece.fragment.place()).ok_or(Errno::INVAL)?;
                let mut at = 0;
                for chunk in bytes[start..start + len].chunks(PAYLOAD_BYTES_MAX) {
                    if !batch.has_room(chunk.len()) {
                        self.send(ino, piece.fragment, std::mem::take(batch))?;
                    }
                    batch.add(piece.object_offset + at, piece.file_offset + at, chunk);
                    at += chunk.len() as u64;
                }
            }
        }
        for (fragment, batch) in FragmentIndex::of_each(batches) {
            self.send(ino, fragment, batch)?;
        }
        Ok(())
    }

    fn send(&self, ino: Ino, fragment: FragmentIndex, batch: Batch) -> Result<()> {
        if batch.extents.is_empty() {
            return Ok(());
        }
        let request = Request::WriteExtents { ino, extents: batch.extents };
        let stored = self.store(fragment, &request, &batch.bytes);
        self.note(ino, batch.ranges, stored)
    }
}

impl Batch {
    fn has_room(&self, len: usize) -> bool {
        self.bytes.len() + len <= PAYLOAD_BYTES_MAX && self.extents.len() < EXTENTS_MAX
    }

    fn add(&mut self, object_offset: u64, file_offset: u64, bytes: &[u8]) {
        let len = u32::try_from(bytes.len()).expect("a chunk is at most 1 MiB");
        match self.extents.last_mut() {
            // Side by side in the object: one write.
            Some((offset, before)) if *offset + u64::from(*before) == object_offset => *before += len,
            _ => self.extents.push((object_offset, len)),
        }
        self.bytes.extend_from_slice(bytes);
        let end = file_offset + u64::from(len);
        match self.ranges.last_mut() {
            Some(before) if before.end == file_offset => before.end = end,
            _ => self.ranges.push(file_offset..end),
        }
    }
}
