//! The contents of a regular file: copied, and read back, with a checksum of each chunk. Large files by several threads
//! at a time; holes are skipped.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use wire::control::Side;

use crate::checksum::Checksum;
use crate::context::Context;
use crate::fault::{Cause, Fault, Tried};
use crate::monitor::Tally;
use crate::tree::{OpenFile, Tree};

/// What one worker copies before it takes the next piece, and what at most is copied again by each worker after it was
/// killed; a whole number of stripes.
pub(crate) const CHUNK_BYTES: u64 = 16 << 20;

/// What is read and written at once: the largest request of the data path.
const BLOCK_BYTES: usize = 1 << 20;

/// An open file and where it is.
#[derive(Clone)]
pub(crate) struct Opened {
    pub(crate) tree: Arc<dyn Tree>,
    pub(crate) path: PathBuf,
    pub(crate) file: Arc<dyn OpenFile>,
    /// It occupies less than its size: worth asking where its data is.
    pub(crate) sparse: bool,
}

/// CRC32C of each chunk of a file.
pub(crate) struct Sums {
    size: u64,
    chunks: Vec<u32>,
}

impl Sums {
    /// The file's size, bytes.
    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    /// CRC32C of the whole file.
    pub(crate) fn whole(&self) -> u32 {
        let join = |whole: Checksum, (index, part): (usize, &u32)| {
            let Range { start, end } = chunk(index, self.size);
            whole.then_part(*part, end - start)
        };
        self.chunks.iter().enumerate().fold(Checksum::default(), join).value()
    }

    /// The checksums of the first chunk that is not the same in both.
    pub(crate) fn first_difference(&self, other: &Sums) -> Option<(u32, u32)> {
        let pairs = self.chunks.iter().copied().zip(other.chunks.iter().copied());
        pairs.into_iter().find(|(ours, theirs)| ours != theirs)
    }
}

/// Copies `size` bytes but for the chunks that are there already.
pub(crate) fn copy(
    context: &Arc<Context>,
    source: &Opened,
    target: &Opened,
    size: u64,
    there: BTreeMap<usize, u32>,
    tally: &Arc<Tally>,
) -> Result<Sums, Fault> {
    if source.sparse {
        target.file.set_size(size).tried(&*target.tree, &target.path, "set the size of")?;
    }
    let (source, target, tally, shared) = (source.clone(), target.clone(), tally.clone(), context.clone());
    in_chunks(context, size, move |index, range| {
        if let Some(checksum) = there.get(&index) {
            tally.copied(range.end - range.start);
            return Ok(*checksum);
        }
        let checksum = read_range(&shared, &source, range, |part| {
            if let Piece::Data(offset, bytes) = part {
                shared.pace(part.length());
                shared.retrying(|| {
                    let written = target.file.write_at(bytes, *offset);
                    written.tried(&*target.tree, &target.path, "write")
                })?;
            }
            tally.copied(part.length());
            shared.monitor.moved(part.length());
            Ok(())
        })?;
        if size > CHUNK_BYTES {
            shared.journal.chunk(&target.path, index, checksum);
        }
        Ok(checksum)
    })
}

/// Reads the chosen chunks of what was written back; the checksums of the others are taken over.
pub(crate) fn read_back(
    context: &Arc<Context>,
    file: &Opened,
    written: &Sums,
    chosen: impl Fn(usize) -> bool + Send + Sync + 'static,
    tally: &Arc<Tally>,
) -> Result<Sums, Fault> {
    let (file, tally, shared) = (file.clone(), tally.clone(), context.clone());
    let known = written.chunks.clone();
    in_chunks(context, written.size, move |index, range| {
        if !chosen(index) {
            return Ok(known[index]);
        }
        read_range(&shared, &file, range, |part| {
            if file.tree.side() == Side::Pfs {
                shared.pace(part.length());
            }
            tally.verified(part.length());
            Ok(())
        })
    })
}

/// A part of a file, in order.
enum Piece<'a> {
    Data(u64, &'a [u8]),
    Hole(u64),
}

