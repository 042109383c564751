//! One sync for many objects: of the file system that they have for themselves.
//!
//! Since Linux 5.8 syncfs(2) reports what could not be written since the descriptor that it is called on was opened.
//! Callers that come while a sync is under way share the next one.
//!
//! **Invariant:** after an error no sync succeeds: which objects it was about is not known, and the kernel tells it once.

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::{Condvar, Mutex};

use rustix::io::Errno;

/// A file system of our own.
#[derive(Debug)]
pub struct WholeSync {
    folder: File,
    state: Mutex<State>,
    finished: Condvar,
}

/// Syncs are numbered from 1.
#[derive(Debug, Default)]
struct State {
    begun: u64,
    done: u64,
    broken: bool,
}

impl WholeSync {
    /// For the file system of `folder`; `None` where the kernel does not report errors.
    ///
    /// # Errors
    /// The errno of `open`.
    pub fn of(folder: &Path) -> io::Result<Option<WholeSync>> {
        let system = rustix::system::uname();
        if !model::kernel::syncfs_reports_errors(&system.release().to_string_lossy()) {
            return Ok(None);
        }
        let folder = File::open(folder)?;
        Ok(Some(WholeSync { folder, state: Mutex::default(), finished: Condvar::new() }))
    }

    /// Makes all that was written before the call survive a power loss.
    ///
    /// # Errors
    /// EIO, if something could not be written, now or earlier.
    pub fn sync(&self) -> io::Result<()> {
        let mut state = self.state.lock().expect(POISON);
        // One that is under way may have passed what was written since it began.
        let wanted = state.begun + 1;
        while state.done < wanted {
            if state.begun > state.done {
                state = self.finished.wait(state).expect(POISON);
                continue;
            }
            state.begun += 1;
            drop(state);
            let synced = rustix::fs::syncfs(&self.folder);
            state = self.state.lock().expect(POISON);
            state.done = state.begun;
            if let Err(error) = synced {
                tracing::error!(%error, "the fragment's file system could not be synced; files are synced one by one");
                state.broken = true;
            }
            self.finished.notify_all();
        }
        if state.broken { Err(Errno::IO.into()) } else { Ok(()) }
    }
}

const POISON: &str = "no thread panics while it holds the state of syncs";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_caller_gets_a_sync_that_began_after_its_call() {
        let folder = tempfile::tempdir().unwrap();
        let whole = WholeSync::of(folder.path()).unwrap().expect("tests run on a current kernel");
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..5 {
                        let before = whole.state.lock().unwrap().begun;
                        whole.sync().unwrap();
                        assert!(whole.state.lock().unwrap().done > before);
                    }
                });
            }
        });
    }
}
