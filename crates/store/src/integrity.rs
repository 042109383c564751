//! Checksums of objects at rest: what they are over, where they are kept, when they are made and when they count.
//!
//! An object is *sealed* when nobody has changed it for a while: the sums of its blocks are written to the namespace's
//! log of seals (`FRAGMENT/sums/N.log`), after its data was made durable. The first change after that *lifts* the seal:
//! a durable note in the log, before the change can reach the disk. What nobody has touched since is still checked
//! against the lifted seal's sums, and they go into the next one: a block that is damaged is never summed as it is.
//!
//! Owns the sums, the log and the checks of what is read. Sealing what is at rest is the objects' ([`crate::objects`]),
//! which are above this; looking at all of them is the scrub's ([`crate::scrub`]).
//!
//! **Invariant:** a seal counts only for bytes that were durable when it was written and were not changed since: no
//! crash turns honest data into an alarm, and no sums of old bytes vouch for new ones.

pub mod closed;
pub mod guard;
pub mod handed;
pub mod keeper;
pub mod known;
pub mod length;
pub mod log;
pub mod lost;
mod note;
pub mod other;
pub mod pace;
pub mod repair;
pub mod report;
pub mod tick;
pub mod unverified;
pub mod verify;

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use log::Sums;
use serde::{Deserialize, Serialize};

use crate::extents::{BLOCK_BYTES, Extents};
use crate::measure::next_data;

/// Blocks whose sums are kept together: those of 1 MiB.
pub const CHUNK_BLOCKS: u64 = 256;

/// Bytes of an object that one chunk of sums is for.
pub const CHUNK_BYTES: u64 = CHUNK_BLOCKS * BLOCK_BYTES;

/// A block's bytes, as an array may have them.
pub const BLOCK: usize = BLOCK_BYTES as usize;

/// No object has so many blocks.
const BLOCKS_MAX: u64 = 1 << 51;

const ZEROS: [u8; BLOCK] = [0; BLOCK];

/// The checksum of a block of zeros.
pub(crate) const SUM_OF_ZEROS: u32 = 0x98f9_4189;

/// The checksum of a block, of which `bytes` are the first and zeros the rest: so a block at an object's end keeps its
/// sum when the object grows.
pub fn sum_of(bytes: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(bytes), &ZEROS[..BLOCK.saturating_sub(bytes.len())])
}

/// Where the sums of one chunk of an object are in a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChunkRef {
    /// Which chunk of the object.
    pub index: u64,
    /// Where the sums begin in the log.
    pub at: u64,
    /// How many blocks have one; those after them are zeros.
    pub blocks: u16,
    /// The checksum of the sums.
    pub crc: u32,
}

/// What an object was like when it came to rest.
#[derive(Debug)]
pub struct Seal {
    /// Its length, bytes.
    pub length: u64,
    /// Its time of change, for `stat` where the object itself is lost.
    pub mtime: (i64, u32),
    /// Its sums; chunks that are not here are zeros.
    pub chunks: Box<[ChunkRef]>,
    /// The log that they are in: a compaction leaves it to those who still need it.
    pub file: Arc<File>,
}

impl Seal {
    /// The sums of the chunk `index`.
    ///
    /// # Errors
    /// The errno of the read; `InvalidData` where the sums are not what was written.
    pub fn sums(&self, index: u64) -> io::Result<Sums> {
        let mut sums = [SUM_OF_ZEROS; CHUNK_BLOCKS as usize];
        let Ok(found) = self.chunks.binary_search_by_key(&index, |chunk| chunk.index) else {
            return Ok(sums);
        };
        let chunk = self.chunks[found];
        let mut bytes = [0; 4 * CHUNK_BLOCKS as usize];
        let bytes = &mut bytes[..4 * usize::from(chunk.blocks).min(CHUNK_BLOCKS as usize)];
        self.file.read_exact_at(bytes, chunk.at)?;
        if crc32c::crc32c(bytes) != chunk.crc {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "the sums do not match their own checksum",
            ));
        }
        for (sum, bytes) in sums.iter_mut().zip(bytes.chunks_exact(4)) {
            *sum = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        }
        Ok(sums)
    }

    /// The chunks from `index` on that have sums.
    pub fn summed(&self, index: u64) -> &[ChunkRef] {
        &self.chunks[self.chunks.partition_point(|chunk| chunk.index < index)..]
    }

    /// The blocks that may have bytes: those of the chunks that have sums.
    pub fn extents(&self) -> Extents {
        let end = self.length.div_ceil(BLOCK_BYTES);
        let mut extents = Extents::default();
        for chunk in &self.chunks {
            extents.insert(chunk.index * CHUNK_BLOCKS..end.min((chunk.index + 1) * CHUNK_BLOCKS));
        }
        extents
    }
}

/// The first chunk of an object from `index` on that may have bytes: it has data now, or it had some when this seal was
/// made. So the holes of an object cost nothing, however long they are.
///
/// # Errors
/// The errno of the search, as of the disk.
pub fn next_chunk(file: &File, seal: Option<&Seal>, index: u64) -> io::Result<Option<u64>> {
    let summed = seal.and_then(|seal| seal.summed(index).first()).map(|chunk| chunk.index);
    if summed == Some(index) {
        return Ok(summed);
    }
    let data = next_data(file, index * CHUNK_BYTES)?.map(|data| data.start / CHUNK_BYTES);
    Ok(data.into_iter().chain(summed).min())
}

#[cfg(test)]
mod tests;
