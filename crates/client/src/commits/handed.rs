//! Files that the kernel writes to itself: nobody here is told of each write, so each of them counts as unconfirmed for
//! as long as there is a handle that may write.
//!
//! **Invariant:** the home hears that a program was told what such a file lost only when the last handle from before is
//! closed: until then writes may go on to an object that is not the file any more, without any error.

use std::collections::{HashMap, HashSet};

use model::Ino;
use rustix::io::Errno;

use super::Commits;

/// Handles through which the kernel may write to files.
#[derive(Default)]
pub(super) struct Handles {
    /// How many of each file.
    counts: HashMap<Ino, u32>,
    /// Files of which the kernel may have an object that is not the file any more, through any of them.
    stale: HashSet<Ino>,
}

impl Handles {
    /// Whether there are none.
    pub(super) fn is_empty(&self) -> bool {
        self.counts.is_empty()
    }

    /// The files.
    pub(super) fn files(&self) -> impl Iterator<Item = Ino> {
        self.counts.keys().copied()
    }

    /// Whether the kernel may have an object that is not the file any more.
    pub(super) fn are_stale(&self, ino: Ino) -> bool {
        self.stale.contains(&ino)
    }

    /// The node has lost what was written. The files.
    pub(super) fn lose(&mut self) -> Vec<Ino> {
        self.stale.extend(self.counts.keys());
        self.files().collect()
    }

    /// Whether it was the last.
    fn close(&mut self, ino: Ino) -> bool {
        let Some(handles) = self.counts.get_mut(&ino) else { return true };
        *handles -= 1;
        if *handles > 0 {
            return false;
        }
        self.counts.remove(&ino);
        self.stale.remove(&ino);
        true
    }
}

impl Commits {
    /// A handle was given out through which the kernel may write to the file.
    pub fn handed(&self, ino: Ino) {
        self.lock_and(|state| *state.handed.counts.entry(ino).or_default() += 1);
    }

    /// The kernel has such a handle from before this process, and perhaps from before a loss.
    pub fn handed_before(&self, ino: Ino) {
        self.handed(ino);
        self.lock_and(|state| {
            state.handed.stale.insert(ino);
        });
    }

    /// Such a handle is closed. What the kernel wrote went to the object that the home fragment had under this commit
    /// verifier; `None`: it is known not to be the file any more.
    pub fn handed_back(&self, ino: Ino, verifier: Option<u64>) {
        self.lock_and(|state| {
            let is_last = state.handed.close(ino);
            match verifier {
                Some(verifier) => {
                    self.change_object(state, ino, self.home, verifier);
                    // Whoever was told has written since, and nobody knows where to.
                    if is_last && state.told_home.is_untold(ino) {
                        self.fail(state, ino, Errno::IO);
                    }
                }
                None => {
                    state.lost(self.home, [ino], false);
                    self.fail(state, ino, Errno::IO);
                }
            }
        });
    }
}
