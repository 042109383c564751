//! The log of seals of one namespace on one fragment.
//!
//! ```text
//! file  := head entry*
//! head  := "FRBYSUMS" 2:u32le crc32c:u32le generation:u64le len:u32le owner[len]   crc32c covers what follows it
//! entry := len:u32le crc32c:u32le sequence:u64le body[len]        crc32c covers sequence and body
//! body  := 0 sums[]:u32le | 1 postcard(SealRecord) | 2 first:u64le last:u64le | 3 first:u64le last:u64le
//! ```
//!
//! Sums come before the seal that refers to them. A note of the kind 2 lifts the seals of all objects in its range:
//! their bytes may change. One of the kind 3 says that these objects may be removed: their sums count as before. Both
//! are durable before [`SealLog::lift`] and [`SealLog::release`] return ([`notes`]). Other entries need not be: who
//! loses them in a crash loses sums that were about to count, and nothing else. How far it was synced is kept beside it
//! ([`mark`]).
//!
//! **Invariant:** where an entry does not match its checksum and a lift may have come after it, no seal counts any
//! more; where that entry had been synced, its loss is told ([`opening`]).

mod broken;
mod end;
mod head;
mod mark;
mod notes;
pub mod opening;
mod replay;

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io;
use std::ops::Bound;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use model::Ino;
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use wire::node::FragmentSpec;

use self::end::End;
use self::head::Head;
use super::{CHUNK_BLOCKS, ChunkRef, Seal};

/// Kinds of notes about a range of objects.
const LIFTED: u8 = 2;
const RELEASED: u8 = 3;

/// The sums of one chunk.
pub type Sums = [u32; CHUNK_BLOCKS as usize];

/// No entry is longer: the seal of an object of some 8 TiB.
const BODY_BYTES_MAX: usize = 256 << 20;

/// What is not synced yet is at most so long, but for one entry.
const UNSYNCED_BYTES_MAX: u64 = 4 << 20;

/// The log is written anew when it is this long and much of it is of no use any more.
const COMPACT_BYTES_MIN: u64 = 32 << 20;

/// Where a log is, and whose objects are sealed in it, in words: a log at another's place is refused.
#[derive(Clone, Debug)]
pub struct Place {
    /// Its path.
    pub path: PathBuf,
    /// Whose.
    pub owner: String,
}

impl Place {
    /// That of a namespace's objects in the fragment below `folder`.
    pub fn of(folder: &Path, spec: &FragmentSpec, namespace: u32) -> Place {
        let path = folder.join("sums").join(format!("{namespace}.log"));
        let FragmentSpec { instance, index, .. } = spec;
        Place { path, owner: format!("namespace {namespace} on fragment {index} of instance {instance}") }
    }

    /// That of the mirror there of another fragment's objects.
    pub fn of_mirror(folder: &Path, spec: &FragmentSpec, namespace: u32) -> Place {
        let Place { owner, .. } = Place::of(folder, spec, namespace);
        let path = folder.join("sums").join(format!("mirror-{namespace}.log"));
        Place { path, owner: format!("the mirror in {owner}") }
    }
}

/// The log, and what is sealed.
#[derive(Debug)]
pub struct SealLog {
    path: PathBuf,
    end: Mutex<End>,
    index: RwLock<BTreeMap<Ino, Sealed>>,
}

/// The seal of one object.
#[derive(Clone, Debug)]
pub struct Sealed {
    /// The seal.
    pub seal: Arc<Seal>,
    /// Whether the log says durably that it does not count: the object may be changed.
    pub lifted: bool,
    /// Whether the log says durably that the object may be removed.
    pub released: bool,
    /// A former life has said so: it may have been.
    pub may_be_gone: bool,
}

impl Sealed {
    fn new(seal: Arc<Seal>) -> Sealed {
        Sealed { seal, lifted: false, released: false, may_be_gone: false }
    }

    /// How long the object was, if it cannot be rightly gone; 0: it can.
    pub fn must_have(&self) -> u64 {
        if self.may_be_gone { 0 } else { self.seal.length }
    }
}

/// Where sums are written from here on.
#[derive(Debug)]
pub struct Begun {
    file: Arc<File>,
    losses: u64,
}

#[derive(Serialize, Deserialize)]
struct SealRecord {
    ino: Ino,
    length: u64,
    mtime: (i64, u32),
    chunks: Vec<ChunkRef>,
}

impl SealLog {
    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The object's seal.
    pub fn get(&self, ino: Ino) -> Option<Sealed> {
        self.index.read().unwrap_or_else(PoisonError::into_inner).get(&ino).cloned()
    }

    /// The objects that have a seal, lifted or not, after `after`: at most `count`.
    pub fn after(&self, after: Option<Ino>, count: usize) -> Vec<(Ino, Sealed)> {
        let index = self.index.read().unwrap_or_else(PoisonError::into_inner);
        let first = after.map_or(Bound::Unbounded, Bound::Excluded);
        index
            .range((first, Bound::Unbounded))
            .take(count)
            .map(|(ino, sealed)| (*ino, sealed.clone()))
            .collect()
    }

    /// The objects that cannot be rightly gone.
    pub fn must_be_there(&self) -> Vec<Ino> {
        let index = self.index.read().unwrap_or_else(PoisonError::into_inner);
        index.iter().filter(|(_, sealed)| sealed.must_have() > 0).map(|(ino, _)| *ino).collect()
    }

