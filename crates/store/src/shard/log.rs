//! The metadata log: an append-only file of checksummed entries, which a shorter one replaces from time to time.
//!
//! An entry is acknowledged when it has been handed to the kernel: that survives `kill -9`. A power loss it survives
//! after a sync ([`Log::to_sync`], [`Log::finish`]). After a failed write or sync the log takes nothing more (the
//! kernel may have dropped what it could not write), and the shard serves no change until another log has its place.
//!
//! Recovery tells a torn tail (the last entry was being written: cut off, it was never acknowledged) from damage in the
//! middle (an entry that does not match its checksum although valid ones follow: reported, nothing is served), and from
//! a log that was cut off before what was synced ([`mark`]). What was never synced may lack pages after a power loss:
//! zeros, after which later pages may have reached the disk.
//!
//! A log is replaced by way of a [`Draft`]:
//!
//! ```text
//! writing ---> synced ---> renamed ---> the folder is synced
//!    |            |           |              a power loss before this finds one log or the other
//!    +-- fails: the old log goes on    +-- from here on the new log is written, and a sync syncs the folder first
//! ```
//!
//! **Invariant:** a sync counts only for the log that it was of; what it confirmed is in every file that may have the
//! log's name after a power loss.

mod draft;
mod error;
pub mod format;
mod growth;
pub mod mark;
mod reserve;
pub mod restore;
pub(crate) mod scan;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::io::Errno;

use super::record::Entry;
use crate::log_folder::{DiskFolder, Folder, LogFile};
pub use draft::{DRAFT, Draft};
pub use error::LogError;
pub(super) use error::io_error;
use format::Reader;
pub use growth::{Extent, Growth};
use mark::Mark;
use reserve::Reserve;
use scan::{Scanned, scan};

/// The log's name in its folder.
pub const NAME: &str = "meta.log";

/// What is tried when a log is opened that may not be there.
pub const OPEN: &str = "open";
/// The same for its folder.
pub const OPEN_FOLDER: &str = "open the folder of";

/// A log is replaced when it is this many times as long as what it began with.
const GROWTH_MAX: u64 = 4;

/// An open log, at its end.
#[derive(Debug)]
pub struct Log {
    folder: Arc<dyn Folder>,
    file: Arc<dyn LogFile>,
    mark: Arc<Mark>,
    /// Which of the files that had the name since the shard was opened.
    generation: u64,
    length: u64,
    /// The next entry's sequence number.
    next: u64,
    /// How long it was when it was begun.
    begun: u64,
    /// The length that is known to survive a power loss.
    synced: u64,
    /// Everything before this entry is known to survive it here.
    synced_next: u64,
    /// The same wherever it has to.
    confirmed: u64,
    /// Whether the file is known to keep its name in a power loss.
    named: bool,
    broken: bool,
    reserve: Reserve,
    growth: Arc<Growth>,
    buffer: Vec<u8>,
}

/// A sync that is to be done without holding up appends.
#[derive(Debug)]
pub struct Sync {
    file: Arc<dyn LogFile>,
    folder: Option<Arc<dyn Folder>>,
    generation: u64,
    length: u64,
    next: u64,
}

impl Sync {
    /// The log survives a power loss up to this length when it is done, bytes.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// Everything before this entry survives a power loss when it is done.
    pub fn next(&self) -> u64 {
        self.next
    }

    /// Does it.
    ///
    /// # Errors
    /// The errno of what failed.
    pub fn run(&self) -> io::Result<()> {
        self.file.sync()?;
        self.folder.as_ref().map_or(Ok(()), |folder| folder.sync())
    }
}

/// What a sync was good for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Synced {
    /// The log survives a power loss up to this length, bytes.
    UpTo(u64),
    /// The log was replaced meanwhile: nothing is known of the one that is there now.
    AnotherLog,
}

impl Log {
    /// Begins the first log in the folder at `folder` with `entries`, durably.
    ///
    /// # Errors
    /// [`LogError::Io`], with EEXIST where there is a log: it is untouched then.
    pub fn create(folder: Arc<dyn Folder>, entries: impl Iterator<Item = Entry>) -> Result<Log, LogError> {
        let failed = |operation, cause| io_error(operation, folder.path_of(NAME), cause);
        let mut draft = Draft::begin(folder.clone(), 0).map_err(|e| failed("create", e))?;
        draft.snapshot(entries).and_then(|()| draft.sync()).map_err(|e| failed("write", e))?;
        folder.publish(DRAFT, NAME).map_err(|e| failed("name", e))?;
        draft.is_named = true;
        folder.sync().map_err(|e| failed("sync the folder of", e))?;
        let (mark, _) = Mark::open(&*folder).map_err(|e| failed("make the mark of", e))?;
        mark.note(draft.next);
        let confirmed = draft.next;
        Ok(Log {
            named: true,
            synced_next: confirmed,
            confirmed,
            ..Log::of_draft(draft, Arc::new(mark), 0, Arc::default())
        })
    }

