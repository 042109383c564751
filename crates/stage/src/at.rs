//! What each thread of a worker is at, in a file beside the journal: who finds the worker dead can name the file that
//! killed it.
//!
//! ```text
//! slot of 4 KiB for each thread := path, then NULs       all NULs: at nothing
//! ```

use std::cell::Cell;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes of a slot.
const SLOT: usize = 4096;

thread_local! {
    /// This thread's slot, which it keeps.
    static OWN: Cell<Option<u64>> = const { Cell::new(None) };
}

/// The file; without one nothing is noted.
#[derive(Default)]
pub struct At {
    file: Option<File>,
    slots: AtomicU64,
}

/// A thread is at something until this is dropped.
pub(crate) struct Now<'a>(&'a At);

impl At {
    /// Makes the file anew.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn create(path: &Path) -> io::Result<At> {
        Ok(At { file: Some(File::create(path)?), slots: AtomicU64::new(0) })
    }

    /// Notes that this thread begins with what is called `path` there, and `others` more.
    pub(crate) fn begin(&self, path: &str, others: usize) -> Now<'_> {
        if self.file.is_some() {
            let text =
                if others == 0 { path.to_owned() } else { format!("{path} or {others} files with it") };
            self.write(&text);
        }
        Now(self)
    }

    fn write(&self, text: &str) {
        let Some(file) = &self.file else { return };
        let slot = OWN.get().unwrap_or_else(|| self.slots.fetch_add(1, Ordering::Relaxed));
        OWN.set(Some(slot));
        let mut bytes = [0; SLOT];
        let length = text.len().min(SLOT - 1);
        bytes[..length].copy_from_slice(&text.as_bytes()[..length]);
        // Only a hint: a full disk takes nothing from the stage.
        let _ = file.write_all_at(&bytes, slot * SLOT as u64);
    }
}

impl Drop for Now<'_> {
    fn drop(&mut self) {
        self.0.write("");
    }
}
