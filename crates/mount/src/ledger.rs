//! The ledger: a file with what a successor of this process must know, kept up to date with every open, close and lock.
//!
//! ```text
//! header   what was agreed with the kernel, and what the storage nodes know us by
//! record*  one for each change, appended before the kernel is told that it is done (see [`book`])
//! ```
//!
//! It has to survive the process, not the machine: with that, the mount and all it opened are gone. So nothing is
//! synced, and an append costs about a microsecond. When most of it is history, the file is written anew.
//!
//! **Invariant:** the file is true, or there is none: where an append fails it is removed, and a successor mounts anew.

pub mod book;
pub mod record;

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard};

use client::{FileLock, Held, Remembered};
use fuse::session::Negotiated;
use model::{FragmentIndex, Ino, SessionId};
use zerocopy::{FromBytes, Immutable, IntoBytes};

use self::book::Book;
use self::record::{Backing, Record};

/// The file's first bytes; the digit is the format's version.
const MAGIC: [u8; 8] = *b"fbledg1\n";

/// The file is written anew when it has this many records and four times what is needed: 4 MiB.
const RECORDS_MIN: usize = 1 << 16;

/// What never changes while a mount lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// What the storage nodes know the mount by.
    pub session: SessionId,
    /// What was agreed with the kernel.
    pub negotiated: Negotiated,
}

/// The ledger of a mount.
#[derive(Debug)]
pub struct Ledger {
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    path: PathBuf,
    identity: Identity,
    /// `None`: it could not be written, and was removed.
    file: Option<File>,
    records: usize,
    book: Book,
}

#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
struct Header {
    magic: [u8; 8],
    session: [u8; 16],
    capabilities: u64,
    minor: u32,
    max_write: u32,
    unused: [u8; 24],
}

impl Ledger {
    /// A ledger for a new mount; replaces one that is there.
    ///
    /// # Errors
    /// What the file system says.
    pub fn create(path: &Path, identity: Identity) -> io::Result<Ledger> {
        Ledger::with(path, identity, Book::default())
    }

    /// Takes over the ledger of a process that died.
    ///
    /// # Errors
    /// What the file system says; `InvalidData` for a file that is no ledger of this version.
    pub fn open(path: &Path) -> io::Result<(Ledger, Identity)> {
        let mut bytes = Vec::new();
        File::open(path)?.read_to_end(&mut bytes)?;
        let (header, records) = Header::read_from_prefix(&bytes).map_err(|_| io::ErrorKind::InvalidData)?;
        if header.magic != MAGIC {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "not a ledger of this version"));
        }
        let Header { capabilities, minor, max_write, .. } = header;
        let negotiated = Negotiated { minor, capabilities, max_write };
        let identity = Identity { session: header.session.into(), negotiated };
        let mut book = Book::default();
        // A rest that is no whole record was being appended when the process died: nobody was told of it.
        records.chunks_exact(size_of::<Record>()).for_each(|record| {
            book.apply(Record::read_from_bytes(record).expect("a chunk is as long as a record"));
        });
        // Written anew, as the rest must go before anything is appended.
        Ok((Ledger::with(path, identity, book)?, identity))
    }

    /// The request `unique` opened `ino`.
    pub fn opened(&self, unique: u64, ino: Ino, write: bool, backing: Backing) {
        self.append(Record::opened(unique, ino, write, backing));
    }

    /// The request `unique` closed a handle on `ino`.
    pub fn closed(&self, unique: u64, ino: Ino, write: bool, passed_through: bool) {
        self.append(Record::closed(unique, ino, write, passed_through));
    }

    /// A lock was granted through a handle, or given up.
    pub fn locked(&self, ino: Ino, owner: u64, lock: &FileLock, handle: u64) {
        self.append(Record::locked(ino, owner, lock, handle));
    }

    /// The locks of the file that were taken through the handle, each with its owner.
    pub fn taken_through(&self, ino: Ino, handle: u64) -> Vec<(u64, FileLock)> {
        self.lock().book.taken_through(ino, handle)
    }

    /// An owner's range locks were given up.
    pub fn unlocked(&self, ino: Ino, owner: u64) {
        if self.lock().book.has_locks(ino, owner) {
            self.append(Record::unlocked(ino, owner));
        }
    }

    /// How a former process ended the request `unique`, if it did; for opens and closes.
    pub fn done(&self, unique: u64) -> Option<Record> {
        self.lock().book.done(unique)
    }

    /// Whether any file is open.
    pub fn is_any_open(&self) -> bool {
        self.lock().book.is_any_open()
    }

    /// What is open and locked.
    pub fn held(&self) -> Held {
        self.lock().book.held()
    }

    /// What is unconfirmed, and what was lost.
    pub fn remembered(&self) -> Remembered {
        self.lock().book.remembered()
    }

    /// Inodes with a backing file, and their opens that are passed through.
    pub fn backings(&self) -> Vec<(Ino, Backing, u32)> {
        self.lock().book.backings()
    }

    fn with(path: &Path, identity: Identity, book: Book) -> io::Result<Ledger> {
        let mut state = State { path: path.into(), identity, file: None, records: 0, book };
        state.write_anew()?;
        Ok(Ledger { state: Mutex::new(state) })
    }

    fn append(&self, record: Record) {
        let mut state = self.lock();
        state.book.apply(record);
        let Some(file) = &mut state.file else { return };
        let written = file.write_all(record.as_bytes());
        state.records += 1;
        let result = match written {
            Ok(()) if state.records > RECORDS_MIN && state.records > 4 * state.book.record_count() => {
                state.write_anew()
            }
            other => other,
        };
        if let Err(error) = result {
            state.give_up(&error);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no thread panics while it holds the ledger")
    }
}

impl Ledger {
    /// The fragment has this commit verifier.
    pub fn verifier(&self, fragment: FragmentIndex, verifier: u64) {
        self.append(Record::verifier(fragment, verifier));
    }

    /// What was written to the file was lost.
    pub fn failed(&self, ino: Ino, stamp: u64, errno: i32) {
        self.append(Record::failed(ino, stamp, errno));
    }

    /// A handle was told of it.
    pub fn told(&self, ino: Ino, handle: u64) {
        self.append(Record::told(ino, handle));
    }
}

impl State {
    /// Writes header and book beside the file, then over it.
    fn write_anew(&mut self) -> io::Result<()> {
        let Negotiated { minor, capabilities, max_write } = self.identity.negotiated;
        let session = self.identity.session.into();
        let header = Header { magic: MAGIC, session, capabilities, minor, max_write, unused: [0; 24] };
        let records = self.book.records();
        let mut bytes = header.as_bytes().to_vec();
        records.iter().for_each(|record| bytes.extend_from_slice(record.as_bytes()));
        let beside = self.path.with_extension("new");
        let mut file =
            OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&beside)?;
        file.write_all(&bytes)?;
        std::fs::rename(&beside, &self.path)?;
        (self.file, self.records) = (Some(file), records.len());
        Ok(())
    }

    fn give_up(&mut self, error: &io::Error) {
        let path = self.path.display();
        tracing::error!(%path, %error, "cannot write the ledger: if this process dies, open files are lost");
        self.file = None;
        // Where it cannot even be removed it is there, and wrong: emptied it is none.
        if std::fs::remove_file(&self.path).is_err() {
            let _emptied = OpenOptions::new().write(true).truncate(true).open(&self.path);
        }
    }
}

#[cfg(test)]
mod tests;
