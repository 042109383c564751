//! The log that is to replace another, or to be the first.

use std::io;
use std::sync::Arc;

use super::format::{self, Reader};
use crate::log_folder::{Folder, LogFile};
use crate::shard::record::{Entry, Record};

/// The name of a log that is not finished.
pub const DRAFT: &str = "meta.log.new";

/// Bytes of a draft that are written at once.
const DRAFT_WRITE_BYTES: usize = 1 << 20;

/// A log that is not in place yet. Its file is removed when it is dropped before it is.
#[derive(Debug)]
pub struct Draft {
    pub(super) folder: Arc<dyn Folder>,
    pub(super) file: Arc<dyn LogFile>,
    pub(super) length: u64,
    pub(super) next: u64,
    pub(super) begun: u64,
    pub(super) synced: u64,
    pub(super) is_named: bool,
    pub(super) buffer: Vec<u8>,
}

impl Draft {
    /// Begins one that counts its entries from `first`.
    pub(super) fn begin(folder: Arc<dyn Folder>, first: u64) -> io::Result<Draft> {
        let file = folder.create(DRAFT)?;
        let buffer = format::head(first);
        Ok(Draft { folder, file, length: 0, next: first, begun: 0, synced: 0, is_named: false, buffer })
    }

    /// Writes what the log begins with.
    ///
    /// # Errors
    /// The errno of what failed.
    pub fn snapshot(&mut self, mut entries: impl Iterator<Item = Entry>) -> io::Result<()> {
        entries.try_for_each(|entry| self.push(&entry))?;
        self.push(&Entry { origin: None, record: Record::Begun })?;
        self.begun = self.length + self.buffer.len() as u64;
        Ok(())
    }

    /// Copies what `reader` has before `end`.
    ///
    /// # Errors
    /// The errno of what failed.
    pub fn copy(&mut self, reader: &mut Reader, end: u64) -> io::Result<()> {
        while let Some(mut entry) = reader.next_before(end)? {
            // A length of the other log. The entry stays: numbers must not fall behind the other's.
            if let Record::Synced { length } = &mut entry.record {
                *length = 0;
            }
            self.push(&entry)?;
        }
        Ok(())
    }

    /// Makes what it has survive a power loss.
    ///
    /// # Errors
    /// The errno of what failed.
    pub fn sync(&mut self) -> io::Result<()> {
        self.flush()?;
        self.file.sync()?;
        self.synced = self.length;
        Ok(())
    }

    fn push(&mut self, entry: &Entry) -> io::Result<()> {
        format::encode(&mut self.buffer, entry, self.next)?;
        self.next += 1;
        if self.buffer.len() > DRAFT_WRITE_BYTES { self.flush() } else { Ok(()) }
    }

    pub(super) fn flush(&mut self) -> io::Result<()> {
        self.file.write_at(self.length, &self.buffer)?;
        self.length += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        if !self.is_named {
            discard(&*self.folder);
        }
    }
}

/// Removes an unfinished log: it would only take space.
pub(super) fn discard(folder: &dyn Folder) {
    if let Err(error) = folder.remove(DRAFT)
        && error.kind() != io::ErrorKind::NotFound
    {
        let path = folder.path_of(DRAFT);
        tracing::warn!(path = %path.display(), %error, "cannot remove an unfinished metadata log");
    }
}