impl Piece<'_> {
    fn length(&self) -> u64 {
        match self {
            Piece::Data(_, bytes) => u64::try_from(bytes.len()).expect("a block's length fits 64 bits"),
            Piece::Hole(length) => *length,
        }
    }
}

/// The bytes of a chunk of a file.
fn chunk(index: usize, size: u64) -> Range<u64> {
    let start = u64::try_from(index).expect("an index fits 64 bits") * CHUNK_BYTES;
    start..size.min(start + CHUNK_BYTES)
}

/// Runs `work` on every chunk. The first fault keeps the chunks that are not begun from being copied in vain.
fn in_chunks(
    context: &Arc<Context>,
    size: u64,
    work: impl Fn(usize, Range<u64>) -> Result<u32, Fault> + Send + Sync + 'static,
) -> Result<Sums, Fault> {
    if size <= CHUNK_BYTES {
        return Ok(Sums { size, chunks: vec![work(0, 0..size)?] });
    }
    let count = usize::try_from(size.div_ceil(CHUNK_BYTES)).expect("Forebay runs on 64-bit machines");
    let results = Arc::new(Mutex::new(Ok(vec![0; count])));
    let shared = results.clone();
    context.queue.share(count, move |index| {
        if shared.lock().expect("no thread panics with the lock").is_err() {
            return;
        }
        let outcome = work(index, chunk(index, size));
        let mut results = shared.lock().expect("no thread panics with the lock");
        match (outcome, &mut *results) {
            (Ok(checksum), Ok(checksums)) => checksums[index] = checksum,
            (Err(fault), Ok(_)) => *results = Err(fault),
            (_, Err(_)) => {}
        }
    });
    let results =
        std::mem::replace(&mut *results.lock().expect("no thread panics with the lock"), Ok(vec![]));
    Ok(Sums { size, chunks: results? })
}

/// Hands every part of a range to `take`, in order; gives the checksum.
fn read_range(
    context: &Context,
    from: &Opened,
    range: Range<u64>,
    mut take: impl FnMut(&Piece<'_>) -> Result<(), Fault>,
) -> Result<u32, Fault> {
    let mut checksum = Checksum::default();
    let mut block = vec![0; BLOCK_BYTES.min(usize::try_from(range.end - range.start).unwrap_or(BLOCK_BYTES))];
    let mut position = range.start;
    while position < range.end {
        let data = next_data(from, position, range.end)?;
        if data.start > position {
            checksum = checksum.then_zeros(data.start - position);
            take(&Piece::Hole(data.start - position))?;
        }
        position = data.start;
        while position < data.end {
            let want = BLOCK_BYTES.min(usize::try_from(data.end - position).unwrap_or(BLOCK_BYTES));
            let bytes = read_block(context, from, position, &mut block[..want])?;
            checksum = checksum.then(bytes);
            let part = Piece::Data(position, bytes);
            take(&part)?;
            position += part.length();
        }
    }
    Ok(checksum.value())
}

/// Where data comes next in `position..end`; empty at `end` if there is none.
fn next_data(from: &Opened, position: u64, end: u64) -> Result<Range<u64>, Fault> {
    if !from.sparse {
        return Ok(position..end);
    }
    let data = from.file.next_data(position).tried(&*from.tree, &from.path, "look for holes in")?;
    let data = data.unwrap_or(end..end);
    Ok(data.start.clamp(position, end)..data.end.clamp(position, end))
}

/// Reads some bytes, at least one.
fn read_block<'b>(
    context: &Context,
    from: &Opened,
    offset: u64,
    block: &'b mut [u8],
) -> Result<&'b [u8], Fault> {
    if context.monitor.is_stopping() {
        return Err(Fault::new(&*from.tree, &from.path, "read", Cause::Stopped));
    }
    let length =
        context.retrying(|| from.file.read_at(block, offset).tried(&*from.tree, &from.path, "read"))?;
    match length {
        // The file is shorter than it was a moment ago.
        0 => Err(Fault::new(&*from.tree, &from.path, "read", Cause::Changed)),
        length => Ok(&block[..length]),
    }
}
