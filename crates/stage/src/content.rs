//! The contents of a regular file: copied, and read back, with a checksum of each. Large files in chunks, several
//! threads at a time; holes are skipped.

use std::ops::Range;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use crate::checksum::Checksum;
use crate::context::Context;
use crate::fault::{Cause, Fault, Tried};
use crate::monitor::Tally;
use crate::tree::{OpenFile, Tree};

/// What one worker copies before it takes the next piece; a whole number of stripes.
const CHUNK_BYTES: u64 = 64 << 20;

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

/// Copies `size` bytes; gives their checksum.
pub(crate) fn copy(
    context: &Arc<Context>,
    source: &Opened,
    target: &Opened,
    size: u64,
    tally: &Arc<Tally>,
) -> Result<u32, Fault> {
    if source.sparse {
        target.file.set_size(size).tried(&*target.tree, &target.path, "set the size of")?;
    }
    let (source, target, tally, shared) = (source.clone(), target.clone(), tally.clone(), context.clone());
    in_chunks(context, size, move |range| {
        read_range(&shared, &source, range, |part| {
            if let Piece::Data(offset, bytes) = part {
                shared.retrying(|| {
                    let written = target.file.write_at(bytes, *offset);
                    written.tried(&*target.tree, &target.path, "write")
                })?;
            }
            tally.copied(part.length());
            Ok(())
        })
    })
}

/// Reads `size` bytes back; gives their checksum.
pub(crate) fn read_back(
    context: &Arc<Context>,
    file: &Opened,
    size: u64,
    tally: &Arc<Tally>,
) -> Result<u32, Fault> {
    let (file, tally, shared) = (file.clone(), tally.clone(), context.clone());
    in_chunks(context, size, move |range| {
        read_range(&shared, &file, range, |part| {
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

/// Runs `work` on every chunk and joins the checksums. The first fault keeps the chunks that are not begun from being
/// copied in vain.
fn in_chunks(
    context: &Arc<Context>,
    size: u64,
    work: impl Fn(Range<u64>) -> Result<u32, Fault> + Send + Sync + 'static,
) -> Result<u32, Fault> {
    if size <= CHUNK_BYTES {
        return work(0..size);
    }
    let chunk = move |index: usize| {
        let start = u64::try_from(index).expect("an index fits 64 bits") * CHUNK_BYTES;
        start..size.min(start + CHUNK_BYTES)
    };
    let count = usize::try_from(size.div_ceil(CHUNK_BYTES)).expect("Forebay runs on 64-bit machines");
    let results = Arc::new(Mutex::new(Ok(vec![0; count])));
    let shared = results.clone();
    context.queue.share(count, move |index| {
        if shared.lock().expect("no thread panics with the lock").is_err() {
            return;
        }
        let outcome = work(chunk(index));
        let mut results = shared.lock().expect("no thread panics with the lock");
        match (outcome, &mut *results) {
            (Ok(checksum), Ok(checksums)) => checksums[index] = checksum,
            (Err(fault), Ok(_)) => *results = Err(fault),
            (_, Err(_)) => {}
        }
    });
    let checksums =
        std::mem::replace(&mut *results.lock().expect("no thread panics with the lock"), Ok(vec![]))?;
    let joined = checksums.into_iter().enumerate().fold(Checksum::default(), |whole, (index, part)| {
        let Range { start, end } = chunk(index);
        whole.then_part(part, end - start)
    });
    Ok(joined.value())
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
