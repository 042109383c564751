//! The bytes of a log, and what can be told from bytes that are not as they were written.
//!
//! ```text
//! file  := "FRBYMETA" version:u32le head entry*
//! head  :=                                  version 1: the first entry's sequence number is 0
//!        | first:u64le crc32c:u32le         version 2: it is `first`; crc32c covers magic, version and first
//! entry := len:u32le crc32c:u32le sequence:u64le body[len]        crc32c covers sequence and body
//! ```
//!
//! The number of the version stays where it is in all of them. A record of a new kind needs no new version: an older
//! Forebay finds a whole entry that it does not know, and refuses the log.
//!
//! Sequence numbers go on from one log to the one that replaces it: a larger one is always later.

use std::io;

use disk::format::FormatError;

use super::super::record::{Entry, Record};
use crate::log_folder::LogFile;

const MAGIC: &[u8; 8] = b"FRBYMETA";

/// What is written. Version 1 is read, and written on with, until it is replaced.
pub const VERSION: u32 = 2;

const HEAD_BYTES_V1: usize = 12;
const HEAD_BYTES_V2: usize = 24;
const ENTRY_HEAD_BYTES: usize = 16;

/// No entry is longer, bytes: two names, a symbolic link and a full set of extended attributes fit many times.
pub const BODY_BYTES_MAX: usize = 1 << 20;

/// What the page cache writes at once, bytes.
pub const PAGE_BYTES: usize = 4096;

/// How a log begins whose first entry has this sequence number.
pub fn head(first: u64) -> Vec<u8> {
    let mut head = Vec::with_capacity(HEAD_BYTES_V2);
    head.extend_from_slice(MAGIC);
    head.extend_from_slice(&VERSION.to_le_bytes());
    head.extend_from_slice(&first.to_le_bytes());
    head.extend_from_slice(&crc32c::crc32c(&head).to_le_bytes());
    head
}

/// Where the first entry is, and its sequence number; `None`: these are not the first bytes of a log that we can read.
pub fn parse_head(bytes: &[u8]) -> Option<(usize, u64)> {
    if bytes.get(..8)? != MAGIC {
        return None;
    }
    match number(bytes, 8)? {
        1 => Some((HEAD_BYTES_V1, 0)),
        VERSION => {
            let first = long(bytes, 12)?;
            (number(bytes, 20)? == crc32c::crc32c(&bytes[..20])).then_some((HEAD_BYTES_V2, first))
        }
        _ => None,
    }
}

/// Why nobody here may go on with the log that begins so, where a newer Forebay wrote it.
pub fn newer_head(bytes: &[u8]) -> Option<FormatError> {
    let found = number(bytes, 8).filter(|found| bytes.starts_with(MAGIC) && *found > VERSION)?;
    Some(FormatError::Newer { found: found.into(), known: VERSION })
}

/// Appends an entry to `buffer`.
///
/// # Errors
/// E2BIG when it is too long; `buffer` is as it was then.
pub fn encode(buffer: &mut Vec<u8>, entry: &Entry, sequence: u64) -> io::Result<()> {
    let start = buffer.len();
    buffer.resize(start + ENTRY_HEAD_BYTES, 0);
    let encoded = postcard::to_extend(entry, std::mem::take(buffer)).map_err(io::Error::other)?;
    *buffer = encoded;
    let body_len = buffer.len() - start - ENTRY_HEAD_BYTES;
    let Some(len) = u32::try_from(body_len).ok().filter(|_| body_len <= BODY_BYTES_MAX) else {
        buffer.truncate(start);
        return Err(rustix::io::Errno::TOOBIG.into());
    };
    buffer[start..start + 4].copy_from_slice(&len.to_le_bytes());
    buffer[start + 8..start + 16].copy_from_slice(&sequence.to_le_bytes());
    let crc = crc32c::crc32c(&buffer[start + 8..]);
    buffer[start + 4..start + 8].copy_from_slice(&crc.to_le_bytes());
    Ok(())
}

/// The entry at `at`, if it is whole and the one that `sequence` expects, and where the next begins.
pub fn decode(bytes: &[u8], at: usize, sequence: u64) -> Option<(Entry, usize)> {
    let (body, end) = whole(bytes, at, sequence)?;
    Some((postcard::from_bytes(body).ok()?, end))
}

/// Whether the entry at `at` is as it was written, and of a kind that only a newer Forebay knows.
pub fn is_unknown(bytes: &[u8], at: usize, sequence: u64) -> bool {
    whole(bytes, at, sequence).is_some_and(|(body, _)| postcard::from_bytes::<Entry>(body).is_err())
}

