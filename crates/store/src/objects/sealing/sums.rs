//! The sums of an object that is to be sealed.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;

use super::{Known, Prepared};
use crate::extents::BLOCK_BYTES;
use crate::integrity::log::Sums;
use crate::integrity::pace::Pace;
use crate::integrity::report::Fault;
use crate::integrity::{BLOCK, CHUNK_BLOCKS, CHUNK_BYTES, SUM_OF_ZEROS, next_chunk, sum_of};
use crate::objects::Objects;

impl Objects {
    /// Reads what is not known, and writes the sums of all.
    pub(super) fn make_sums(
        &self,
        object: &mut Prepared,
        known: Option<&Known>,
        pace: &mut Pace,
    ) -> io::Result<()> {
        let ino = object.guard.ino();
        let mut buffer = Vec::new();
        let mut from = 0;
        while let Some(index) = object.next_chunk(known, from)? {
            self.keeper().check_open()?;
            let blocks = index * CHUNK_BLOCKS..(index + 1) * CHUNK_BLOCKS;
            let known_here = known.map_or(0, |known| known.touched.missing(blocks.clone()));
            let old = known.filter(|_| known_here > 0).map(|known| known.base.sums(index)).transpose();
            let old = old.map_err(|_| Fault::Sums { block: blocks.start }.error(ino))?;
            let sums = match old {
                Some(old) if known_here == CHUNK_BLOCKS => old.to_vec(),
                old => {
                    let sums = read_sums(&object.file, index, &mut buffer)
                        .map_err(|error| Fault::of_read(ino, index * CHUNK_BYTES, error))?;
                    pace.spent(buffer.len() as u64);
                    object.keep_known(sums, blocks, known, old)
                }
            };
            self.put(object, index, &sums)?;
            from = index + 1;
        }
        Ok(())
    }

    /// Writes a chunk's sums; those of zeros at its end are left out.
    fn put(&self, object: &mut Prepared, index: u64, sums: &[u32]) -> io::Result<()> {
        let len = sums.iter().rposition(|sum| *sum != SUM_OF_ZEROS).map_or(0, |last| last + 1);
        if len > 0 {
            object.chunks.push(self.keeper().log.write_sums(index, &sums[..len])?);
        }
        Ok(())
    }
}

impl Prepared {
    /// The first chunk from `index` on that is to be summed: others are zeros, now and before, and have no sums.
    fn next_chunk(&self, known: Option<&Known>, index: u64) -> io::Result<Option<u64>> {
        let end = self.length.div_ceil(CHUNK_BYTES);
        if index >= end {
            return Ok(None);
        }
        let next = next_chunk(&self.file, known.map(|known| &*known.base), index)
            .map_err(|error| Fault::of_read(self.guard.ino(), index * CHUNK_BYTES, error))?;
        Ok(next.filter(|next| *next < end))
    }

    /// The sums of a chunk whose blocks have these now, but that known blocks keep theirs.
    fn keep_known(
        &mut self,
        mut sums: Vec<u32>,
        blocks: Range<u64>,
        known: Option<&Known>,
        old: Option<Sums>,
    ) -> Vec<u32> {
        let (Some(known), Some(old)) = (known, old) else { return sums };
        for ((block, sum), was) in blocks.zip(&mut sums).zip(old) {
            if *sum != was && known.touched.missing(block..block + 1) == 1 {
                self.faults.push(Fault::Blocks { blocks: block..block + 1 });
                *sum = was;
            }
        }
        sums
    }
}

/// The sums of what is there of a chunk now; `buffer` keeps its bytes.
fn read_sums(file: &File, index: u64, buffer: &mut Vec<u8>) -> io::Result<Vec<u32>> {
    buffer.resize(CHUNK_BYTES as usize, 0);
    let mut done = 0;
    while done < buffer.len() {
        match file.read_at(&mut buffer[done..], index * CHUNK_BYTES + done as u64) {
            Ok(0) => break,
            Ok(read) => done += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    buffer.truncate(done);
    debug_assert_eq!(BLOCK as u64, BLOCK_BYTES, "sums are of the blocks that are counted");
    let mut sums: Vec<u32> = buffer.chunks(BLOCK).map(sum_of).collect();
    sums.resize(CHUNK_BLOCKS as usize, SUM_OF_ZEROS);
    Ok(sums)
}
