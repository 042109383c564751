//! The contents of blocks of a regular file: copied, or read back, with a checksum of each block. Holes are skipped.

use std::ops::Range;
use std::path::PathBuf;
use std::sync::{Arc, LazyLock};

use crate::blocks::{self, BLOCK_BYTES};
use crate::checksum::Checksum;
use crate::context::Context;
use crate::fault::{Cause, Fault, READ, Tried};
use crate::tree::{OpenFile, TargetFile, Tree};

/// An open file and where it is.
pub(crate) struct Opened<F: ?Sized = dyn OpenFile> {
    pub(crate) tree: Arc<dyn Tree>,
    pub(crate) path: PathBuf,
    pub(crate) file: Arc<F>,
    /// It occupies less than its size: worth asking where its data is.
    pub(crate) sparse: bool,
}

/// A part of a file, in order.
pub(crate) enum Piece<'a> {
    Data(u64, &'a [u8]),
    Hole(u64),
}

impl Piece<'_> {
    pub(crate) fn length(&self) -> u64 {
        match self {
            Piece::Data(_, bytes) => u64::try_from(bytes.len()).expect("a block's length fits 64 bits"),
            Piece::Hole(length) => *length,
        }
    }
}

/// Copies blocks of a file of `size` bytes; gives their checksums. `moved` is told of every piece before it is written.
pub(crate) fn copy(
    context: &Context,
    source: &Opened,
    target: &Opened<dyn TargetFile>,
    size: u64,
    runs: &[Range<usize>],
    moved: impl Fn(&Piece<'_>),
) -> Result<Vec<u32>, Fault> {
    read(context, source, size, runs, |piece| {
        moved(piece);
        let Piece::Data(offset, bytes) = piece else { return Ok(()) };
        // It may have waited for its pace, or stood still.
        check_going_on(context, source)?;
        context.retrying_open(|| {
            let written = target.file.write_at(bytes, *offset);
            written.tried(&*target.tree, &target.path, "write")
        })
    })
}

/// The blocks of a file that may have data, as runs in order.
pub(crate) fn data<F: OpenFile + ?Sized>(
    context: &Context,
    from: &Opened<F>,
    size: u64,
) -> Result<Vec<Range<usize>>, Fault> {
    let mut runs: Vec<Range<usize>> = Vec::new();
    let mut position = 0;
    while position < size {
        check_going_on(context, from)?;
        let found = next_data(from, position, size)?;
        if found.is_empty() {
            break;
        }
        let run = blocks::touched(&found);
        // Of a block that has some, no more need be known.
        position = blocks::bytes(&run, size).end;
        match runs.last_mut() {
            Some(last) if last.end == run.start => last.end = run.end,
            _ => runs.push(run),
        }
    }
    Ok(runs)
}

/// Hands every piece of the blocks to `take`, in order; gives the blocks' checksums.
pub(crate) fn read<F: OpenFile + ?Sized>(
    context: &Context,
    from: &Opened<F>,
    size: u64,
    runs: &[Range<usize>],
    mut take: impl FnMut(&Piece<'_>) -> Result<(), Fault>,
) -> Result<Vec<u32>, Fault> {
    let mut sums = Blocks::default();
    let longest = runs.iter().map(|run| blocks::bytes(run, size)).map(|range| range.end - range.start).max();
    let longest = longest.unwrap_or(0).min(BLOCK_BYTES);
    let mut block = vec![0; usize::try_from(longest).expect("a block's length fits memory")];
    for range in runs.iter().map(|run| blocks::bytes(run, size)) {
        let mut position = range.start;
        while position < range.end {
            let data = next_data(from, position, range.end)?;
            if data.start > position {
                sums.zeros(position, data.start - position);
                take(&Piece::Hole(data.start - position))?;
            }
            position = data.start;
            while position < data.end {
                // Not beyond the block: its checksum ends there.
                let end = data.end.min((position / BLOCK_BYTES + 1) * BLOCK_BYTES);
                let want = usize::try_from(end - position).expect("a block's length fits memory");
                let bytes = read_some(context, from, position, &mut block[..want])?;
                sums.data(position, bytes);
                let piece = Piece::Data(position, bytes);
                take(&piece)?;
                position += piece.length();
            }
        }
        sums.finish();
    }
    Ok(sums.done)
}

/// The checksum of a block that is all hole: of files that are nearly all hole there are very many.
static ZEROS: LazyLock<u32> = LazyLock::new(|| Checksum::default().then_zeros(BLOCK_BYTES).value());

/// Checksums of blocks, one after the other.
#[derive(Default)]
struct Blocks {
    done: Vec<u32>,
    current: Checksum,
    /// The current one has bytes.
    begun: bool,
}

impl Blocks {
    fn data(&mut self, position: u64, bytes: &[u8]) {
        self.current = self.current.then(bytes);
        self.advance(position + u64::try_from(bytes.len()).expect("a length fits 64 bits"));
    }

    fn zeros(&mut self, mut position: u64, mut length: u64) {
        while length > 0 {
            let part = length.min(BLOCK_BYTES - position % BLOCK_BYTES);
            if part == BLOCK_BYTES {
                self.done.push(*ZEROS);
            } else {
                self.current = self.current.then_zeros(part);
                self.advance(position + part);
            }
            position += part;
            length -= part;
        }
    }

    fn advance(&mut self, position: u64) {
        self.begun = true;
        if position.is_multiple_of(BLOCK_BYTES) {
            self.finish();
        }
    }

    fn finish(&mut self) {
        if std::mem::take(&mut self.begun) {
            self.done.push(std::mem::take(&mut self.current).value());
        }
    }
}

/// Where data comes next in `position..end`; empty at `end` if there is none.
fn next_data<F: OpenFile + ?Sized>(from: &Opened<F>, position: u64, end: u64) -> Result<Range<u64>, Fault> {
    if !from.sparse {
        return Ok(position..end);
    }
    let data = from.file.next_data(position).tried(&*from.tree, &from.path, "look for holes in")?;
    let data = data.unwrap_or(end..end);
    Ok(data.start.clamp(position, end)..data.end.clamp(position, end))
}

/// Reads some bytes, at least one.
fn read_some<'b, F: OpenFile + ?Sized>(
    context: &Context,
    from: &Opened<F>,
    offset: u64,
    block: &'b mut [u8],
) -> Result<&'b [u8], Fault> {
    check_going_on(context, from)?;
    let length =
        context.retrying_open(|| from.file.read_at(block, offset).tried(&*from.tree, &from.path, READ))?;
    match length {
        // The file is shorter than it was a moment ago.
        0 => Err(Fault::new(&*from.tree, &from.path, READ, Cause::Changed)),
        length => Ok(&block[..length]),
    }
}

fn check_going_on<F: OpenFile + ?Sized>(context: &Context, from: &Opened<F>) -> Result<(), Fault> {
    match context.monitor.is_stopping() {
        true => Err(Fault::new(&*from.tree, &from.path, READ, Cause::Stopped)),
        false => Ok(()),
    }
}
