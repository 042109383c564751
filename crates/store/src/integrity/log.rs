//! The log of seals of one namespace on one fragment.
//!
//! ```text
//! file  := "FRBYSUMS" version:u32le entry*
//! entry := len:u32le crc32c:u32le sequence:u64le body[len]        crc32c covers sequence and body
//! body  := 0 sums[]:u32le | 1 postcard(SealRecord) | 2 first:u64le last:u64le
//! ```
//!
//! Sums come before the seal that refers to them. A note of the third kind lifts the seals of all objects in its range; it is
//! durable before [`SealLog::lift`] returns. Other entries need not be: who loses them loses sums, and nothing else.
//!
//! **Invariant:** where an entry does not match its checksum and a lift may have come after it, no seal counts any more:
//! the objects are summed anew.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, BufReader, Read};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant};

use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use super::{CHUNK_BLOCKS, ChunkRef, Seal};
use disk::sync_names;

/// The sums of one chunk.
pub type Sums = [u32; CHUNK_BLOCKS as usize];

const HEAD: &[u8; 12] = b"FRBYSUMS\x01\0\0\0";
const ENTRY_HEAD_BYTES: usize = 16;

/// What a note that lifts seals takes.
const LIFT_BYTES: u64 = 33;

/// No entry is longer: the seal of an object of some 8 TiB.
const BODY_BYTES_MAX: usize = 256 << 20;

/// What is not synced yet is at most so long, but for one entry.
const UNSYNCED_BYTES_MAX: u64 = 4 << 20;

/// The log is written anew when it is this long and much of it is of no use any more.
const COMPACT_BYTES_MIN: u64 = 32 << 20;

/// Objects whose seals are lifted soon after each other are most often neighbours: each lift that follows another within this
/// time takes twice as many along, so that who changes many pays for few syncs.
const NEIGHBOURS_WITHIN: Duration = Duration::from_secs(2);
const NEIGHBOURS_MAX: u32 = 12;

/// The log, and what is sealed.
#[derive(Debug)]
pub struct SealLog {
    path: PathBuf,
    end: Mutex<End>,
    index: RwLock<BTreeMap<u64, Sealed>>,
}

/// The seal of one object.
#[derive(Clone, Debug)]
pub struct Sealed {
    /// The seal.
    pub seal: Arc<Seal>,
    /// Whether the log says durably that it does not count: the object may be changed.
    pub lifted: bool,
}

/// Where sums are written from here on.
#[derive(Debug)]
pub struct Begun {
    file: Arc<File>,
    losses: u64,
}

/// Where the log is appended to.
#[derive(Debug)]
struct End {
    file: Arc<File>,
    length: u64,
    synced: u64,
    sequence: u64,
    buffer: Vec<u8>,
    /// Bytes of the entries that count.
    live: u64,
    /// Nothing can be appended any more.
    broken: bool,
    /// The log was written anew, and its name may not survive a power loss yet.
    unnamed: bool,
    last_lift: Option<Instant>,
    neighbours: u32,
    /// How often encoded entries were lost: sums that a seal was to refer to may be among them.
    losses: u64,
    /// Objects whose seals were lifted for a neighbour's sake.
    lapsed: Vec<u64>,
}

#[derive(Serialize, Deserialize)]
struct SealRecord {
    ino: u64,
    length: u64,
    mtime: (i64, u32),
    chunks: Vec<ChunkRef>,
}

