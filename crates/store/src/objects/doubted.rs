//! Objects in doubt: nobody can tell whether their bytes are what was written. Where a mirror may know, they are judged
//! before they are used; what stays in doubt is read as it is, by us alone. One that is being taken from its mirror is
//! used by nobody before all of it is there.
//!
//! **Invariant:** who judges an object uses it by functions that do not wait for that.

use std::io;
use std::ops::Range;

use model::Ino;

use super::Objects;
use crate::measure::Measure;
use crate::mirror::ranges::Held;

impl Objects {
    /// Whether nobody can say what of it is right: its checksums were lost, or it is not there.
    ///
    /// # Errors
    /// It cannot be told.
    pub fn is_in_doubt(&self, ino: Ino) -> io::Result<bool> {
        // One that is known to be lost was judged.
        Ok(self.keeper.unverified.has(ino) || self.measure(ino)?.is_none())
    }

    /// Whether there is one.
    ///
    /// # Errors
    /// It cannot be told.
    pub fn is_there(&self, ino: Ino) -> io::Result<bool> {
        Ok(self.existing(ino)?.is_some())
    }

    /// Before somebody uses an object: it is judged if it is in doubt.
    ///
    /// # Errors
    /// EIO where it is being taken from the mirror, or all are older than that.
    pub(super) fn await_judged(&self, ino: Ino) -> io::Result<()> {
        self.await_known(ino)?;
        self.check_taken(ino)
    }

    /// The same before somebody changes a range of it, which is held from then on.
    ///
    /// # Errors
    /// As [`Objects::await_judged`].
    pub(super) fn hold_judged(&self, ino: Ino, range: Range<u64>) -> io::Result<Option<Held<'_>>> {
        self.await_judged(ino)?;
        let held = self.hold(ino, range);
        // Whoever had it may have begun to take it meanwhile: what is changed then would be taken back.
        self.check_taken(ino)?;
        Ok(held)
    }

    fn check_taken(&self, ino: Ino) -> io::Result<()> {
        match self.is_taken(ino) {
            true => Err(io::Error::other(format!(
                "the object of inode {ino} is being taken from its mirror, and is not whole yet"
            ))),
            false => Ok(()),
        }
    }

    /// The same where it is not used: it may be one that is being taken.
    fn await_known(&self, ino: Ino) -> io::Result<()> {
        let Some(mirror) = self.mirror.as_ref().filter(|mirror| !mirror.has_judged_all()) else {
            return Ok(());
        };
        // What cannot be told is told to who uses it.
        if self.is_in_doubt(ino).unwrap_or(false) {
            mirror.wait_until_judged(ino);
        }
        mirror.check_age()
    }

    /// Reads up to `buffer.len()` bytes; fewer at the object's end.
    ///
    /// # Errors
    /// EIO where they are not what was sealed.
    pub fn read(&self, ino: Ino, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.await_judged(ino)?;
        self.read_unjudged(ino, offset, buffer)
    }

    /// The next range with data at or after `offset`.
    ///
    /// # Errors
    /// As [`Objects::read`].
    pub fn next_data(&self, ino: Ino, offset: u64) -> io::Result<Option<Range<u64>>> {
        self.await_judged(ino)?;
        self.next_data_unjudged(ino, offset)
    }

    /// As [`Objects::measure`], for somebody who uses it.
    ///
    /// # Errors
    /// The errno of what failed.
    pub fn measure_judged(&self, ino: Ino) -> io::Result<Option<Measure>> {
        self.await_judged(ino)?;
        self.measure(ino)
    }

    /// Objects with numbers above `after`, in order, that are in doubt for want of checksums, once those are judged of
    /// which a mirror may know; without lengths.
    ///
    /// # Errors
    /// As [`Objects::measure_judged`].
    pub fn page_of_unverified(&self, after: Ino) -> io::Result<Vec<(Ino, u64)>> {
        let mut all = self.keeper.unverified.all();
        all.iter().try_for_each(|ino| self.await_known(*ino))?;
        all.retain(|ino| *ino > after && self.keeper.unverified.has(*ino));
        all.sort_unstable();
        all.truncate(super::resting::PAGE_OBJECTS_MAX);
        Ok(all.into_iter().map(|ino| (ino, 0)).collect())
    }
}
