//! Seals objects that have come to rest: in the background, many at a time, with one sync where that does for all.
//!
//! **Invariant:** what is sealed was durable before, and was not changed since its sums were made; sums of blocks that nobody
//! touched are never made from what is there now.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Weak};
use std::time::Duration;

use super::guard::Guard;
use super::log::Begun;
use super::report::Fault;
use super::scrub::Pace;
use super::{BLOCK, CHUNK_BLOCKS, CHUNK_BYTES, ChunkRef, Seal, sum_of};
use crate::fragment::extents::BLOCK_BYTES;
use crate::fragment::objects::{Objects, measure, next_data};

/// How long an object is left alone before it is sealed: what is being written is not summed again and again.
const REST: Duration = Duration::from_secs(10);

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
    let mut scrubs = super::scrub::Schedule::new();
    let mut failed = false;
    loop {
        std::thread::sleep(PERIOD);
        let Some(objects) = objects.upgrade().filter(|objects| !objects.keeper().is_closed()) else { return };
        let sealed = match is_first {
            true => objects.adopt(),
            false => Ok(()),
        };
        is_first = false;
        let sealed = sealed.and_then(|()| objects.seal_idle(REST, &mut Pace::new(Some(BYTES_PER_S))));
        if let Err(error) = &sealed
            && !failed
        {
            tracing::warn!(namespace, %error, "cannot seal objects: damage of their bytes will not be found");
        }
        failed = sealed.is_err();
        scrubs.turn(&objects, namespace);
    }
}

