//! The end of a log of seals: where entries are written, synced, and kept room for on a full disk.
//!
//! **Invariant:** what could not be written whole is not in the file, and what could not be synced ends the use of it.

use std::fs::File;
use std::io;
use std::ops::RangeInclusive;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use disk::sync_names;
use model::Ino;
use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::Errno;

use super::mark::{Mark, Marked};
use super::{BODY_BYTES_MAX, SealRecord, UNSYNCED_BYTES_MAX};
use crate::integrity::{ChunkRef, Seal};

/// Room on the disk that only notes which lift seals may use: what was sealed can be cut off and removed on a full
/// disk, too.
const RESERVE_BYTES: u64 = 64 << 10;

/// So much is allocated at once beyond it, bytes, where there is room.
const STEP_BYTES: u64 = 1 << 20;

/// No new log could take the place of one that broke.
#[derive(Debug)]
pub(super) struct Trouble {
    /// When that was tried last.
    pub(super) tried: Instant,
    /// Why it failed.
    pub(super) why: String,
}

/// Where the log is appended to.
#[derive(Debug)]
pub(super) struct End {
    pub(super) file: Arc<File>,
    /// Whose log it is.
    pub(super) owner: String,
    /// How often it was written anew.
    pub(super) generation: u64,
    /// Where it is noted how far it is synced.
    pub(super) mark: Option<Arc<Mark>>,
    pub(super) length: u64,
    pub(super) synced: u64,
    pub(super) sequence: u64,
    pub(super) buffer: Vec<u8>,
    /// The file has its space up to here.
    pub(super) reserved: u64,
    /// Bytes of the entries that count.
    pub(super) live: u64,
    /// Nothing can be appended any more.
    pub(super) broken: bool,
    /// No new log could take its place either.
    pub(super) trouble: Option<Trouble>,
    /// The log was written anew, and its name may not survive a power loss yet.
    pub(super) unnamed: bool,
    pub(super) last_lift: Option<Instant>,
    pub(super) neighbours: u32,
    /// How often encoded entries were lost: sums that a seal was to refer to may be among them.
    pub(super) losses: u64,
    /// Objects whose seals were lifted for a neighbour's sake.
    pub(super) lapsed: Vec<Ino>,
}

impl End {
    pub(super) fn of(file: Arc<File>, owner: String) -> End {
        End {
            // A log has no holes.
            reserved: file.metadata().map_or(0, |found| found.blocks() * 512),
            file,
            owner,
            generation: 0,
            mark: None,
            length: 0,
            synced: 0,
            sequence: 0,
            buffer: Vec::new(),
            live: 0,
            broken: false,
            trouble: None,
            unnamed: false,
            last_lift: None,
            neighbours: 0,
            losses: 0,
            lapsed: Vec::new(),
        }
    }

    pub(super) fn encode(&mut self, kind: u8, body: &[u8]) -> io::Result<()> {
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
    pub(super) fn flush(&mut self) -> io::Result<()> {
        if let Err(error) = self.make_room() {
            self.buffer.clear();
            self.losses += 1;
            return Err(error);
        }
        self.write()
    }

    /// Writes a note about seals, also on a full disk.
    pub(super) fn note(&mut self, kind: u8, range: RangeInclusive<Ino>) -> io::Result<()> {
        // What is not written yet may not fit, and is not needed.
        let _lost = self.flush();
        self.encode(kind, &[range.start().to_le_bytes(), range.end().to_le_bytes()].concat())?;
        self.write()
    }

    /// Keeps the reserve behind what was encoded.
    fn make_room(&mut self) -> io::Result<()> {
        let until = self.length + self.buffer.len() as u64 + RESERVE_BYTES;
        if self.buffer.is_empty() || until <= self.reserved {
            return Ok(());
        }
        for until in [until + STEP_BYTES, until] {
            match fallocate(&*self.file, FallocateFlags::KEEP_SIZE, 0, until) {
                Ok(()) => {
                    self.reserved = until;
                    return Ok(());
                }
                Err(Errno::NOSPC | Errno::DQUOT) => {}
                // Not every file system can: the write tells.
                Err(_) => return Ok(()),
            }
        }
        Err(Errno::NOSPC.into())
    }

    fn write(&mut self) -> io::Result<()> {
        if self.broken {
            return Err(Errno::IO.into());
        }
        let written = self.file.write_all_at(&self.buffer, self.length);
        match &written {
            Ok(()) => self.length += self.buffer.len() as u64,
            // A full disk took a part, which is cut off again; what was in the buffer never counted.
            Err(error) => {
                self.broken = !disk::is_full(error) || self.file.set_len(self.length).is_err();
                self.reserved = self.length;
                // Numbers may be left out, but not used twice.
                self.losses += 1;
            }
        }
        self.buffer.clear();
        written
    }

    pub(super) fn sync(&mut self, path: &Path) -> io::Result<()> {
        if self.broken {
            return Err(Errno::IO.into());
        }
        let is_news = self.unnamed || self.synced < self.length;
        if self.unnamed {
            sync_names(path)?;
            self.unnamed = false;
        }
        if self.synced < self.length {
            self.file.sync_data().inspect_err(|_| self.broken = true)?;
            self.synced = self.length;
        }
        if let Some(mark) = self.mark.as_ref().filter(|_| is_news) {
            mark.note(Marked { generation: self.generation, synced: self.synced });
        }
        Ok(())
    }

    /// Writes a seal of another log with its sums to this one.
    pub(super) fn copy(&mut self, ino: Ino, seal: &Seal) -> io::Result<Seal> {
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
}
