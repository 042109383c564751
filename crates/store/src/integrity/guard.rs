//! What is known of one object's checksums while it is used: which blocks nobody has touched since they were summed.
//!
//! **Invariant:** before a byte of an object changes, its seal is lifted durably, and the blocks that change are not
//! checked any more until they are summed anew. A block that is changed in part is checked first: what is wrong in the
//! rest of it must not be summed as if it were right.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use model::Ino;

use super::handed::Handed;
use super::log::{SealLog, Sealed};
use super::report::Fault;
use super::{BLOCK, BLOCKS_MAX, CHUNK_BLOCKS, Seal, sum_of};
use crate::extents::{BLOCK_BYTES, Extents, blocks_inside, blocks_touched};

/// An object that was changed in more pieces than this is summed anew as a whole.
const PIECES_MAX: usize = 4096;

/// What is known of an object's sums.
#[derive(Debug)]
pub struct Guard {
    ino: Ino,
    state: Mutex<State>,
}

/// See [`Guard`].
#[derive(Debug)]
pub struct State {
    /// Counts changes.
    pub version: u64,
    writers: u32,
    /// The seal that was made last.
    pub base: Option<Arc<Seal>>,
    /// Blocks that `base` does not know any more.
    pub touched: Extents,
    /// The log may still say that the object is as `base` has it.
    pub sealed: bool,
    /// What it was like when it was handed out: from when that is not so any more, whoever has it may have changed
    /// anything.
    pub handed: Option<Handed>,
    /// It is not what was sealed, and not to be used.
    pub broken: Option<Fault>,
    /// It waits to be sealed.
    pub queued: bool,
    /// It is being removed: nobody seals it any more.
    pub removed: bool,
    changed: Instant,
}

/// What is about to happen to an object.
#[derive(Clone, Debug)]
pub enum Change {
    /// These bytes are written.
    Write(Range<u64>),
    /// It ends here.
    Resize(u64),
    /// Its space changes; no bytes do.
    Space,
    /// It ends here, unless it is longer already; the space up to here is taken.
    Grow(u64),
}

impl Change {
    /// Those that change in an object of `length` bytes.
    pub(super) fn blocks(&self, length: u64) -> Range<u64> {
        match self {
            Change::Write(bytes) => blocks_touched(bytes.clone()),
            Change::Resize(size) => size / BLOCK_BYTES..BLOCKS_MAX,
            Change::Grow(end) if *end > length => blocks_touched(*end - 1..*end),
            Change::Grow(_) | Change::Space => 0..0,
        }
    }

    /// Blocks that keep some of their bytes, in an object of `length` bytes.
    fn cut(&self, length: u64) -> impl Iterator<Item = u64> {
        let (touched, inside) = match self {
            Change::Write(bytes) => (blocks_touched(bytes.clone()), blocks_inside(bytes.clone())),
            Change::Resize(size) => (blocks_touched(*size / BLOCK_BYTES * BLOCK_BYTES..*size), 0..0),
            Change::Grow(_) | Change::Space => (self.blocks(length), 0..0),
        };
        let first = (!touched.is_empty()).then_some(touched.start);
        let last = touched.end.checked_sub(1).filter(|last| Some(*last) != first && touched.contains(last));
        first.into_iter().chain(last).filter(move |block| !inside.contains(block))
    }

    /// Whether nothing of an object of `length` bytes is left.
    pub fn replaces(&self, length: u64) -> bool {
        match self {
            Change::Write(bytes) => bytes.start == 0 && bytes.end >= length,
            Change::Resize(size) => *size == 0,
            Change::Grow(_) | Change::Space => false,
        }
    }
}

/// A change that is under way, until it is dropped.
#[derive(Debug)]
pub struct Changing<'a>(&'a Guard);

impl Drop for Changing<'_> {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.writers -= 1;
        state.changed = Instant::now();
    }
}

impl Guard {
    /// Of an object that is opened, with what the log says of it, and its length.
    pub fn new(ino: Ino, sealed: Option<Sealed>, length: u64) -> Guard {
        let broken = sealed.as_ref().filter(|sealed| sealed.seal.length != length);
        let broken = broken.map(|sealed| Fault::Length { is: length, was: sealed.seal.length });
        let state = State {
            version: 0,
            writers: 0,
            broken,
            // One that is lifted for a neighbour's sake is sealed again, also while the object is open.
            sealed: sealed.is_some(),
            base: sealed.map(|sealed| sealed.seal),
            touched: Extents::default(),
            handed: None,
            queued: false,
            removed: false,
            changed: Instant::now(),
        };
        Guard { ino, state: Mutex::new(state) }
    }

    /// The object's number.
    pub fn ino(&self) -> Ino {
        self.ino
    }

