//! Seals objects that have come to rest: in the background, many at a time, with one sync where that does for all.
//!
//! **Invariant:** what is sealed was durable before, and was not changed since its sums were made; sums of blocks that
//! nobody touched are never made from what is there now.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::{Arc, MutexGuard, OnceLock, Weak};
use std::time::Duration;

use super::guard::{Guard, State};
use super::log::{Begun, Sums};
use super::report::Fault;
use super::schedule::Schedule;
use super::scrub::Pace;
use super::{BLOCK, CHUNK_BLOCKS, CHUNK_BYTES, ChunkRef, SUM_OF_ZEROS, Seal, sum_of};
use crate::extents::{BLOCK_BYTES, Extents};
use crate::measure::{measure, next_data};
use crate::objects::Objects;

/// How long an object is left alone before it is sealed: what is being written is not summed again and again.
const REST: Duration = Duration::from_secs(10);

/// The same, where the process was told otherwise.
static REST_OF_PROCESS: OnceLock<Duration> = OnceLock::new();

/// How often objects at rest are looked for.
const PERIOD: Duration = Duration::from_secs(1);

/// Bytes a second that are read for sealing: most are in the page cache still.
const BYTES_PER_S: u64 = 256 << 20;

/// Objects that share a sync.
const BATCH: usize = 512;

/// An object whose sums are made and that is to be synced.
struct Prepared {
    guard: Arc<Guard>,
    version: u64,
    begun: Begun,
    file: File,
    length: u64,
    mtime: (i64, u32),
    chunks: Vec<ChunkRef>,
    /// Blocks that are not what they were: their old sums are kept.
    faults: Vec<Fault>,
    /// It was only looked at.
    is_durable: bool,
}

/// Has objects of this process sealed when nobody changed them for `rest`: the first call counts.
pub fn seal_after(rest: Duration) {
    let _set = REST_OF_PROCESS.set(rest);
}

/// How long an object is left alone before it is sealed.
pub fn rest() -> Duration {
    REST_OF_PROCESS.get().copied().unwrap_or(REST)
}

/// What is known of an object that was sealed before.
struct Known {
    base: Arc<Seal>,
    /// Blocks that `base` does not know any more.
    touched: Extents,
}

/// Starts the thread that seals what comes to rest. It ends when the objects are closed.
pub fn start(objects: &Arc<Objects>, namespace: u32) {
    let objects = Arc::downgrade(objects);
    let run = move || run(&objects, namespace);
    if let Err(error) = std::thread::Builder::new().name("sealer".into()).spawn(run) {
        tracing::error!(%error, "no thread to seal objects: damage of their bytes will not be found");
    }
}

fn run(objects: &Weak<Objects>, namespace: u32) {
    let mut is_first = true;
    let mut scrubs = None;
    let mut failed = false;
    loop {
        std::thread::sleep(PERIOD.min(rest()));
        let Some(objects) = objects.upgrade().filter(|objects| !objects.keeper().is_closed()) else { return };
        let sealed = match is_first {
            true => objects.adopt(),
            false => Ok(()),
        };
        is_first = false;
        let sealed = sealed.and_then(|()| objects.seal_idle(rest(), &mut Pace::new(Some(BYTES_PER_S))));
        if let Err(error) = &sealed
            && !failed
        {
            tracing::warn!(namespace, %error, "cannot seal objects: damage of their bytes will not be found");
        }
        failed = sealed.is_err();
        scrubs.get_or_insert_with(|| Schedule::of(&objects)).turn(&objects, namespace);
    }
}

impl Objects {
    /// Takes note of the objects of former lives that have no seal.
    ///
    /// # Errors
    /// The errno of listing them.
    pub fn adopt(&self) -> io::Result<()> {
        for ino in self.list()? {
            // In this order: what is in the queue no longer is sealed.
            let is_known = || self.keeper().is_queued(ino) || self.keeper().log.get(ino).is_some();
            let adopt = |open: Option<&Arc<Guard>>| {
                if is_known() {
                    return;
                }
                let guard = open.cloned().unwrap_or_else(|| Arc::new(Guard::new(ino, None, 0)));
                let mut state = guard.lock();
                if !state.queued && !state.removed {
                    state.queued = true;
                    self.keeper().queue(&guard);
                }
            };
            if !is_known() {
                self.while_none_opens(ino, adopt);
            }
        }
        Ok(())
    }

