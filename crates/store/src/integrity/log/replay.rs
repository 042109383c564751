//! What a log of seals says when it is opened again.
//!
//! **Invariant:** a tail that was cut off held nothing that was synced, and no seal counts where that cannot be told.

use std::collections::BTreeMap;
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use model::Ino;

use super::end::End;
use super::{BODY_BYTES_MAX, LIFTED, RELEASED, SealRecord, Sealed, UNSYNCED_BYTES_MAX, live_bytes};
use crate::integrity::Seal;

const ENTRY_HEAD_BYTES: usize = 16;

/// What a note about a range of objects takes.
const LIFT_BYTES: u64 = 33;

impl End {
    /// Reads all entries, from where they begin; false where what counts cannot be told.
    pub(super) fn replay(&mut self, index: &mut BTreeMap<Ino, Sealed>, begins: u64) -> io::Result<bool> {
        let total = self.file.metadata()?.len();
        let file = self.file.clone();
        let mut reader = BufReader::with_capacity(1 << 20, &*file);
        reader.seek(SeekFrom::Start(begins))?;
        self.length = begins;
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

    fn apply(&mut self, body: &[u8], index: &mut BTreeMap<Ino, Sealed>) -> bool {
        match body.split_first() {
            Some((0, _)) => true,
            Some((1, record)) => {
                let Ok(record) = postcard::from_bytes::<SealRecord>(record) else { return false };
                let SealRecord { ino, length, mtime, chunks } = record;
                let seal = Arc::new(Seal { length, mtime, chunks: chunks.into(), file: self.file.clone() });
                self.live += live_bytes(&seal);
                let before = index.insert(ino, Sealed::new(seal));
                self.live -= before.map_or(0, |before| live_bytes(&before.seal)).min(self.live);
                true
            }
            Some((&LIFTED, range)) => {
                let Some((first, last)) = range_of(range) else { return false };
                let gone: Vec<Ino> = index.range(first..=last.max(first)).map(|(ino, _)| *ino).collect();
                for ino in gone {
                    // Whether it was changed after this is not known: it is summed anew.
                    let seal = index.remove(&ino).map(|sealed| live_bytes(&sealed.seal));
                    self.live -= seal.unwrap_or(0).min(self.live);
                }
                true
            }
            Some((&RELEASED, range)) => {
                let Some((first, last)) = range_of(range) else { return false };
                for (ino, sealed) in index.range_mut(first..=last.max(first)) {
                    // Those that are there are to be there from now on.
                    self.lapsed.push(*ino);
                    (sealed.released, sealed.may_be_gone) = (true, true);
                }
                true
            }
            _ => false,
        }
    }
}

fn range_of(body: &[u8]) -> Option<(Ino, Ino)> {
    let (first, last) = body.split_at_checked(8)?;
    Some((Ino::from_le_bytes(first.try_into().ok()?), Ino::from_le_bytes(last.try_into().ok()?)))
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