/// The body of the entry at `at`, if it is as it was written and the one that `sequence` expects, and where the next
/// begins.
fn whole(bytes: &[u8], at: usize, sequence: u64) -> Option<(&[u8], usize)> {
    let head = bytes.get(at..at.checked_add(ENTRY_HEAD_BYTES)?)?;
    let (len, crc) = (number(head, 0)? as usize, number(head, 4)?);
    if len > BODY_BYTES_MAX || long(head, 8)? != sequence {
        return None;
    }
    let end = at + ENTRY_HEAD_BYTES + len;
    if crc32c::crc32c(bytes.get(at + 8..end)?) != crc {
        return None;
    }
    Some((&bytes[at + ENTRY_HEAD_BYTES..end], end))
}

/// The length that an entry says was synced.
pub fn synced_to(entry: &Entry) -> u64 {
    if let Record::Synced { length } = entry.record { length } else { 0 }
}

/// Whether what is at `at`, and no entry, was acknowledged: whole entries follow, and it was either synced or is not
/// what a page looks like that a power loss kept from the disk.
pub fn is_damaged(bytes: &[u8], at: usize, sequence: u64, synced: u64) -> bool {
    let mut later = later_entries(bytes, at, sequence).peekable();
    if later.peek().is_none() {
        return false;
    }
    let synced = later.map(|entry| synced_to(&entry)).fold(synced, u64::max);
    synced > at as u64 || !lacks_a_page(bytes, at)
}

/// Whole entries after the one that should be at `at`.
fn later_entries(bytes: &[u8], at: usize, sequence: u64) -> impl Iterator<Item = Entry> {
    (at + 1..bytes.len().saturating_sub(ENTRY_HEAD_BYTES)).filter_map(move |candidate| {
        let found = long(bytes, candidate + 8)?;
        // A later entry has a later number, and no entry is shorter than its head.
        let plausible = found > sequence && found - sequence <= (bytes.len() / ENTRY_HEAD_BYTES) as u64;
        if plausible { decode(bytes, candidate, found).map(|(entry, _)| entry) } else { None }
    })
}

/// Whether the entry at `at` lies where a page, or the rest of one, is zeros.
fn lacks_a_page(bytes: &[u8], at: usize) -> bool {
    let zeros = |range: &[u8]| range.iter().all(|byte| *byte == 0);
    let next_page = at.next_multiple_of(PAGE_BYTES).min(bytes.len());
    let of_entry = &bytes[next_page..bytes.len().min(next_page + BODY_BYTES_MAX)];
    (next_page > at && zeros(&bytes[at..next_page])) || of_entry.chunks_exact(PAGE_BYTES).any(zeros)
}

fn number(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn long(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

/// Reads the entries of a log in order, while others append to it.
#[derive(Debug)]
pub struct Reader {
    file: std::sync::Arc<dyn LogFile>,
    /// Where in the file `window` begins, and where in `window` the next entry does.
    offset: u64,
    at: usize,
    window: Vec<u8>,
    sequence: u64,
}

/// Bytes that are read at once: several of the longest entries.
const WINDOW_BYTES: usize = 4 * BODY_BYTES_MAX;

impl Reader {
    /// Reads from the log's beginning.
    ///
    /// # Errors
    /// The errno of the read; EINVAL where the file is no log.
    pub fn begin(file: std::sync::Arc<dyn LogFile>) -> io::Result<Reader> {
        let window = file.read_at(0, WINDOW_BYTES)?;
        let (at, sequence) = parse_head(&window).ok_or(rustix::io::Errno::INVAL)?;
        Ok(Reader { file, offset: 0, at, window, sequence })
    }

    /// Where in the file the next entry begins.
    pub fn position(&self) -> u64 {
        self.offset + self.at as u64
    }

    /// The next entry; `None` at `end`, which is where an entry ends.
    ///
    /// # Errors
    /// The errno of the read; EIO where there is no whole entry.
    pub fn next_before(&mut self, end: u64) -> io::Result<Option<Entry>> {
        if self.position() >= end {
            return Ok(None);
        }
        let mut found = decode(&self.window, self.at, self.sequence);
        if found.is_none() {
            self.offset = self.position();
            self.at = 0;
            self.window = self.file.read_at(self.offset, WINDOW_BYTES)?;
            found = decode(&self.window, 0, self.sequence);
        }
        let (entry, next) = found.ok_or(rustix::io::Errno::IO)?;
        self.at = next;
        self.sequence += 1;
        Ok(Some(entry))
    }
}
