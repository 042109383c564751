//! One sync for many objects: of the file system that they have for themselves.
//!
//! Since Linux 5.8 syncfs(2) reports what could not be written since the descriptor that it is called on was opened.
//! Callers that come while a sync is under way share the next one.
//!
//! **Invariant:** the kernel tells an error once, and not which objects it is about: before any caller hears how a sync
//! ended, the owner of the objects knows that each of them may be meant.

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::{Condvar, Mutex};

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
    /// The last that failed.
    failed: u64,
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

    /// Makes all that was written before the call survive a power loss. Before a sync that fails is known to have
    /// ended, `suspect` is called: every object is to be synced by itself, which tells whether it was about that one.
    ///
    /// # Errors
    /// Something could not be written.
    pub fn sync(&self, suspect: impl Fn()) -> io::Result<()> {
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
            if let Err(error) = &synced {
                tracing::error!(%error, "the fragment's file system could not be synced; files are synced one by one");
                suspect();
            }
            state = self.state.lock().expect(POISON);
            state.done = state.begun;
            if synced.is_err() {
                state.failed = state.done;
            }
            self.finished.notify_all();
        }
        // One that ended after another had begun is of no consequence: that one's caller suspects its objects.
        if state.failed >= wanted { Err(rustix::io::Errno::IO.into()) } else { Ok(()) }
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
                        whole.sync(|| panic!("a sound file system")).unwrap();
                        assert!(whole.state.lock().unwrap().done > before);
                    }
                });
            }
        });
    }
}