    /// Seals the objects that nobody changed for `idle`. How many were sealed, and how many are still being changed.
    ///
    /// # Errors
    /// The errno of the log or of a sync. An object that cannot be read is noted as damaged.
    pub fn seal_idle(&self, idle: Duration, pace: &mut Pace) -> io::Result<()> {
        let _alone = self.keeper().sealing.lock().expect("no thread panics while it seals");
        let queued = self.keeper().queued();
        for batch in queued.chunks(BATCH) {
            let mut prepared = Vec::new();
            self.sync_before_closing(batch.iter().map(|guard| guard.ino()), idle);
            for guard in batch {
                if self.keeper().is_closed() {
                    return Ok(());
                }
                match self.prepare(guard, idle, pace) {
                    Ok(object) => prepared.extend(object),
                    Err(error) => self.set_aside(guard, error)?,
                }
            }
            for object in self.synced(prepared) {
                self.finish(object)?;
            }
        }
        self.seal_lapsed(idle)?;
        self.keeper().settle()
    }

    /// An object that cannot be sealed is noted as damaged where that is about itself: the others are sealed. Its seal
    /// stays as it is, and so does what reads say of it.
    fn set_aside(&self, guard: &Guard, error: io::Error) -> io::Result<()> {
        self.note_fault(guard.ino(), &Fault::of(&error).ok_or(error)?);
        guard.rest_anew();
        Ok(())
    }

    /// Seals those again that were lifted or released for a neighbour's sake.
    fn seal_lapsed(&self, idle: Duration) -> io::Result<()> {
        for ino in self.keeper().log.lapsed(idle) {
            let again = |open: Option<&Arc<Guard>>| match open {
                // Whoever changes it waits for this, or has put it into the queue.
                Some(guard) => {
                    let state = guard.lock();
                    if state.sealed { self.keeper().log.seal_again(ino) } else { Ok(()) }
                }
                None if self.keeper().is_queued(ino) => Ok(()),
                None => self.seal_again(ino),
            };
            self.while_none_opens(ino, again)?;
        }
        Ok(())
    }

    fn seal_again(&self, ino: u64) -> io::Result<()> {
        let log = &self.keeper().log;
        // In a former life it may have been removed, as was noted.
        if log.get(ino).is_some_and(|sealed| sealed.released) {
            match disk::exists(&self.path(ino)) {
                Ok(true) => {}
                Ok(false) => {
                    log.forget(ino);
                    return Ok(());
                }
                Err(error) => {
                    let error = self.unopened(ino, error);
                    self.note_fault(ino, &Fault::of(&error).ok_or(error)?);
                    return Ok(());
                }
            }
        }
        log.seal_again(ino)
    }

