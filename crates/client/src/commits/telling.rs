//! What programs are told of what was lost.

use model::{FragmentIndex, Ino};
use rustix::io::Errno;

use super::{Commits, State};
use crate::failures::Failures;

impl Commits {
    /// A storage node could not sync the file, or a write that was answered here could not be sent to one. The home is
    /// to know until a program was told.
    pub fn failed(&self, fragment: FragmentIndex, ino: Ino, errno: Errno) {
        self.lock_and(|state| {
            state.lost(fragment, [ino], false);
            self.fail(state, ino, errno);
        });
    }

    /// Tells a handle on the file what it has not heard of yet; a folder's, with [`EVERYTHING`].
    ///
    /// # Errors
    /// Something that was written was lost.
    pub fn tell(&self, ino: Ino, handle: u64) -> Result<(), Errno> {
        let mut state = self.lock();
        let owed: Vec<(Ino, Errno)> = state.failures.owed(ino, handle).collect();
        for (of, _) in &owed {
            state.failures.told(*of, handle, ino);
            // What is written to the file may go on being lost.
            if !state.handed.are_stale(*of) {
                state.told_home.told(*of);
            }
            self.remember(|memory| memory.told(*of, handle));
        }
        owed.first().map_or(Ok(()), |(_, errno)| Err(*errno))
    }

    pub(super) fn fail(&self, state: &mut State, ino: Ino, errno: Errno) {
        let stamp = Failures::stamp();
        let noted = state.failures.failed(ino, stamp, errno.raw_os_error());
        self.remember(|memory| memory.failed(noted, stamp, errno.raw_os_error()));
    }
}
