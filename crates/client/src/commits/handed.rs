//! Files that the kernel writes to itself: nobody here is told of each write, so each of them counts as unconfirmed for
//! as long as there is a handle that may write.

use model::Ino;
use rustix::io::Errno;

use super::Commits;

impl Commits {
    /// A handle was given out through which the kernel may write to the file.
    pub fn handed(&self, ino: Ino) {
        self.lock_and(|state| *state.handed.entry(ino).or_default() += 1);
    }

    /// Such a handle is closed. What the kernel wrote went to the object that the home fragment had under this commit
    /// verifier; `None`: it is known not to be the file any more.
    pub fn handed_back(&self, ino: Ino, verifier: Option<u64>) {
        self.lock_and(|state| {
            if let Some(handles) = state.handed.get_mut(&ino) {
                *handles -= 1;
                if *handles == 0 {
                    state.handed.remove(&ino);
                }
            }
            match verifier {
                Some(verifier) => self.change_object(state, ino, self.home, verifier),
                None => {
                    state.lost(self.home, [ino], false);
                    self.fail(state, ino, Errno::IO);
                }
            }
        });
    }
}