    /// Opens the log in the folder and gives every entry in it to `each`, in order.
    ///
    /// # Errors
    /// [`LogError`]; with ENOENT where there is none.
    pub fn open(folder: Arc<dyn Folder>, mut each: impl FnMut(Entry)) -> Result<Log, LogError> {
        let path = folder.path_of(NAME);
        let failed = |operation, cause| io_error(operation, path.clone(), cause);
        let file = folder.open(NAME).map_err(|e| failed(OPEN, e))?;
        let (mark, marked) = Mark::open(&*folder).map_err(|e| failed("read the mark of", e))?;
        let len = file.len().map_err(|e| failed("measure", e))?;
        let bytes = file.read_at(0, index(len)).map_err(|e| failed("read", e))?;
        let Scanned { end: at, next, begun } = scan(&path, &bytes, marked, &mut each)?;
        if at < bytes.len() {
            tracing::warn!(path = %path.display(), offset = at, "cut off the torn tail of the metadata log");
            file.set_len(at as u64).map_err(|e| failed("cut off the torn tail of", e))?;
        }
        draft::discard(&*folder);
        let reserve = Reserve::of(&*file);
        Ok(Log {
            folder,
            file,
            mark: Arc::new(mark),
            generation: 0,
            length: at as u64,
            next,
            begun,
            synced: 0,
            synced_next: marked,
            confirmed: marked,
            // A former process may have renamed it and died before it synced the folder.
            named: false,
            broken: false,
            reserve,
            growth: Arc::default(),
            buffer: Vec::new(),
        })
    }

    /// How far it goes now.
    pub fn extent(&self) -> Extent {
        let (file, generation, length) = (self.file.clone(), self.generation, self.length);
        Extent { file, generation, length, next: self.next, confirmed: self.confirmed }
    }

    /// Who waits for it to grow.
    pub fn growth(&self) -> &Arc<Growth> {
        &self.growth
    }

    /// Everything before this entry was synced here.
    pub fn synced_next(&self) -> u64 {
        self.synced_next
    }

    /// Everything before the entry `next` was synced wherever it has to be: a log that ends before was cut off.
    pub fn confirm(&mut self, next: u64) {
        if next > self.confirmed {
            self.confirmed = next;
            self.mark.note(next);
        }
    }

    /// Whether a sync was of this log, and not of one that it has replaced.
    pub fn is_of(&self, sync: &Sync) -> bool {
        sync.generation == self.generation
    }

    /// How many bytes it has.
    pub fn len(&self) -> u64 {
        self.length
    }

    /// Appends one entry and hands it to the kernel.
    ///
    /// # Errors
    /// E2BIG where the entry is too long, and ENOSPC where it may not use what is kept for others: nothing was written
    /// then. The errno of the write; EIO until another log takes this one's place.
    pub fn append(&mut self, entry: &Entry) -> io::Result<()> {
        self.intact()?;
        self.buffer.clear();
        format::encode(&mut self.buffer, entry, self.next)?;
        let end = self.length + self.buffer.len() as u64;
        self.reserve.take(&*self.file, end, entry.record.purpose())?;
        let written = self.file.write_at(self.length, &self.buffer);
        match &written {
            Ok(()) => {
                self.length += self.buffer.len() as u64;
                self.next += 1;
                self.growth.tell();
            }
            // A full disk wrote nothing or a part, which is cut off again: the next may fit. Anything else leaves the
            // file in a state that nobody knows.
            Err(error) => {
                self.broken = !disk::is_full(error) || self.file.set_len(self.length).is_err();
                self.reserve = Reserve::of(&*self.file);
            }
        }
        written
    }

    /// What has to be synced so that all entries survive a power loss; `None`: nothing.
    ///
    /// # Errors
    /// EIO where a write or a sync failed: nobody knows what of the log is on the disk.
    pub fn to_sync(&self) -> io::Result<Option<Sync>> {
        if self.named && self.synced >= self.length {
            return Ok(None);
        }
        self.intact()?;
        Ok(Some(Sync {
            file: self.file.clone(),
            folder: (!self.named).then(|| self.folder.clone()),
            generation: self.generation,
            length: self.length,
            next: self.next,
        }))
    }