impl Objects {
    /// Takes note of the objects of former lives that have no seal.
    ///
    /// # Errors
    /// The errno of listing them.
    pub fn adopt(&self) -> io::Result<()> {
        for ino in self.list()? {
            if self.keeper().log.get(ino).is_none() && !self.keeper().is_queued(ino) {
                let adopt = |open: Option<&Arc<Guard>>| {
                    let guard = open.cloned().unwrap_or_else(|| Arc::new(Guard::new(ino, None, 0)));
                    let mut state = guard.lock();
                    if !state.queued && !self.keeper().is_queued(ino) {
                        state.queued = true;
                        self.keeper().queue(&guard);
                    }
                };
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
            for guard in batch {
                if self.keeper().is_closed() {
                    return Ok(());
                }
                prepared.extend(self.prepare(guard, idle, pace)?);
            }
            self.sync_all(&prepared)?;
            for object in prepared {
                self.finish(object)?;
            }
        }
        for ino in self.keeper().log.lapsed(idle) {
            let again = |open: Option<&Arc<Guard>>| match open {
                // Whoever changes it waits for this, or has put it into the queue.
                Some(guard) => {
                    let state = guard.lock();
                    if state.sealed { self.keeper().log.seal_again(ino) } else { Ok(()) }
                }
                None if self.keeper().is_queued(ino) => Ok(()),
                None => self.keeper().log.seal_again(ino),
            };
            self.while_none_opens(ino, again)?;
        }
        self.keeper().log.settle()
    }

    /// Makes an object's sums, if it is at rest.
    fn prepare(&self, guard: &Arc<Guard>, idle: Duration, pace: &mut Pace) -> io::Result<Option<Prepared>> {
        let ino = guard.ino();
        if guard.at_rest(idle).is_none() {
            return Ok(None);
        }
        let file = match File::open(self.path(ino)) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.keeper().settled(ino);
                return Ok(None);
            }
            Err(error) => return Err(error),
        };
        if !self.is_closed(ino)? {
            return Ok(None);
        }
        let begun = self.keeper().log.begin();
        let found = measure(&file)?;
        let Some((version, base, touched, same)) = ({
            guard.at_rest(idle).filter(|state| state.broken.is_none()).map(|state| {
                let ctime = (found.ctime.seconds, found.ctime.nanos);
                let same = state.handed.is_none_or(|handed| handed == (found.size, ctime));
                (state.version, state.base.clone().filter(|_| same), state.touched.clone(), same)
            })
        }) else {
            return Ok(None);
        };
        let is_durable = base.is_some() && same && touched.blocks() == 0;
        let mut object = Prepared {
            guard: guard.clone(),
            version,
            begun,
            file,
            length: found.size,
            mtime: (found.mtime.seconds, found.mtime.nanos),
            chunks: Vec::new(),
            faults: Vec::new(),
            is_durable,
        };
        let is_known = |block: u64| touched.missing(block..block + 1) == 1;
        let made = self.make_sums(&mut object, base.as_deref(), &is_known, pace);
        match made {
            Ok(()) => Ok(Some(object)),
            Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                // Its seal stays as it is, and so does what reads and scrubs say of it.
                tracing::error!(ino, %error, "cannot seal an object again");
                Ok(None)
            }
            // Nothing else is wrong: the others are sealed.
            Err(error) if error.raw_os_error() == Some(rustix::io::Errno::IO.raw_os_error()) => {
                tracing::error!(ino, %error, "cannot read an object to seal it");
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    fn make_sums(
        &self,
        object: &mut Prepared,
        base: Option<&Seal>,
        is_known: &impl Fn(u64) -> bool,
        pace: &mut Pace,
    ) -> io::Result<()> {
        let mut buffer = Vec::new();
        let mut index = 0;
        while index * CHUNK_BYTES < object.length {
            let blocks = index * CHUNK_BLOCKS..(index + 1) * CHUNK_BLOCKS;
            let all_known = base.is_some() && blocks.clone().all(is_known);
            let none_known = base.is_none() || !blocks.clone().any(is_known);
            let old = base.map(|base| base.sums(index)).transpose()?;
            if let (true, Some(old)) = (all_known, old) {
                self.put(object, index, &old)?;
                index += 1;
                continue;
            }
            // What is a hole has no sums, and is zeros; but what had some is looked at in any case.
            if none_known {
                let data = next_data(&object.file, index * CHUNK_BYTES)?;
                let next = data.map_or(u64::MAX, |data| data.start / CHUNK_BYTES);
                if next > index {
                    index = if base.is_none() { next } else { index + 1 };
                    if index == u64::MAX {
                        break;
                    }
                    continue;
                }
            }
            let mut sums = read_sums(&object.file, index, &mut buffer)?;
            pace.spent(buffer.len() as u64);
            for (block, sum) in (index * CHUNK_BLOCKS..).zip(&mut sums) {
                let Some(old) = old.filter(|_| is_known(block)) else { continue };
                let was = old[(block % CHUNK_BLOCKS) as usize];
                if *sum != was {
                    object.faults.push(Fault::Blocks { blocks: block..block + 1 });
                    *sum = was;
                }
            }
            self.put(object, index, &sums)?;
            index += 1;
        }
        Ok(())
    }

    /// Writes a chunk's sums; those of zeros at its end are left out.
    fn put(&self, object: &mut Prepared, index: u64, sums: &[u32]) -> io::Result<()> {
        let zeros = sum_of(&[]);
        let len = sums.iter().rposition(|sum| *sum != zeros).map_or(0, |last| last + 1);
        if len > 0 {
            object.chunks.push(self.keeper().log.write_sums(index, &sums[..len])?);
        }
        Ok(())
    }

    fn sync_all(&self, prepared: &[Prepared]) -> io::Result<()> {
        let mut dirty = prepared.iter().filter(|object| !object.is_durable).peekable();
        if dirty.peek().is_none() || self.sync_whole() {
            return Ok(());
        }
        // By descriptors of our own: an error that they are told is not kept from whoever calls fsync.
        dirty.try_for_each(|object| object.file.sync_all())
    }

    fn finish(&self, object: Prepared) -> io::Result<()> {
        let ino = object.guard.ino();
        if self.keeper().note(ino, object.faults.clone()) {
            let what: Vec<String> = object.faults.iter().map(Fault::described).collect();
            tracing::error!(ino, what = what.join("; "), "an object is damaged");
        }
        let Some(mut state) = object.guard.at_rest(Duration::ZERO) else { return Ok(()) };
        if state.version != object.version {
            return Ok(());
        }
        let sealed =
            self.keeper().log.seal(&object.begun, ino, (object.length, object.mtime), object.chunks)?;
        (state.base, state.sealed, state.queued, state.handed) = (Some(sealed), true, false, None);
        state.touched = crate::fragment::extents::Extents::default();
        self.keeper().settled(ino);
        Ok(())
    }
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
    sums.resize(CHUNK_BLOCKS as usize, sum_of(&[]));
    Ok(sums)
}
