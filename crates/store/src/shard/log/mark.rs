//! How far a log was synced, kept outside it: a log that ends before that was cut off.
//!
//! ```text
//! file := "FRBYMARK" sequence:u64le crc32c:u32le
//! ```
//!
//! The mark is written after each sync and not synced itself: after a power loss it may be old, but it is never ahead
//! of what the log keeps.

use std::io;
use std::sync::Arc;

use crate::log_folder::{Folder, LogFile};

const NAME: &str = "meta.mark";
const MAGIC: &[u8; 8] = b"FRBYMARK";
const MARK_BYTES: usize = 20;

/// The mark of a log.
#[derive(Debug)]
pub struct Mark {
    file: Arc<dyn LogFile>,
}

impl Mark {
    /// The mark in `folder`, made if there is none, and the first sequence number that was not synced yet (0: not
    /// known).
    ///
    /// # Errors
    /// The errno of what failed.
    pub fn open(folder: &dyn Folder) -> io::Result<(Mark, u64)> {
        let file = match folder.open(NAME) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => folder.create(NAME)?,
            other => other?,
        };
        let bytes = file.read_at(0, MARK_BYTES)?;
        // One that a power loss left without its bytes says nothing; nor does a damaged one, and the log has its own
        // sums.
        Ok((Mark { file }, parse(&bytes).unwrap_or(0)))
    }

    /// Notes in `folder` that everything before `sequence` was synced, where less is noted there.
    ///
    /// # Errors
    /// The errno of what failed.
    pub fn raise(folder: &dyn Folder, sequence: u64) -> io::Result<()> {
        let (mark, marked) = Mark::open(folder)?;
        if marked < sequence {
            mark.file.write_at(0, &bytes_of(sequence))?;
        }
        Ok(())
    }

    /// Notes that everything before `sequence` is synced.
    pub fn note(&self, sequence: u64) {
        if let Err(error) = self.file.write_at(0, &bytes_of(sequence)) {
            // What was synced is safe all the same; only that it was could not be shown if the log were cut off.
            tracing::warn!(%error, "cannot note beside the metadata log how far it was synced");
        }
    }
}

fn bytes_of(sequence: u64) -> Vec<u8> {
    let mut bytes = MAGIC.to_vec();
    bytes.extend_from_slice(&sequence.to_le_bytes());
    bytes.extend_from_slice(&crc32c::crc32c(&bytes).to_le_bytes());
    bytes
}

fn parse(bytes: &[u8]) -> Option<u64> {
    let (head, crc) = bytes.split_at_checked(16)?;
    let crc = u32::from_le_bytes(crc.try_into().ok()?);
    let is_mark = head.starts_with(MAGIC) && crc32c::crc32c(head) == crc;
    is_mark.then(|| u64::from_le_bytes(head[8..].try_into().expect("16 - 8 bytes are 8")))
}
