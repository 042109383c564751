//! The metadata log: an append-only file of checksummed entries.
//!
//! ```text
//! file  := "FRBYMETA" version:u32le entry*
//! entry := len:u32le crc32c:u32le sequence:u64le body[len]        crc32c covers sequence and body
//! ```
//!
//! An entry is acknowledged when it has been handed to the kernel: that survives `kill -9`. A power loss it survives
//! after [`Log::sync`]. After a failed write or sync the log takes nothing more (the kernel may have dropped what it
//! could not write), and the shard serves no change until it is opened anew.
//!
//! Recovery tells a torn tail (the last entry was being written: cut off, it was never acknowledged) from damage in the
//! middle (an entry that does not match its checksum although valid ones follow: reported, nothing is served). What was
//! never synced may lack pages after a power loss: zeros, after which later pages may have reached the disk.

use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use super::record::{Entry, Record};

const MAGIC: &[u8; 8] = b"FRBYMETA";
const VERSION: u32 = 1;
const FILE_HEAD_BYTES: usize = 12;
const ENTRY_HEAD_BYTES: usize = 16;

/// No entry is longer, bytes: two names, a symbolic link and a full set of extended attributes fit many times.
const BODY_BYTES_MAX: usize = 1 << 20;

/// What the page cache writes at once, bytes.
const PAGE_BYTES: usize = 4096;

/// Why a log cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// The file system refused.
    #[error("{operation} metadata log {path}: {cause}")]
    Io {
        /// What was tried.
        operation: &'static str,
        /// On which file.
        path: PathBuf,
        /// Why.
        cause: io::Error,
    },
    /// An entry in the middle is damaged.
    #[error(
        "metadata log {path} is damaged at byte {offset}: the entry does not match its checksum, but later ones do"
    )]
    Damaged {
        /// Which file.
        path: PathBuf,
        /// Where.
        offset: usize,
    },
    /// The file is something else, or of another version.
    #[error("{path} is no metadata log of version {VERSION}")]
    Foreign {
        /// Which file.
        path: PathBuf,
    },
}

/// An open log, at its end.
#[derive(Debug)]
pub struct Log {
    file: File,
    path: PathBuf,
    length: u64,
    sequence: u64,
    /// The length that is known to survive a power loss.
    synced: u64,
    broken: bool,
    buffer: Vec<u8>,
}

impl Log {
    /// Begins a new log with `entries`, durably, in place of whatever is at `path`.
    ///
    /// # Errors
    /// [`LogError::Io`]; what was at `path` is untouched then.
    pub fn create(path: &Path, entries: impl Iterator<Item = Entry>) -> Result<Log, LogError> {
        let temporary = path.with_extension("new");
        let failed = |operation, cause| LogError::Io { operation, path: temporary.clone(), cause };
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(true)
            .open(&temporary)
            .map_err(|e| failed("create", e))?;
        let mut log = Log {
            file,
            path: path.to_owned(),
            length: 0,
            sequence: 0,
            synced: 0,
            broken: false,
            buffer: Vec::new(),
        };
        log.buffer.extend_from_slice(MAGIC);
        log.buffer.extend_from_slice(&VERSION.to_le_bytes());
        for entry in entries {
            log.encode(&entry).map_err(|e| failed("encode", e))?;
            if log.buffer.len() > 1 << 20 {
                log.flush().map_err(|e| failed("write", e))?;
            }
        }
        log.flush().map_err(|e| failed("write", e))?;
        log.sync().map_err(|e| failed("sync", e))?;
        std::fs::rename(&temporary, path).map_err(|e| failed("rename", e))?;
        sync_folder(path).map_err(|e| failed("sync the folder of", e))?;
        Ok(log)
    }