    /// Notes how a sync ended that [`Log::to_sync`] prepared.
    ///
    /// # Errors
    /// Its error; EIO where the log broke meanwhile.
    pub fn finish(&mut self, sync: &Sync, result: io::Result<()>) -> io::Result<Synced> {
        if sync.generation != self.generation {
            return Ok(Synced::AnotherLog);
        }
        if let Err(error) = result {
            self.broken = true;
            return Err(error);
        }
        // Another sync may have been told of an error that this one was not: the kernel tells it once.
        self.intact()?;
        self.named = true;
        self.synced = self.synced.max(sync.length);
        // Also where no byte was: of a log that took another's place, everything is synced, and no entry is known to
        // be.
        self.synced_next = self.synced_next.max(sync.next);
        Ok(Synced::UpTo(sync.length))
    }

    /// Whether it is so much longer than it began that it should be replaced.
    pub fn is_overgrown(&self, bytes_min: u64) -> bool {
        self.length > bytes_min.max(GROWTH_MAX * self.begun)
    }

    /// Whether a write or a sync failed: nothing is appended until another log takes its place. What was appended
    /// before can be read, or the reader finds that it cannot.
    pub fn is_broken(&self) -> bool {
        self.broken
    }

    /// Begins the log that is to replace this one, and to read this one from its beginning.
    ///
    /// # Errors
    /// The errno of what failed.
    pub fn begin_replacing(&self) -> io::Result<(Draft, Reader)> {
        let reader = Reader::begin(self.file.clone())?;
        Ok((Draft::begin(self.folder.clone(), self.next)?, reader))
    }

    /// Whether more than its first `copied` bytes count as synced.
    pub fn is_confirmed_beyond(&self, copied: u64) -> bool {
        self.synced > copied
    }

    /// Puts `draft` in this log's place, which has all of this log, and what it has of this log's first `copied` bytes
    /// was synced.
    ///
    /// # Errors
    /// The errno of what failed; EAGAIN where more than that was confirmed of this log. Unless the error leaves it
    /// unknown which of both has the name, this log goes on.
    pub fn replace_by(&mut self, mut draft: Draft, copied: u64) -> io::Result<()> {
        if self.is_confirmed_beyond(copied) {
            return Err(Errno::AGAIN.into());
        }
        draft.flush()?;
        if let Err(error) = self.folder.replace(DRAFT, NAME) {
            let errno = error.raw_os_error().map(Errno::from_raw_os_error);
            // A rename that runs out of something did nothing; of another that fails it is not known.
            let did_nothing = [Errno::NOSPC, Errno::DQUOT, Errno::NOMEM, Errno::ACCESS, Errno::PERM];
            draft.is_named = !errno.is_some_and(|errno| did_nothing.contains(&errno));
            self.broken |= draft.is_named;
            return Err(error);
        }
        draft.is_named = true;
        let (synced_next, confirmed) = (self.synced_next, self.confirmed);
        let log = Log::of_draft(draft, self.mark.clone(), self.generation + 1, self.growth.clone());
        *self = Log { synced_next, confirmed, ..log };
        self.growth.tell();
        Ok(())
    }

    /// What was appended since the last sync need not be synced.
    pub fn nothing_new(&mut self) {
        self.synced = self.length;
    }

    /// Where it is.
    pub fn path(&self) -> PathBuf {
        self.folder.path_of(NAME)
    }

    /// The log that a draft becomes.
    fn of_draft(mut draft: Draft, mark: Arc<Mark>, generation: u64, growth: Arc<Growth>) -> Log {
        Log {
            folder: draft.folder.clone(),
            file: draft.file.clone(),
            mark,
            generation,
            length: draft.length,
            next: draft.next,
            begun: draft.begun,
            synced: draft.synced,
            synced_next: 0,
            confirmed: 0,
            named: false,
            broken: false,
            reserve: Reserve::of(&*draft.file),
            growth,
            buffer: std::mem::take(&mut draft.buffer),
        }
    }

    fn intact(&self) -> io::Result<()> {
        if self.broken { Err(Errno::IO.into()) } else { Ok(()) }
    }
}

/// The folder of a log on this machine, which must be there.
///
/// # Errors
/// [`LogError::Io`].
pub fn folder(path: &Path) -> Result<Arc<dyn Folder>, LogError> {
    let opened = DiskFolder::open(path);
    let opened = opened.map_err(|cause| io_error(OPEN_FOLDER, path.join(NAME), cause))?;
    Ok(Arc::new(opened))
}

/// A length in memory.
fn index(len: u64) -> usize {
    usize::try_from(len).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests;
