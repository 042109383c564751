//! What is noted durably beside the log of seals, and looked at whenever an object is used.
//!
//! **Invariant:** who looks waits for no disk. A change counts only once it is durable, and changes are made durable in
//! their order.

use std::io;
use std::path::Path;
use std::sync::{Mutex, MutexGuard};

/// What is known by a note.
#[derive(Debug, Default)]
pub struct Note<T> {
    known: Mutex<T>,
    /// Held while a change is made durable.
    writing: Mutex<()>,
}

impl<T: Clone> Note<T> {
    /// What the note says.
    pub fn of(known: T) -> Note<T> {
        Note { known: Mutex::new(known), writing: Mutex::default() }
    }

    /// What is known now. What is changed here counts at once: the note says something else until it is written.
    pub fn known(&self) -> MutexGuard<'_, T> {
        self.known.lock().expect("no thread panics while it holds what a note says")
    }

    /// Has `change` what is known once `write` has made that durable. Where `change` does not wish it, nothing is done;
    /// it is called again of what is known by then.
    ///
    /// # Errors
    /// Those of `write`: nothing is changed.
    pub fn change(
        &self,
        change: impl Fn(&mut T) -> bool,
        write: impl FnOnce(&T) -> io::Result<()>,
    ) -> io::Result<()> {
        let _in_order = self.writing();
        let mut next = self.known().clone();
        if !change(&mut next) {
            return Ok(());
        }
        write(&next)?;
        change(&mut self.known());
        Ok(())
    }

    /// Nobody else makes anything durable meanwhile.
    pub fn writing(&self) -> MutexGuard<'_, ()> {
        self.writing.lock().expect("no thread panics while it writes a note")
    }
}

/// Replaces the note at `path`: the CRC32C of `body`, little-endian, then that.
///
/// # Errors
/// The file system's.
pub fn write(path: &Path, body: &[u8]) -> io::Result<()> {
    #[cfg(test)]
    hanging::wait(path);
    disk::replace(path, &[&crc32c::crc32c(body).to_le_bytes(), body].concat())
}

/// What was noted; `None` where that is damaged.
pub fn body(note: &[u8]) -> Option<&[u8]> {
    let (crc, body) = note.split_first_chunk::<4>()?;
    (crc32c::crc32c(body) == u32::from_le_bytes(*crc)).then_some(body)
}

/// A disk that hangs where a note is.
#[cfg(test)]
pub mod hanging {
    use std::path::{Path, PathBuf};
    use std::sync::{Condvar, Mutex};

    static NOTES: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());
    static CHANGED: Condvar = Condvar::new();

    /// Whoever writes this note waits.
    pub fn begin(note: &Path) {
        NOTES.lock().unwrap().push(note.to_owned());
    }

    /// Nobody waits any more.
    pub fn end(note: &Path) {
        NOTES.lock().unwrap().retain(|other| other != note);
        CHANGED.notify_all();
    }

    pub(super) fn wait(note: &Path) {
        let hangs = |notes: &mut Vec<PathBuf>| notes.iter().any(|other| other == note);
        drop(CHANGED.wait_while(NOTES.lock().unwrap(), hangs).unwrap());
    }
}
