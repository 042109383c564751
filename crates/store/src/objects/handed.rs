//! Objects are handed out: whoever has one reads and writes it without us.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use model::Ino;
use rustix::io::Errno;
use wire::data::Time;

use super::opening::with_room;
use super::space::Unseen;
use super::{Object, Objects};
use crate::integrity::guard::Change;
use crate::measure::measure;

/// An object up to this length is checked before it is handed out, bytes.
const CHECKED_AT_ONCE_BYTES_MAX: u64 = 64 << 10;

impl Objects {
    /// The object itself, open for reading and writing. One that is made for it gets these times: nothing was written.
    ///
    /// # Errors
    /// ENOTSUP where we count: the holder of the descriptor could write past the capacity. EAGAIN while its checksums
    /// are lost.
    pub fn descriptor(&self, ino: Ino, atime: Time, mtime: Time) -> io::Result<OwnedFd> {
        let unseen = self.space.admit_unseen()?;
        let is_new = self.existing(ino)?.is_none();
        let object = self.make(ino, &Change::Space)?;
        if is_new {
            self.set_times(ino, Some(atime), Some(mtime))?;
        }
        self.hand_out(ino, &object, unseen)
    }

    fn hand_out(&self, ino: Ino, object: &Object, unseen: Unseen) -> io::Result<OwnedFd> {
        if self.keeper.unverified.has(ino) {
            // Whoever has it would be told nothing of what becomes of the doubt, nor we that it was written anew.
            return Err(Errno::AGAIN.into());
        }
        if self.keeper.known.is_remembered(ino) {
            self.read_all(ino)?;
            self.keeper.known.set(ino, Vec::new());
        }
        self.keeper.check_faults(ino)?;
        object.guard.whole(&object.file)?;
        let found = measure(&object.file)?;
        if found.size <= CHECKED_AT_ONCE_BYTES_MAX {
            // Whoever has it reads without us.
            self.read(ino, 0, &mut [0; CHECKED_AT_ONCE_BYTES_MAX as usize])?;
        }
        self.keeper.hand_out(&object.guard, &found)?;
        object.pending.note_unsynced();
        second(object, unseen)
    }

    /// The object itself, open for reading and writing, where there is one.
    ///
    /// # Errors
    /// ENOTSUP as with [`Objects::descriptor`]; ENOENT.
    pub fn existing_descriptor(&self, ino: Ino) -> io::Result<OwnedFd> {
        let unseen = self.space.admit_unseen()?;
        let Some(object) = self.existing(ino)? else {
            return self.absent(ino).and(Err(Errno::NOENT.into()));
        };
        self.hand_out(ino, &object, unseen)
    }
}

/// The object once more, for somebody else, who may write past us.
fn second(object: &Object, _: Unseen) -> io::Result<OwnedFd> {
    with_room(|| object.file.as_fd().try_clone_to_owned())
}