    /// Lets a change begin. `queue` is told once, to have the object sealed later.
    ///
    /// # Errors
    /// EIO where the object, or a block that keeps some of its bytes, is not what was sealed; else the log's.
    pub fn change(
        &self,
        log: &SealLog,
        file: &File,
        change: &Change,
        queue: impl FnOnce(),
    ) -> io::Result<Changing<'_>> {
        let mut state = self.lock();
        state.look_at_length(file, change)?;
        let length = state.base.as_ref().map_or(0, |base| base.length);
        let replaced = state.base.as_ref().is_some_and(|base| change.replaces(state.longest(base)));
        if let Some(fault) = state.broken.clone().filter(|_| !replaced) {
            return Err(fault.error(self.ino));
        }
        // First: a change that is refused leaves the seal as it is, and the damage known after a restart.
        for block in change.cut(length) {
            if !replaced && state.knows(file, block).is_some() {
                state.check(self.ino, file, block)?;
            }
        }
        if state.sealed {
            log.lift(self.ino)?;
            state.sealed = false;
        }
        if replaced {
            (state.base, state.broken, state.touched) = (None, None, Extents::default());
        }
        if state.base.is_some() {
            state.touched.insert(change.blocks(length));
            if state.touched.pieces() > PIECES_MAX {
                (state.base, state.touched) = (None, Extents::default());
            }
        }
        state.begin(queue);
        state.writers += 1;
        Ok(Changing(self))
    }

    /// Notes that the object is handed out, and may be changed behind our back: it was `found` so, and what changes it
    /// from here on gives it another time of change.
    ///
    /// # Errors
    /// As [`Guard::change`].
    pub fn hand_out(&self, log: &SealLog, found: Handed, queue: impl FnOnce()) -> io::Result<()> {
        let mut state = self.lock();
        if let Some(fault) = &state.broken {
            return Err(fault.error(self.ino));
        }
        if state.sealed {
            log.lift(self.ino)?;
            state.sealed = false;
        }
        // Whoever has it may only read it, or write nothing: its time of change will tell.
        // What it was like when the first had it counts.
        state.handed.get_or_insert(found);
        state.begin(queue);
        Ok(())
    }

    /// Its state, if nobody changes it and nobody did for `idle`.
    pub fn at_rest(&self, idle: Duration) -> Option<MutexGuard<'_, State>> {
        let is_at_rest =
            |state: &MutexGuard<'_, State>| state.writers == 0 && state.changed.elapsed() >= idle;
        Some(self.lock()).filter(|state| is_at_rest(state) && !state.removed)
    }

    /// It cannot be sealed now: it is tried again when it has rested as long as after a change.
    pub fn rest_anew(&self) {
        self.lock().changed = Instant::now();
    }

    /// Its state.
    pub fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no thread panics while it holds the state of an object's sums")
    }
}

impl State {
    fn begin(&mut self, queue: impl FnOnce()) {
        self.version += 1;
        self.changed = Instant::now();
        if !self.queued {
            self.queued = true;
            queue();
        }
    }

    /// Whether somebody is changing it.
    pub fn is_written(&self) -> bool {
        self.writers > 0
    }

    /// How long the object is or was, at most.
    fn longest(&self, base: &Seal) -> u64 {
        match self.broken {
            Some(Fault::Length { is, .. }) => is.max(base.length),
            _ => base.length,
        }
    }

    /// The seal that blocks which are not `touched` are still as it says; `None` where nothing is known. What was read
    /// before this is asked is what it says of.
    pub fn seal(&self, file: &File) -> Option<&Arc<Seal>> {
        self.base.as_ref().filter(|_| self.handed.is_none_or(|handed| handed.is_unchanged(file)))
    }

    /// Whether somebody has said that the block changes.
    pub fn is_touched(&self, block: u64) -> bool {
        self.touched.missing(block..block + 1) == 0
    }

    /// The seal that the block is still as it says; `None` where nothing is known. Asked after the block was read.
    pub fn knows(&self, file: &File, block: u64) -> Option<&Arc<Seal>> {
        if self.is_touched(block) { None } else { self.seal(file) }
    }

    /// Checks a block while nothing can change it, and gives its bytes.
    ///
    /// # Errors
    /// EIO where it is not what was sealed.
    pub fn check(&self, ino: Ino, file: &File, block: u64) -> io::Result<[u8; BLOCK]> {
        let bytes = read_block(file, block)?;
        let Some(seal) = self.knows(file, block) else { return Ok(bytes) };
        let sums = seal.sums(block / CHUNK_BLOCKS).map_err(|_| Fault::Sums { block }.error(ino))?;
        if sums[(block % CHUNK_BLOCKS) as usize] == sum_of(&bytes) {
            return Ok(bytes);
        }
        Err(Fault::Blocks { blocks: block..block + 1 }.error(ino))
    }
}

/// A block's bytes, with zeros after the object's end.
fn read_block(file: &File, block: u64) -> io::Result<[u8; BLOCK]> {
    let mut bytes = [0; BLOCK];
    let mut done = 0;
    while done < BLOCK {
        match file.read_at(&mut bytes[done..], block * BLOCK_BYTES + done as u64) {
            Ok(0) => break,
            Ok(read) => done += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(bytes)
}