    /// Writes the sums of the chunk `index`, for a seal that follows.
    ///
    /// # Errors
    /// The errno of the write.
    pub fn write_sums(&self, index: u64, sums: &[u32]) -> io::Result<ChunkRef> {
        let bytes: Vec<u8> = sums.iter().flat_map(|sum| sum.to_le_bytes()).collect();
        let crc = crc32c::crc32c(&bytes);
        let end = self.append(0, &bytes)?;
        let blocks = u16::try_from(sums.len()).map_err(io::Error::other)?;
        Ok(ChunkRef { index, at: end - bytes.len() as u64, blocks, crc })
    }

    /// What [`SealLog::seal`] is to be told: from when on sums were written for it.
    pub fn begin(&self) -> Begun {
        let end = self.end();
        Begun { file: end.file.clone(), losses: end.losses }
    }

    /// Seals an object with sums that were written since `begun`, or that are in the same file. The caller keeps it
    /// from being changed meanwhile.
    ///
    /// # Errors
    /// The errno of the write; EAGAIN where the sums are not in the log any more.
    pub fn seal(
        &self,
        begun: &Begun,
        ino: Ino,
        (length, mtime): (u64, (i64, u32)),
        chunks: Vec<ChunkRef>,
    ) -> io::Result<Arc<Seal>> {
        let record = SealRecord { ino, length, mtime, chunks };
        let body = postcard::to_stdvec(&record).map_err(io::Error::other)?;
        let mut end = self.end();
        self.replace_broken(&mut end)?;
        end.encode(1, &body)?;
        end.flush()?;
        if !Arc::ptr_eq(&begun.file, &end.file) || begun.losses != end.losses {
            // What was just written refers to nothing.
            end.note(LIFTED, ino..=ino)?;
            return Err(Errno::AGAIN.into());
        }
        let SealRecord { chunks, .. } = record;
        let seal = Arc::new(Seal { length, mtime, chunks: chunks.into(), file: end.file.clone() });
        end.live += live_bytes(&seal);
        let sealed = Sealed::new(seal.clone());
        let before = self.index.write().unwrap_or_else(PoisonError::into_inner).insert(ino, sealed);
        end.live -= before.map_or(0, |before| live_bytes(&before.seal)).min(end.live);
        Ok(seal)
    }

    /// Makes what was sealed so far survive a power loss, and writes the log anew if much of it is of no use.
    ///
    /// # Errors
    /// The errno of what failed; the log goes on.
    pub fn settle(&self) -> io::Result<()> {
        let mut end = self.end();
        self.replace_broken(&mut end)?;
        end.flush()?;
        end.sync(&self.path)?;
        if end.length < COMPACT_BYTES_MIN.max(4 * end.live) {
            return Ok(());
        }
        let fresh = self.rewrite(&mut end);
        fresh.inspect_err(|_| drop(std::fs::remove_file(self.path.with_extension("rewritten"))))
    }

    /// Where every step may fail: until the rename the old log goes on, from then on the new one, whose name is made
    /// durable at the latest with the next lift.
    fn rewrite(&self, end: &mut End) -> io::Result<()> {
        let temporary = self.path.with_extension("rewritten");
        let mut options = OpenOptions::new();
        let file = Arc::new(options.read(true).write(true).create(true).truncate(true).open(&temporary)?);
        let generation = end.generation + 1;
        let head = Head { generation, owner: end.owner.clone() }.bytes();
        file.write_all_at(&head, 0)?;
        let fresh = End::of(file.clone(), end.owner.clone());
        let mut fresh = End { generation, length: head.len() as u64, mark: end.mark.clone(), ..fresh };
        let mut seals = Vec::new();
        for (ino, sealed) in self.index.read().unwrap_or_else(PoisonError::into_inner).iter() {
            if !sealed.lifted {
                let seal = Arc::new(fresh.copy(*ino, &sealed.seal)?);
                seals.push((*ino, Sealed { seal, ..sealed.clone() }));
            }
            if sealed.released {
                fresh.note(RELEASED, *ino..=*ino)?;
            }
        }
        fresh.flush()?;
        file.sync_all()?;
        std::fs::rename(&temporary, &self.path)?;
        let mut index = self.index.write().unwrap_or_else(PoisonError::into_inner);
        for (ino, sealed) in seals {
            fresh.live += live_bytes(&sealed.seal);
            index.insert(ino, sealed);
        }
        (fresh.synced, fresh.unnamed) = (fresh.length, true);
        fresh.lapsed = std::mem::take(&mut end.lapsed);
        *end = fresh;
        end.sync(&self.path)
    }

    fn append(&self, kind: u8, body: &[u8]) -> io::Result<u64> {
        let mut end = self.end();
        self.replace_broken(&mut end)?;
        end.encode(kind, body)?;
        if end.buffer.len() as u64 > UNSYNCED_BYTES_MAX / 4 {
            end.flush()?;
        }
        if end.length - end.synced > UNSYNCED_BYTES_MAX {
            end.sync(&self.path)?;
        }
        Ok(end.length + end.buffer.len() as u64)
    }

    fn end(&self) -> std::sync::MutexGuard<'_, End> {
        self.end.lock().expect("no thread panics while it appends to the log of seals")
    }
}

/// What a seal takes in a log, roughly.
fn live_bytes(seal: &Seal) -> u64 {
    let sums = |chunk: &ChunkRef| 33 + 4 * u64::from(chunk.blocks);
    64 + seal.chunks.iter().map(sums).sum::<u64>()
}
