//! What programs are told of what was lost.

use model::{FragmentIndex, Ino};
use rustix::io::Errno;
use wire::data::message::LostOf;

use super::{Commits, State};
use crate::failures::Failures;

impl Commits {
    /// A storage node could not sync the file. The home hears of it from the node, too, and is to know until a program
    /// was told.
    pub fn lost_by_disk(&self, fragment: FragmentIndex, ino: Ino, errno: Errno) {
        self.lock_and(|state| {
            let verifier = state.verifiers.get(&fragment).copied().unwrap_or_default();
            state.told_home.lost_by_disk(LostOf { ino, fragment, verifier });
            self.fail(state, ino, errno);
        });
    }

    /// A write that was answered here could not be sent to a storage node. The home is to know until a program was
    /// told.
    pub fn failed(&self, fragment: FragmentIndex, ino: Ino, errno: Errno) {
        self.lock_and(|state| {
            state.lost(fragment, [ino], false);
            self.fail(state, ino, errno);
        });
    }

    /// Whether [`Commits::tell`] would be an error.
    pub fn owes(&self, ino: Ino, handle: u64) -> bool {
        self.lock().failures.owed(ino, handle).next().is_some()
    }

    /// Tells a handle on the file what it has not heard of yet; a folder's, with
    /// [`EVERYTHING`](wire::data::message::EVERYTHING). It counts as told only where the home has heard of all losses:
    /// should this process die, its successor tells the home of those of which no handle was told.
    ///
    /// # Errors
    /// Something that was written was lost.
    pub fn tell(&self, ino: Ino, handle: u64) -> Result<(), Errno> {
        let mut state = self.lock();
        let owed: Vec<(Ino, Errno)> = state.failures.owed(ino, handle).collect();
        let heard = if state.told_home.has_told_all() { &*owed } else { &[] };
        for (of, _) in heard {
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
