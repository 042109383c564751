//! Whom losses concern that are known already.

use model::Ino;
use rustix::io::Errno;

use super::{Commits, NO_HANDLE};

impl Commits {
    /// Some process before this one has written, nobody knows what, and not synced it: a loss from now on may concern
    /// any file.
    pub fn inherit(&self) {
        self.lock_and(|state| {
            state.overflown = true;
            state.metadata = state.metadata.or(Some(0));
        });
    }

    /// A file was made: what was lost before does not concern it.
    pub fn made(&self, ino: Ino) {
        self.lock_and(|state| state.failures.made(ino));
    }

    /// For who syncs without handles, and begins anew with what failed: whether any of these files lost something that
    /// was not told, or everything may have, which stays so.
    ///
    /// # Errors
    /// Something that was written was lost.
    pub fn check(&self, inos: &[Ino]) -> Result<(), Errno> {
        let failures = &self.lock().failures;
        let owed = inos.iter().find_map(|ino| failures.owed(*ino, NO_HANDLE).next());
        match owed {
            Some((_, errno)) => Err(errno),
            None if failures.may_lack_names() => Err(Errno::IO),
            None => Ok(()),
        }
    }

    /// Whether names and attributes were ever lost, or may have been.
    pub fn may_lack_names(&self) -> bool {
        self.lock().failures.may_lack_names()
    }
}
