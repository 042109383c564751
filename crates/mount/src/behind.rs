//! Write-behind, where a namespace asks only for commit coherence: small writes are held back and sent many at a time.
//!
//! What is held back of a file is sent before anything on this node could tell that it was not (a read, `stat`,
//! truncation, append), and before the calls after which other nodes may look: fsync, close, unlock. Only the bytes
//! that were written are kept and sent, so that neighbours' bytes stay what they are. An error of sending is told by
//! the next fsync or close.
//!
//! Every held write is also in a journal, a file beside the mount's ledger, so that a successor of this process has it.
//! Like the ledger it survives the process, not the machine, and is not synced.
//!
//! **Invariant:** no more than [`MOUNT_BYTES_MAX`] and one write are held.

mod extents;
mod journal;

use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard};

use client::{Client, Contents as _, Errno, Result};

use extents::Extents;
use journal::Journal;
use model::Ino;

/// Writes from this size on are sent at once: they cost a request each in any case.
const SMALL_MAX: usize = 256 << 10;

/// Of one file, so much is held before it is sent; in requests of 1 MiB.
const FILE_BYTES_MAX: usize = 4 << 20;

/// Of all files.
const MOUNT_BYTES_MAX: usize = 64 << 20;

/// What a mount holds back.
#[derive(Debug)]
pub struct Behind {
    files: Mutex<HashMap<Ino, Arc<Mutex<File>>>>,
    journal: Mutex<Journal>,
}

#[derive(Debug, Default)]
struct File {
    extents: Extents,
    /// Bytes of the writes that are held, also of those that others cover.
    bytes: usize,
}

impl Behind {
    /// Nothing is held. What an old journal has is dropped: whoever wrote it lost the open files, too.
    ///
    /// # Errors
    /// What the file system says of the journal.
    pub fn create(journal: &Path) -> io::Result<Behind> {
        Ok(Behind { files: Mutex::default(), journal: Mutex::new(Journal::create(journal)?) })
    }

    /// Takes over what a process held that died.
    ///
    /// # Errors
    /// What the file system says of the journal.
    pub fn open(journal: &Path) -> io::Result<Behind> {
        let (journal, held) = Journal::open(journal)?;
        let mut files: HashMap<Ino, Arc<Mutex<File>>> = HashMap::new();
        for (ino, offset, bytes) in held {
            lock(files.entry(ino).or_default()).hold(offset, &bytes);
        }
        Ok(Behind { files: Mutex::new(files), journal: Mutex::new(journal) })
    }

    /// Writes all of `bytes`, now or later.
    ///
    /// # Errors
    /// Those of [`client::Contents::write`], perhaps of earlier writes that had to be sent to make room.
    pub fn write(&self, client: &Client, ino: Ino, offset: u64, bytes: &[u8]) -> Result<()> {
        if bytes.len() >= SMALL_MAX {
            self.settle(client, ino);
            return client.write(ino, offset, bytes);
        }
        let file = Arc::clone(lock(&self.files).entry(ino).or_default());
        let mut file = lock(&file);
        let (all, is_long) = {
            let mut journal = lock(&self.journal);
            journal.hold(ino, offset, bytes).map_err(|error| {
                tracing::error!(%error, "cannot keep a write that is held back");
                Errno::IO
            })?;
            (journal.held(), journal.is_long())
        };
        file.hold(offset, bytes);
        if file.bytes < FILE_BYTES_MAX && all < MOUNT_BYTES_MAX && !is_long {
            return Ok(());
        }
        let result = self.send(client, ino, &mut file);
        drop(file);
        if is_long {
            self.settle_all(client);
        }
        result
    }

    /// Sends what is held of every file.
    pub fn settle_all(&self, client: &Client) {
        let all: Vec<Ino> = lock(&self.files).keys().copied().collect();
        all.into_iter().for_each(|ino| {
            self.settle(client, ino);
        });
    }

    /// Sends what is held of a file. An error is told to its handles, by [`Client::tell`].
    ///
    /// Returns whether there was anything.
    pub fn settle(&self, client: &Client, ino: Ino) -> bool {
        let Some(file) = lock(&self.files).get(&ino).cloned() else { return false };
        let mut file = lock(&file);
        let any = file.bytes > 0;
        if any {
            let _told_to_its_handles = self.send(client, ino, &mut file);
        }
        any
    }

    /// Whether anything is held of a file.
    pub fn holds(&self, ino: Ino) -> bool {
        // Not waited for: whoever is sending it, or adds to it, has the file.
        lock(&self.files).get(&ino).is_some_and(|file| file.try_lock().map_or(true, |file| file.bytes > 0))
    }

    /// A handle was closed for good: a file of which nothing is held is forgotten.
    pub fn closed(&self, ino: Ino) {
        let mut files = lock(&self.files);
        // Whoever else has the file in hand has counted it.
        if files.get(&ino).is_some_and(|file| Arc::strong_count(file) == 1 && lock(file).bytes == 0) {
            files.remove(&ino);
        }
    }

    fn send(&self, client: &Client, ino: Ino, file: &mut File) -> Result<()> {
        let sent = client.write_extents(ino, file.extents.iter());
        if let Err(errno) = sent {
            tracing::error!(%ino, %errno, bytes = file.bytes, "writes that were held back are lost");
            client.lost(ino, errno);
        }
        file.extents.clear();
        lock(&self.journal).sent(ino, std::mem::take(&mut file.bytes));
        sent
    }
}

impl File {
    fn hold(&mut self, offset: u64, bytes: &[u8]) {
        self.extents.insert(offset, bytes);
        self.bytes += bytes.len();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("no thread panics while it holds what is held back")
}