    /// Opens the log at `path` and gives every entry in it to `each`, in order.
    ///
    /// # Errors
    /// [`LogError`].
    pub fn open(path: &Path, mut each: impl FnMut(Entry)) -> Result<Log, LogError> {
        let failed = |operation, cause| LogError::Io { operation, path: path.to_owned(), cause };
        let mut file = OpenOptions::new().read(true).write(true).open(path).map_err(|e| failed("open", e))?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).map_err(|e| failed("read", e))?;
        let version = bytes.get(8..FILE_HEAD_BYTES);
        if bytes.get(..8) != Some(MAGIC.as_slice()) || version != Some(VERSION.to_le_bytes().as_slice()) {
            return Err(LogError::Foreign { path: path.to_owned() });
        }
        let (mut at, mut sequence, mut synced) = (FILE_HEAD_BYTES, 0, 0);
        while let Some((entry, next)) = decode(&bytes, at, sequence) {
            synced = synced.max(synced_to(&entry));
            each(entry);
            (at, sequence) = (next, sequence + 1);
        }
        if at < bytes.len() {
            if is_damaged(&bytes, at, sequence, synced) {
                return Err(LogError::Damaged { path: path.to_owned(), offset: at });
            }
            tracing::warn!(path = %path.display(), offset = at, "cut off the torn tail of the metadata log");
            file.set_len(at as u64).map_err(|e| failed("cut off the torn tail of", e))?;
        }
        Ok(Log {
            file,
            path: path.to_owned(),
            length: at as u64,
            sequence,
            synced: 0,
            broken: false,
            buffer: Vec::new(),
        })
    }

    /// How many bytes it has.
    pub fn len(&self) -> u64 {
        self.length
    }

    /// Appends one entry and hands it to the kernel.
    ///
    /// # Errors
    /// The errno of the write; EIO ever after.
    pub fn append(&mut self, entry: &Entry) -> io::Result<()> {
        if self.broken {
            return Err(io::Error::from_raw_os_error(rustix::io::Errno::IO.raw_os_error()));
        }
        let before = self.sequence;
        let result = self.encode(entry).and_then(|()| self.flush());
        if let Err(error) = &result {
            self.buffer.clear();
            self.sequence = before;
            // A full disk wrote nothing or a part, which is cut off again, and an entry that is too long wrote nothing: the
            // next may fit. Anything else leaves the file in a state that nobody knows.
            let harmless =
                matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::ArgumentListTooLong);
            self.broken = !harmless || self.file.set_len(self.length).is_err();
        }
        result
    }

    /// A second handle to sync with, without holding up appends, and the length that it will have made durable.
    ///
    /// # Errors
    /// The errno of `dup`.
    pub fn to_sync(&self) -> io::Result<Option<(File, u64)>> {
        if self.synced >= self.length {
            return Ok(None);
        }
        Ok(Some((self.file.try_clone()?, self.length)))
    }

    /// Notes how a sync that [`Log::to_sync`] prepared ended.
    pub fn synced(&mut self, length: u64, result: &io::Result<()>) {
        match result {
            Ok(()) => self.synced = self.synced.max(length),
            Err(_) => self.broken = true,
        }
    }

    fn sync(&mut self) -> io::Result<()> {
        let result = self.file.sync_data();
        self.synced(self.length, &result);
        result
    }

    fn encode(&mut self, entry: &Entry) -> io::Result<()> {
        let start = self.buffer.len();
        self.buffer.resize(start + ENTRY_HEAD_BYTES, 0);
        self.buffer =
            postcard::to_extend(entry, std::mem::take(&mut self.buffer)).map_err(io::Error::other)?;
        let body_len = self.buffer.len() - start - ENTRY_HEAD_BYTES;
        let len = u32::try_from(body_len).ok().filter(|_| body_len <= BODY_BYTES_MAX);
        let len =
            len.ok_or_else(|| io::Error::from_raw_os_error(rustix::io::Errno::TOOBIG.raw_os_error()))?;
        self.buffer[start..start + 4].copy_from_slice(&len.to_le_bytes());
        self.buffer[start + 8..start + 16].copy_from_slice(&self.sequence.to_le_bytes());
        let crc = crc32c::crc32c(&self.buffer[start + 8..]);
        self.buffer[start + 4..start + 8].copy_from_slice(&crc.to_le_bytes());
        self.sequence += 1;
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.write_all_at(&self.buffer, self.length)?;
        self.length += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// The entry at `at`, if it is whole and the one that `sequence` expects, and where the next begins.
fn decode(bytes: &[u8], at: usize, sequence: u64) -> Option<(Entry, usize)> {
    let head = bytes.get(at..at + ENTRY_HEAD_BYTES)?;
    let len = u32::from_le_bytes(head[0..4].try_into().ok()?) as usize;
    let crc = u32::from_le_bytes(head[4..8].try_into().ok()?);
    let found = u64::from_le_bytes(head[8..16].try_into().ok()?);
    if len > BODY_BYTES_MAX || found != sequence {
        return None;
    }
    let end = at + ENTRY_HEAD_BYTES + len;
    if crc32c::crc32c(bytes.get(at + 8..end)?) != crc {
        return None;
    }
    Some((postcard::from_bytes(&bytes[at + ENTRY_HEAD_BYTES..end]).ok()?, end))
}

/// The length that an entry says was synced.
fn synced_to(entry: &Entry) -> u64 {
    if let Record::Synced { length } = entry.record { length } else { 0 }
}

/// Whether what is at `at`, and no entry, was acknowledged: whole entries follow, and it was either synced or is not what
/// a page looks like that a power loss kept from the disk.
fn is_damaged(bytes: &[u8], at: usize, sequence: u64, synced: u64) -> bool {
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
        let found = u64::from_le_bytes(bytes[candidate + 8..candidate + 16].try_into().expect("8 bytes"));
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

/// Makes a new or renamed name in the folder of `path` survive a power loss.
pub fn sync_folder(path: &Path) -> io::Result<()> {
    File::open(path.parent().unwrap_or(Path::new(".")))?.sync_all()
}

#[cfg(test)]
mod tests;