impl SealLog {
    /// Opens the log at `path`, making it if there is none.
    ///
    /// # Errors
    /// The errno of what failed. Damage is none: it is logged, and nothing is sealed then.
    pub fn open(path: PathBuf) -> io::Result<SealLog> {
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder)?;
        }
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path)?;
        let file = Arc::new(file);
        let mut end = End::of(file.clone());
        let mut index = BTreeMap::new();
        let whole = end.replay(&mut index)?;
        if !whole {
            tracing::error!(
                path = %path.display(), offset = end.length, objects = index.len(),
                "the log of checksums is damaged: they are made anew, and what was damaged before that is not found"
            );
            index.clear();
            (end.length, end.sequence, end.live) = (0, 0, 0);
        }
        file.set_len(end.length)?;
        if end.length == 0 {
            file.write_all_at(HEAD, 0)?;
            end.length = HEAD.len() as u64;
            file.sync_all()?;
            sync_names(&path)?;
        }
        Ok(SealLog { path, end: Mutex::new(end), index: RwLock::new(index) })
    }

    /// The object's seal.
    pub fn get(&self, ino: u64) -> Option<Sealed> {
        self.index.read().unwrap_or_else(PoisonError::into_inner).get(&ino).cloned()
    }

    /// The objects that have a seal, lifted or not, after `after`: at most `count`.
    pub fn after(&self, after: Option<u64>, count: usize) -> Vec<(u64, Sealed)> {
        let index = self.index.read().unwrap_or_else(PoisonError::into_inner);
        let first = after.map_or(0, |ino| ino.saturating_add(1));
        index.range(first..).take(count).map(|(ino, sealed)| (*ino, sealed.clone())).collect()
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

    /// Seals an object with sums that were written since `begun`, or that are in the same file. The caller keeps it from being
    /// changed meanwhile.
    ///
    /// # Errors
    /// The errno of the write; EAGAIN where the sums are not in the log any more.
    pub fn seal(
        &self,
        begun: &Begun,
        ino: u64,
        (length, mtime): (u64, (i64, u32)),
        chunks: Vec<ChunkRef>,
    ) -> io::Result<Arc<Seal>> {
        let record = SealRecord { ino, length, mtime, chunks };
        let body = postcard::to_stdvec(&record).map_err(io::Error::other)?;
        let mut end = self.end();
        end.encode(1, &body)?;
        end.flush()?;
        if !Arc::ptr_eq(&begun.file, &end.file) || begun.losses != end.losses {
            // What was just written refers to nothing.
            end.encode(2, &[ino.to_le_bytes(), ino.to_le_bytes()].concat())?;
            end.flush()?;
            return Err(Errno::AGAIN.into());
        }
        let SealRecord { chunks, .. } = record;
        let seal = Arc::new(Seal { length, mtime, chunks: chunks.into(), file: end.file.clone() });
        end.live += live_bytes(&seal);
        let sealed = Sealed { seal: seal.clone(), lifted: false };
        let before = self.index.write().unwrap_or_else(PoisonError::into_inner).insert(ino, sealed);
        end.live -= before.map_or(0, |before| live_bytes(&before.seal)).min(end.live);
        Ok(seal)
    }

    /// The objects whose seals were lifted for a neighbour's sake, once no seal was lifted for `idle`.
    pub fn lapsed(&self, idle: Duration) -> Vec<u64> {
        let mut end = self.end();
        let is_quiet = end.last_lift.is_none_or(|last| last.elapsed() >= idle);
        if is_quiet { std::mem::take(&mut end.lapsed) } else { Vec::new() }
    }

    /// Seals an object again that was not changed since its seal was lifted, as the caller knows.
    ///
    /// # Errors
    /// The errno of the write.
    pub fn seal_again(&self, ino: u64) -> io::Result<()> {
        let mut end = self.end();
        let mut index = self.index.write().unwrap_or_else(PoisonError::into_inner);
        let Some(sealed) = index.get_mut(&ino).filter(|sealed| sealed.lifted) else { return Ok(()) };
        // Its sums may be in a log that was written anew since.
        let seal = Arc::new(end.copy(ino, &sealed.seal)?);
        end.flush()?;
        *sealed = Sealed { seal, lifted: false };
        Ok(())
    }

    /// Lifts the object's seal, durably; those of neighbours go along.
    ///
    /// # Errors
    /// The errno of the write or sync: the object must not be changed then.
    pub fn lift(&self, ino: u64) -> io::Result<()> {
        let mut end = self.end();
        let taken: Vec<u64> = {
            let index = self.index.read().unwrap_or_else(PoisonError::into_inner);
            if index.get(&ino).is_none_or(|sealed| sealed.lifted) {
                return Ok(());
            }
            let soon = end.last_lift.is_some_and(|last| last.elapsed() < NEIGHBOURS_WITHIN);
            end.neighbours = if soon { (end.neighbours + 1).min(NEIGHBOURS_MAX) } else { 0 };
            index.range(ino..).take(1 << end.neighbours).map(|(ino, _)| *ino).collect()
        };
        let last = taken.last().copied().unwrap_or(ino);
        let mut body = [0; 16];
        body[..8].copy_from_slice(&ino.to_le_bytes());
        body[8..].copy_from_slice(&last.to_le_bytes());
        end.encode(2, &body)?;
        end.flush()?;
        end.sync(&self.path)?;
        end.last_lift = Some(Instant::now());
        end.lapsed.extend(taken.iter().filter(|taken| **taken != ino));
        let mut index = self.index.write().unwrap_or_else(PoisonError::into_inner);
        index.range_mut(ino..=last).for_each(|(_, sealed)| sealed.lifted = true);
        Ok(())
    }

    /// The object is removed: nobody looks for it any more. If the note is lost, the shard still knows that it is gone.
    pub fn forget(&self, ino: u64) {
        let mut end = self.end();
        let gone = self.index.write().unwrap_or_else(PoisonError::into_inner).remove(&ino);
        let Some(gone) = gone else { return };
        end.live -= live_bytes(&gone.seal).min(end.live);
        let body = [ino.to_le_bytes(), ino.to_le_bytes()].concat();
        if let Err(error) = end.encode(2, &body).and_then(|()| end.flush()) {
            tracing::debug!(ino, %error, "cannot note that an object is removed");
        }
    }

    /// Makes what was sealed so far survive a power loss, and writes the log anew if much of it is of no use.
    ///
    /// # Errors
    /// The errno of what failed; the log goes on.
    pub fn settle(&self) -> io::Result<()> {
        let mut end = self.end();
        end.flush()?;
        end.sync(&self.path)?;
        if end.length < COMPACT_BYTES_MIN.max(4 * end.live) {
            return Ok(());
        }
        let fresh = self.rewrite(&mut end);
        fresh.inspect_err(|_| drop(std::fs::remove_file(self.path.with_extension("new"))))
    }

    /// Where every step may fail: until the rename the old log goes on, from then on the new one, whose name is made durable
    /// at the latest with the next lift.
    fn rewrite(&self, end: &mut End) -> io::Result<()> {
        let temporary = self.path.with_extension("new");
        let mut options = OpenOptions::new();
        let file = Arc::new(options.read(true).write(true).create(true).truncate(true).open(&temporary)?);
        let mut fresh = End { length: HEAD.len() as u64, ..End::of(file.clone()) };
        file.write_all_at(HEAD, 0)?;
        let mut seals = Vec::new();
        for (ino, sealed) in self.index.read().unwrap_or_else(PoisonError::into_inner).iter() {
            if !sealed.lifted {
                seals.push((*ino, fresh.copy(*ino, &sealed.seal)?));
            }
        }
        fresh.flush()?;
        file.sync_all()?;
        std::fs::rename(&temporary, &self.path)?;
        let mut index = self.index.write().unwrap_or_else(PoisonError::into_inner);
        for (ino, seal) in seals {
            fresh.live += live_bytes(&seal);
            index.insert(ino, Sealed { seal: Arc::new(seal), lifted: false });
        }
        (fresh.synced, fresh.unnamed) = (fresh.length, true);
        fresh.lapsed = std::mem::take(&mut end.lapsed);
        *end = fresh;
        end.sync(&self.path)
    }

    fn append(&self, kind: u8, body: &[u8]) -> io::Result<u64> {
        let mut end = self.end();
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

impl End {
    fn of(file: Arc<File>) -> End {
        End {
            file,
            length: 0,
            synced: 0,
            sequence: 0,
            buffer: Vec::new(),
            live: 0,
            broken: false,
            unnamed: false,
            last_lift: None,
            neighbours: 0,
            losses: 0,
            lapsed: Vec::new(),
        }
    }

    fn encode(&mut self, kind: u8, body: &[u8]) -> io::Result<()> {
        if self.broken {
            return Err(Errno::IO.into());
        }
        let len = u32::try_from(body.len() + 1).ok().filter(|len| *len as usize <= BODY_BYTES_MAX);
        let len = len.ok_or(Errno::FBIG)?;
        let start = self.buffer.len();
        self.buffer.extend_from_slice(&len.to_le_bytes());
        self.buffer.extend_from_slice(&[0; 4]);
        self.buffer.extend_from_slice(&self.sequence.to_le_bytes());
        self.buffer.push(kind);
        self.buffer.extend_from_slice(body);
        let crc = crc32c::crc32c(&self.buffer[start + 8..]);
        self.buffer[start + 4..start + 8].copy_from_slice(&crc.to_le_bytes());
        self.sequence += 1;
        Ok(())
    }

    /// Hands what was encoded to the kernel. After a failure nothing is: seals refer to places in the log.
    fn flush(&mut self) -> io::Result<()> {
        if self.broken {
            return Err(Errno::IO.into());
        }
        let written = self.file.write_all_at(&self.buffer, self.length);
        match &written {
            Ok(()) => self.length += self.buffer.len() as u64,
            // A full disk took a part, which is cut off again; what was in the buffer never counted.
            Err(error) => {
                let is_full = error.kind() == io::ErrorKind::StorageFull;
                self.broken = !is_full || self.file.set_len(self.length).is_err();
                // Numbers may be left out, but not used twice.
                self.losses += 1;
            }
        }
        self.buffer.clear();
        written
    }

    fn sync(&mut self, path: &Path) -> io::Result<()> {
        if self.broken {
            return Err(Errno::IO.into());
        }
        if self.unnamed {
            sync_names(path)?;
            self.unnamed = false;
        }
        if self.synced < self.length {
            self.file.sync_data().inspect_err(|_| self.broken = true)?;
            self.synced = self.length;
        }
        Ok(())
    }

    /// Writes a seal of another log with its sums to this one.
    fn copy(&mut self, ino: u64, seal: &Seal) -> io::Result<Seal> {
        let mut chunks = Vec::with_capacity(seal.chunks.len());
        for chunk in &seal.chunks {
            let mut bytes = vec![0; 4 * usize::from(chunk.blocks)];
            seal.file.read_exact_at(&mut bytes, chunk.at)?;
            self.encode(0, &bytes)?;
            if self.buffer.len() as u64 > UNSYNCED_BYTES_MAX {
                self.flush()?;
            }
            let at = self.length + (self.buffer.len() - bytes.len()) as u64;
            chunks.push(ChunkRef { at, ..*chunk });
        }
        let (length, mtime) = (seal.length, seal.mtime);
        let record = SealRecord { ino, length, mtime, chunks };
        self.encode(1, &postcard::to_stdvec(&record).map_err(io::Error::other)?)?;
        Ok(Seal { length, mtime, chunks: record.chunks.into(), file: self.file.clone() })
    }

    /// Reads all entries; false where what counts cannot be told.
    fn replay(&mut self, index: &mut BTreeMap<u64, Sealed>) -> io::Result<bool> {
        let total = self.file.metadata()?.len();
        let file = self.file.clone();
        let mut reader = BufReader::with_capacity(1 << 20, &*file);
        let mut head = [0; HEAD.len()];
        if total < HEAD.len() as u64 {
            return Ok(total == 0);
        }
        reader.read_exact(&mut head)?;
        if head != *HEAD {
            return Ok(false);
        }
        self.length = HEAD.len() as u64;
        let mut body = Vec::new();
        while let Some(sequence) = read_entry(&mut reader, total - self.length, &mut body)? {
            if sequence < self.sequence {
                break;
            }
            self.sequence = sequence + 1;
            self.length += (ENTRY_HEAD_BYTES + body.len()) as u64;
            if !self.apply(&body, index) {
                return Ok(false);
            }
        }
        self.synced = self.length;
        if self.length == total {
            return Ok(true);
        }
        let tail = total - self.length;
        // What is torn was not synced, so it is at the end, is not much, and nothing whole is behind it.
        let may_be_torn = tail <= 2 * UNSYNCED_BYTES_MAX && tail != LIFT_BYTES && !self.has_later(total)?;
        if may_be_torn {
            tracing::info!(offset = self.length, bytes = tail, "cut off the torn tail of a log of checksums");
        }
        Ok(may_be_torn)
    }

    /// Whether a whole entry follows the place where entries end.
    fn has_later(&self, total: u64) -> io::Result<bool> {
        let mut bytes = vec![0; usize::try_from(total - self.length).map_err(io::Error::other)?];
        self.file.read_exact_at(&mut bytes, self.length)?;
        let is_entry = |at: usize| {
            let number = u64::from_le_bytes(bytes[at + 8..at + 16].try_into().expect("8 bytes"));
            let plausible = number > self.sequence && number - self.sequence <= bytes.len() as u64;
            let left = (bytes.len() - at) as u64;
            plausible && matches!(read_entry(&mut &bytes[at..], left, &mut Vec::new()), Ok(Some(_)))
        };
        Ok((1..bytes.len().saturating_sub(ENTRY_HEAD_BYTES)).any(is_entry))
    }

    fn apply(&mut self, body: &[u8], index: &mut BTreeMap<u64, Sealed>) -> bool {
        match body.split_first() {
            Some((0, _)) => true,
            Some((1, record)) => {
                let Ok(record) = postcard::from_bytes::<SealRecord>(record) else { return false };
                let SealRecord { ino, length, mtime, chunks } = record;
                let seal = Arc::new(Seal { length, mtime, chunks: chunks.into(), file: self.file.clone() });
                self.live += live_bytes(&seal);
                let before = index.insert(ino, Sealed { seal, lifted: false });
                self.live -= before.map_or(0, |before| live_bytes(&before.seal)).min(self.live);
                true
            }
            Some((2, range)) => {
                let Some((first, last)) = range_of(range) else { return false };
                let gone: Vec<u64> = index.range(first..=last.max(first)).map(|(ino, _)| *ino).collect();
                for ino in gone {
                    // Whether it was changed after this is not known: it is summed anew.
                    let seal = index.remove(&ino).map(|sealed| live_bytes(&sealed.seal));
                    self.live -= seal.unwrap_or(0).min(self.live);
                }
                true
            }
            _ => false,
        }
    }
}

fn range_of(body: &[u8]) -> Option<(u64, u64)> {
    let (first, last) = body.split_at_checked(8)?;
    Some((u64::from_le_bytes(first.try_into().ok()?), u64::from_le_bytes(last.try_into().ok()?)))
}

/// What a seal takes in a log, roughly.
fn live_bytes(seal: &Seal) -> u64 {
    let sums = |chunk: &ChunkRef| 33 + 4 * u64::from(chunk.blocks);
    64 + seal.chunks.iter().map(sums).sum::<u64>()
}

/// The next entry's number, with its body; `None` where there is no whole one in the `left` bytes.
fn read_entry(reader: &mut impl Read, left: u64, body: &mut Vec<u8>) -> io::Result<Option<u64>> {
    let mut head = [0; ENTRY_HEAD_BYTES];
    if left < head.len() as u64 {
        return Ok(None);
    }
    reader.read_exact(&mut head)?;
    let number = |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
    let len = number(0) as usize;
    if len == 0 || len > BODY_BYTES_MAX || (len + head.len()) as u64 > left {
        return Ok(None);
    }
    body.resize(len, 0);
    reader.read_exact(body)?;
    let crc = crc32c::crc32c_append(crc32c::crc32c(&head[8..]), body);
    Ok((crc == number(4)).then(|| u64::from(number(8)) | u64::from(number(12)) << 32))
}