    /// Makes an object's sums, if it is at rest.
    fn prepare(&self, guard: &Arc<Guard>, idle: Duration, pace: &mut Pace) -> io::Result<Option<Prepared>> {
        let ino = guard.ino();
        // First: whoever changes the object from here on is seen to have done so in the end.
        let Some((version, known, handed)) = snapshot(guard, idle) else {
            if guard.lock().removed {
                self.keeper().settled(ino);
            }
            return Ok(None);
        };
        let file = match File::open(self.path(ino)) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.keeper().settled(ino);
                return Ok(None);
            }
            Err(error) => return Err(self.unopened(ino, error)),
        };
        if !self.is_closed(ino)? {
            guard.rest_anew();
            return Ok(None);
        }
        let begun = self.keeper().log.begin();
        let found = measure(&file).map_err(|error| self.unopened(ino, error))?;
        let same = handed.is_none_or(|was| was == (found.size, (found.ctime.seconds, found.ctime.nanos)));
        let known = known.filter(|_| same);
        let fault_of_length = |known: &Known| known.base.fault_of_length(&known.touched, found.size);
        if let Some(fault) = known.as_ref().and_then(fault_of_length) {
            // Unless it was changed since the snapshot, by whoever may.
            if let Some(mut state) = unchanged(guard, version) {
                tracing::error!(ino, what = fault.described(), "an object is damaged");
                state.broken = Some(fault);
            }
            return Ok(None);
        }
        let mut object = Prepared {
            guard: guard.clone(),
            version,
            begun,
            file,
            length: found.size,
            mtime: (found.mtime.seconds, found.mtime.nanos),
            chunks: Vec::new(),
            faults: Vec::new(),
            // Space that was allocated beyond the end has no blocks that were touched, and a length that a power loss
            // takes back.
            is_durable: known
                .as_ref()
                .is_some_and(|known| known.touched.blocks() == 0 && known.base.length == found.size),
        };
        self.make_sums(&mut object, known.as_ref(), pace)?;
        Ok(Some(object))
    }

    fn make_sums(&self, object: &mut Prepared, known: Option<&Known>, pace: &mut Pace) -> io::Result<()> {
        let ino = object.guard.ino();
        let mut buffer = Vec::new();
        let mut index = 0;
        while index * CHUNK_BYTES < object.length {
            let blocks = index * CHUNK_BLOCKS..(index + 1) * CHUNK_BLOCKS;
            let known_here = known.map_or(0, |known| known.touched.missing(blocks.clone()));
            if known_here == 0 {
                // What is a hole has no sums, and is zeros.
                let data = next_data(&object.file, index * CHUNK_BYTES)
                    .map_err(|error| Fault::of_read(ino, index * CHUNK_BYTES, error))?;
                let next = data.map_or(u64::MAX, |data| data.start / CHUNK_BYTES);
                if next > index {
                    // What comes then may be known to have been more than a hole.
                    index = if known.is_none() { next } else { index + 1 };
                    if index == u64::MAX {
                        break;
                    }
                    continue;
                }
            }
            let old = known.map(|known| known.base.sums(index)).transpose();
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
            index += 1;
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

    /// Those that are durable now. By descriptors of our own: an error that they are told is not kept from whoever
    /// calls fsync.
    fn synced(&self, prepared: Vec<Prepared>) -> Vec<Prepared> {
        if prepared.iter().all(|object| object.is_durable) || self.sync_whole() {
            return prepared;
        }
        let is_durable = |object: &Prepared| {
            let synced = if object.is_durable { Ok(()) } else { object.file.sync_all() };
            if let Err(error) = &synced {
                tracing::error!(ino = object.guard.ino(), %error, "cannot sync an object to seal it");
                object.guard.rest_anew();
            }
            synced.is_ok()
        };
        prepared.into_iter().filter(is_durable).collect()
    }

    fn finish(&self, object: Prepared) -> io::Result<()> {
        let ino = object.guard.ino();
        // What was changed meanwhile may differ rightly from what it was.
        let Some(mut state) = unchanged(&object.guard, object.version) else { return Ok(()) };
        if self.keeper().known.set(ino, object.faults.clone()) {
            let what: Vec<String> = object.faults.iter().map(Fault::described).collect();
            tracing::error!(ino, what = what.join("; "), "an object is damaged");
        }
        let sealed =
            self.keeper().log.seal(&object.begun, ino, (object.length, object.mtime), object.chunks)?;
        (state.base, state.sealed, state.queued, state.handed) = (Some(sealed), true, false, None);
        state.touched = Extents::default();
        self.keeper().settled(ino);
        Ok(())
    }
}

impl Prepared {
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

/// What is to be sealed, if it is at rest: its version, what is known of it, and what it was like when it was handed
/// out.
#[expect(clippy::type_complexity, reason = "it is taken apart at once")]
fn snapshot(guard: &Guard, idle: Duration) -> Option<(u64, Option<Known>, Option<(u64, (i64, u32))>)> {
    let state = guard.at_rest(idle).filter(|state| state.broken.is_none())?;
    let known = state.base.clone().map(|base| Known { base, touched: state.touched.clone() });
    Some((state.version, known, state.handed))
}

/// The object's state, if nobody has changed it since it had this version, and nobody is about to.
fn unchanged(guard: &Guard, version: u64) -> Option<MutexGuard<'_, State>> {
    guard.at_rest(Duration::ZERO).filter(|state| state.version == version)
}

/// The sums of what is there of a chunk now; `buffer` keeps its bytes.
pub fn read_sums(file: &File, index: u64, buffer: &mut Vec<u8>) -> io::Result<Vec<u32>> {
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
