//! Objects of which another node has a copy are repaired from it: at once where somebody uses one that is damaged, and
//! by scrubs.
//!
//! Owns when that is done and what is told of it; what may be written over is [`crate::integrity::repair`]'s to say.
//!
//! **Invariant:** what cannot be repaired stays as it is, and is told as it would be without another copy.

use std::fs::{File, OpenOptions};
use std::io;
use std::ops::Range;
use std::os::unix::fs::OpenOptionsExt;
use std::sync::Arc;

use model::{Ino, NodeName};

use super::{Object, Objects};
use crate::extents::BLOCK_BYTES;
use crate::integrity::other::{NotRead, OtherCopy};
use crate::integrity::repair::set_time;
use crate::integrity::report::Fault;
use crate::integrity::{CHUNK_BLOCKS, CHUNK_BYTES, next_chunk};

/// How often: one that is gone is made anew, as long as it was, then lacks blocks, and a change needs two of them.
const TURNS: usize = 4;

impl Objects {
    /// The same, of which this is another copy; it is not asked where somebody uses what is damaged here.
    pub fn with_other(self, other: Arc<dyn OtherCopy>) -> Objects {
        Objects { other: Some(other), ..self }
    }

    /// Uses an object, of which `blocks` are needed. Where it is not what was sealed, it is repaired, and used again.
    pub(super) fn repaired<T>(
        &self,
        ino: Ino,
        blocks: &Range<u64>,
        used: impl FnMut() -> io::Result<T>,
    ) -> io::Result<T> {
        let result = self.tried(ino, blocks, used);
        if let Some(fault) = result.as_ref().err().and_then(Fault::of)
            && self.keeper.lost.length(ino).is_none()
        {
            let _is_news = self.keeper.known.add(ino, &fault);
        }
        result
    }

    fn tried<T>(
        &self,
        ino: Ino,
        blocks: &Range<u64>,
        mut used: impl FnMut() -> io::Result<T>,
    ) -> io::Result<T> {
        let mut result = used();
        // A copy that is kept for another fragment is read by that alone, which asks for no more than there is.
        if self.mirror.is_none() {
            return result;
        }
        let mut repaired: Vec<Fault> = Vec::new();
        for _ in 0..TURNS {
            let Err(error) = &result else { break };
            let Some(fault) = Fault::of(error) else { return result };
            match self.repair(ino, &fault, blocks.end) {
                Ok(true) => repaired.push(fault),
                Ok(false) => return result,
                Err(failed) => {
                    tracing::error!(%ino, error = %failed, "a damaged object cannot be repaired");
                    return result;
                }
            }
            result = used();
        }
        if let (true, Some(first)) = (result.is_ok(), repaired.first()) {
            self.tell_repaired(ino, first);
            self.keeper.repaired(ino, blocks);
        }
        result
    }

    /// Repairs what is wrong with an object, and what else is among the blocks up to `end`. Whether anything was.
    ///
    /// # Errors
    /// The errno of what failed here.
    pub fn repair(&self, ino: Ino, fault: &Fault, end: u64) -> io::Result<bool> {
        let Some(other) = &self.other else { return Ok(false) };
        match fault {
            Fault::Missing { .. } => Ok(has(&**other, ino) && self.put_back(ino)?),
            Fault::Length { .. } => match self.in_place(ino)? {
                Some(object) => Ok(has(&**other, ino) && object.guard.repair_length(&object.file)?),
                None => Ok(false),
            },
            Fault::Blocks { blocks } => {
                self.repair_blocks(ino, blocks.start..end.max(blocks.end), false).map(|count| count > 0)
            }
            Fault::Unreadable { block, .. } => {
                self.repair_blocks(ino, *block..end.max(block + 1), false).map(|count| count > 0)
            }
            Fault::Sums { .. } | Fault::Unopened { .. } => Ok(false),
        }
    }

    /// The same of all that a scrub has found on the disk, whatever the page cache has.
    ///
    /// # Errors
    /// As [`Objects::repair`].
    pub fn repair_all(&self, ino: Ino, faults: &[Fault], length: u64) -> io::Result<()> {
        for fault in faults {
            match fault {
                Fault::Missing { .. } | Fault::Length { .. } => {
                    if self.repair(ino, fault, 0)? {
                        self.repair_blocks(ino, 0..length.div_ceil(BLOCK_BYTES), false)?;
                    }
                }
                Fault::Blocks { blocks } => drop(self.repair_blocks(ino, blocks.clone(), true)?),
                Fault::Unreadable { block, .. } => {
                    let rest = (block / CHUNK_BLOCKS + 1) * CHUNK_BLOCKS;
                    self.repair_blocks(ino, *block..rest, true)?;
                }
                Fault::Sums { .. } | Fault::Unopened { .. } => {}
            }
        }
        Ok(())
    }

