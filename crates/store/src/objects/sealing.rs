//! Seals objects that have come to rest: many at a time, with one sync where that does for all.
//!
//! **Invariant:** what is sealed was durable before, and was not changed since its sums were made; sums of blocks that
//! nobody touched are never made from what is there now.

mod sums;

use std::fs::File;
use std::io;
use std::sync::{Arc, MutexGuard};
use std::time::Duration;

use model::Ino;

use super::Objects;
use crate::extents::Extents;
use crate::integrity::guard::{Guard, State};
use crate::integrity::handed::Handed;
use crate::integrity::log::Begun;
use crate::integrity::pace::Pace;
use crate::integrity::report::Fault;
use crate::integrity::{ChunkRef, Seal};
use crate::measure::measure;

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

/// What is known of an object that was sealed before.
struct Known {
    base: Arc<Seal>,
    /// Blocks that `base` does not know any more.
    touched: Extents,
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
                match self.prepare(guard, idle, pace) {
                    _ if self.keeper().is_closed() => return Ok(()),
                    Ok(object) => prepared.extend(object),
                    Err(error) => self.note_unsealable(guard, error)?,
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
    fn note_unsealable(&self, guard: &Guard, error: io::Error) -> io::Result<()> {
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

    fn seal_again(&self, ino: Ino) -> io::Result<()> {
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
        let Some(file) = self.open_at_rest(guard)? else { return Ok(None) };
        let begun = self.keeper().log.begin();
        let found = measure(&file).map_err(|error| self.unopened(ino, error))?;
        let same = handed.is_none_or(|was| was.is(&found));
        let known = known.filter(|_| same);
        let fault_of_length = |known: &Known| known.base.fault_of_length(&known.touched, found.size);
        if let Some(fault) = known.as_ref().and_then(fault_of_length) {
            // Unless it was changed since the snapshot, by whoever may.
            if let Some(mut state) = unchanged(guard, version) {
                tracing::error!(%ino, what = fault.described(), "an object is damaged");
                state.broken = Some(fault);
            }
            return Ok(None);
        }
        let is_as_sealed = |known: &Known| known.touched.blocks() == 0 && known.base.length == found.size;
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
            is_durable: known.as_ref().is_some_and(is_as_sealed),
        };
        self.make_sums(&mut object, known.as_ref(), pace)?;
        Ok(Some(object))
    }

    /// The file of an object that is to be sealed; `None` where it is gone, or somebody may still write to it.
    fn open_at_rest(&self, guard: &Guard) -> io::Result<Option<File>> {
        let ino = guard.ino();
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
        Ok(Some(file))
    }

    /// Those that are durable now. By descriptors of our own, which may be told an error that no other will be told any
    /// more: whoever calls fsync hears of it.
    fn synced(&self, prepared: Vec<Prepared>) -> Vec<Prepared> {
        if prepared.iter().all(|object| object.is_durable) || self.sync_whole() {
            return prepared;
        }
        let is_durable = |object: &Prepared| {
            let synced = if object.is_durable { Ok(()) } else { object.file.sync_all() };
            if let Err(error) = &synced {
                let ino = object.guard.ino();
                self.syncs.failed(ino, &self.path(ino), error);
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
            tracing::error!(%ino, what = what.join("; "), "an object is damaged");
        }
        let sealed =
            self.keeper().log.seal(&object.begun, ino, (object.length, object.mtime), object.chunks)?;
        (state.base, state.sealed, state.queued, state.handed) = (Some(sealed), true, false, None);
        state.touched = Extents::default();
        self.keeper().settled(ino);
        Ok(())
    }
}

/// What is to be sealed, if it is at rest: its version, what is known of it, and what it was like when it was handed
/// out.
fn snapshot(guard: &Guard, idle: Duration) -> Option<(u64, Option<Known>, Option<Handed>)> {
    let state = guard.at_rest(idle).filter(|state| state.broken.is_none())?;
    let known = state.base.clone().map(|base| Known { base, touched: state.touched.clone() });
    Some((state.version, known, state.handed))
}

/// The object's state, if nobody has changed it since it had this version, and nobody is about to.
fn unchanged(guard: &Guard, version: u64) -> Option<MutexGuard<'_, State>> {
    guard.at_rest(Duration::ZERO).filter(|state| state.version == version)
}
