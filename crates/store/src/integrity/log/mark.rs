//! How far a log of seals was synced, and which one it was, kept outside it: a log that ends before that was cut off,
//! and one that is not there was lost.
//!
//! ```text
//! SEALS.mark := "FRBYSEAL" generation:u64le synced:u64le crc32c:u32le
//! ```
//!
//! It is made durably before its log is. After that it is written after each sync and not synced itself: a power loss
//! may leave an old one, but never one that is ahead of what the log keeps.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

const MAGIC: &[u8; 8] = b"FRBYSEAL";
const MARK_BYTES: usize = 28;

/// What a mark says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Marked {
    /// How often the log had been written anew; 0: it was not made yet.
    pub(super) generation: u64,
    /// So much of it was synced, bytes.
    pub(super) synced: u64,
}

/// The mark beside a log.
#[derive(Debug)]
pub(super) struct Mark {
    file: File,
}

/// What was found where a mark should be.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// Nothing.
    None,
    /// It cannot be understood.
    Damaged,
    /// It says so.
    Marked(Marked),
}

impl Found {
    /// What it says; as if there were no log where it says nothing.
    pub(super) fn marked(&self) -> Marked {
        if let Found::Marked(marked) = self { *marked } else { Marked::default() }
    }
}

/// Where the mark of the log at `log` is.
pub(super) fn path_of(log: &Path) -> PathBuf {
    log.with_extension("mark")
}

/// Reads the mark of the log at `log`.
///
/// # Errors
/// It cannot be read.
pub(super) fn find(log: &Path) -> io::Result<Found> {
    let Some(bytes) = disk::read(&path_of(log))? else { return Ok(Found::None) };
    Ok(parse(&bytes).map_or(Found::Damaged, Found::Marked))
}

impl Mark {
    /// The mark of the log at `log`, which says this durably from now on.
    ///
    /// # Errors
    /// The file system's.
    pub(super) fn make(log: &Path, marked: Marked) -> io::Result<Mark> {
        let path = path_of(log);
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path)?;
        file.write_all_at(&bytes_of(marked), 0)?;
        file.set_len(MARK_BYTES as u64)?;
        file.sync_all()?;
        disk::sync_names(&path)?;
        Ok(Mark { file })
    }

    /// Notes what is synced.
    pub(super) fn note(&self, marked: Marked) {
        if let Err(error) = self.file.write_all_at(&bytes_of(marked), 0) {
            // What was synced is safe all the same; only that it was could not be shown if the log were cut off.
            tracing::warn!(%error, "cannot note beside the log of checksums how far it was synced");
        }
    }
}

fn bytes_of(marked: Marked) -> Vec<u8> {
    let mut bytes = MAGIC.to_vec();
    bytes.extend_from_slice(&marked.generation.to_le_bytes());
    bytes.extend_from_slice(&marked.synced.to_le_bytes());
    bytes.extend_from_slice(&crc32c::crc32c(&bytes).to_le_bytes());
    bytes
}

fn parse(bytes: &[u8]) -> Option<Marked> {
    let (body, crc) = bytes.split_last_chunk::<4>()?;
    let body: &[u8; MARK_BYTES - 4] = body.try_into().ok()?;
    let is_mark = body.starts_with(MAGIC) && crc32c::crc32c(body) == u32::from_le_bytes(*crc);
    let number = |at: usize| u64::from_le_bytes(body[at..at + 8].try_into().expect("8 bytes are 8"));
    is_mark.then(|| Marked { generation: number(8), synced: number(16) })
}