    /// Reads all of an object, so that whatever is damaged is repaired.
    ///
    /// # Errors
    /// Something is damaged and cannot be.
    pub fn read_all(&self, ino: Ino) -> io::Result<()> {
        let mut buffer = vec![0; CHUNK_BYTES as usize];
        let mut at = 0;
        while let Some(data) = self.next_data(ino, at)? {
            at = data.start;
            while at < data.end {
                let len = usize::try_from(data.end - at).unwrap_or(buffer.len()).min(buffer.len());
                match self.read(ino, at, &mut buffer[..len])? {
                    0 => return Ok(()),
                    read => at += read as u64,
                }
            }
        }
        Ok(())
    }

    /// Says what was repaired.
    pub fn tell_repaired(&self, ino: Ino, fault: &Fault) {
        let from = self.other.as_ref().map_or_else(NodeName::default, |other| other.node());
        let (object, what) = (self.path(ino), fault.described());
        let object = object.display();
        tracing::warn!(%ino, %object, what, ?from, "an object was damaged, and was repaired from its other copy");
    }

    /// Whether they have another copy.
    pub fn has_other(&self) -> bool {
        self.other.is_some()
    }

    /// How many blocks were repaired; with `all`, also such as look right in the page cache.
    fn repair_blocks(&self, ino: Ino, blocks: Range<u64>, all: bool) -> io::Result<usize> {
        let Some(object) = self.in_place(ino)? else { return Ok(0) };
        let Some(seal) = object.guard.lock().base.clone() else { return Ok(0) };
        let mut count = 0;
        let mut start = blocks.start;
        while start < blocks.end
            && let Some(index) = next_chunk(&object.file, Some(&seal), start / CHUNK_BLOCKS)?
        {
            self.keeper.check_open()?;
            let end = blocks.end.min((index + 1) * CHUNK_BLOCKS);
            for run in object.guard.to_repair(&object.file, start.max(index * CHUNK_BLOCKS)..end, all) {
                count += match self.repair_run(ino, &object, run.clone()) {
                    Err(NotRead::Damaged(_)) if run.end - run.start > 1 => {
                        let one = |block| self.repair_run(ino, &object, block..block + 1).unwrap_or(Ok(0));
                        run.map(one).sum::<io::Result<usize>>()?
                    }
                    Err(error) => {
                        tracing::debug!(%ino, %error, "the other copy of a damaged object cannot be read");
                        return Ok(count);
                    }
                    Ok(repaired) => repaired?,
                };
            }
            start = end;
        }
        if count > 0 {
            // By a descriptor of our own: an error is not kept from whoever calls fsync.
            File::open(self.path(ino))?.sync_data()?;
        }
        Ok(count)
    }

    fn repair_run(&self, ino: Ino, object: &Object, run: Range<u64>) -> Result<io::Result<usize>, NotRead> {
        let Some(other) = &self.other else { return Ok(Ok(0)) };
        let len = u32::try_from((run.end - run.start) * BLOCK_BYTES).expect("a run is of one chunk at most");
        let bytes = other.read(ino, run.start * BLOCK_BYTES, len)?;
        let mut count = 0;
        for (number, block) in run.enumerate() {
            let start = (number * BLOCK_BYTES as usize).min(bytes.len());
            let end = (start + BLOCK_BYTES as usize).min(bytes.len());
            let admitted = self.admit_again(ino, block..block + 1);
            match object.guard.repair(&object.file, block, &bytes[start..end]) {
                Ok(true) => {
                    admitted.spend(object);
                    count += 1;
                }
                Ok(false) => {}
                Err(error) => return Ok(Err(error)),
            }
        }
        Ok(Ok(count))
    }

    /// Makes an object anew that was sealed and is gone: as long as it was, and without a byte. Whether there is one.
    fn put_back(&self, ino: Ino) -> io::Result<bool> {
        let _nobody_replaces_it = self.keeper.absent();
        let was = self.keeper.must_have(ino);
        let Some(sealed) = self.keeper.log.get(ino).filter(|_| was > 0 && !self.keeper.is_queued(ino)) else {
            return Ok(false);
        };
        if self.keeper.lost.length(ino).is_some() {
            return Ok(false);
        }
        let mut open = self.opened();
        let path = self.path(ino);
        if disk::exists(&path)? {
            return Ok(true);
        }
        if let Some(object) = open.get(ino) {
            if !object.guard.is_untouched() {
                return Ok(false);
            }
            open.remove(ino);
        }
        disk::make_folder(path.parent().expect("an object lies in a folder"))?;
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
        file.set_len(was)?;
        set_time(&file, sealed.seal.mtime)?;
        file.sync_all()?;
        disk::sync_names(&path)?;
        Ok(true)
    }
}

/// Whether the other copy has something of an object that has bytes.
fn has(other: &dyn OtherCopy, ino: Ino) -> bool {
    other.read(ino, 0, 1).is_ok_and(|bytes| !bytes.is_empty())
}
