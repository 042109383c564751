//! How an object takes space: what is not admitted here changes no object, and is handed to nobody who would change it
//! past us. Also what an object gives back.
//!
//! How many blocks are counted for an object is kept also while it is not open: it may be removed, and put back, below
//! us.
//!
//! **Invariant:** room is taken before a change begins: a change that does not fit has lifted no seal and forgotten no
//! damage. What is used is the sum of what is counted for each object, and of the room that is taken.

use std::collections::HashMap;
use std::io;
use std::ops::Range;
use std::sync::Mutex;

use model::Ino;

use super::{Object, Objects, POISON};
use crate::extents::Extents;

/// The blocks that are counted for each object.
#[derive(Debug, Default)]
pub(super) struct Counted(Mutex<HashMap<Ino, u64>>);

/// A change that may begin. The room that it does not spend is given back.
pub(super) struct Admitted<'a> {
    objects: &'a Objects,
    ino: Ino,
    /// What the change touches.
    blocks: Range<u64>,
    /// How many of them are taken.
    taken: u64,
}

impl Objects {
    /// Admits a change that needs `blocks`, and takes room for those that the object does not have.
    ///
    /// # Errors
    /// ENOSPC where they do not fit: nothing has changed then.
    pub(super) fn admit(&self, ino: Ino, blocks: Range<u64>) -> io::Result<Admitted<'_>> {
        let missing = || {
            Ok(match self.in_place(ino)? {
                Some(object) => object.extents.lock().expect(POISON).missing(blocks.clone()),
                None => blocks.end - blocks.start,
            })
        };
        let taken = self.space.admit(&blocks, missing)?;
        Ok(Admitted { objects: self, ino, blocks, taken })
    }

    /// Admits a change that brings back what the object had, as a repair, or that its fragment has admitted, as in a
    /// mirror: it takes space also past the capacity, as it did before.
    pub(super) fn admit_again(&self, ino: Ino, blocks: Range<u64>) -> Admitted<'_> {
        Admitted { objects: self, ino, blocks, taken: 0 }
    }

    /// Gives back the room of `blocks`.
    pub(super) fn refund(&self, object: &Object, blocks: Range<u64>) {
        if self.space.counts() {
            let mut extents = object.extents.lock().expect(POISON);
            extents.remove(blocks);
            self.count(object.guard.ino(), &extents, 0);
        }
    }

    /// From here on these blocks are counted for the object, for some of which room is taken.
    pub(super) fn count(&self, ino: Ino, extents: &Extents, taken: u64) {
        let mut counted = self.counted.0.lock().expect(POISON);
        let before = match extents.blocks() {
            0 => counted.remove(&ino),
            blocks => counted.insert(ino, blocks),
        };
        drop(counted);
        let before = before.unwrap_or(0) + taken;
        self.space.take_existing(extents.blocks().saturating_sub(before));
        self.space.give_back(before.saturating_sub(extents.blocks()));
    }
}

impl Admitted<'_> {
    /// The change has begun: from here on the object has the blocks.
    pub(super) fn spend(mut self, object: &Object) {
        if self.objects.space.counts() {
            let mut extents = object.extents.lock().expect(POISON);
            extents.insert(self.blocks.clone());
            // What somebody freed since it was looked at is taken past the capacity: the change has begun.
            self.objects.count(self.ino, &extents, std::mem::take(&mut self.taken));
        }
    }
}

impl Drop for Admitted<'_> {
    fn drop(&mut self) {
        self.objects.space.give_back(self.taken);
    }
}
