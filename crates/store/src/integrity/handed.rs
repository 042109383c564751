//! Whether an object that somebody reads and writes without us is still as it was when it was handed out.
//!
//! Its time of change tells. The kernel sets that before the first byte of a write changes, direct ones too, and before
//! a page can be stored into through a mapping. It sets it once for many stores into one page. So it cannot tell what
//! was changed last, but it does tell that nothing was changed at all: when the object was sealed nobody had it open
//! for writing, and no page of it was left that could be stored into without that.
//!
//! **Invariant:** where it is the same after bytes were read, nobody but the disk has changed them since the object was
//! handed out. Who hands one out waits until a change would get another time ([`super::tick`]).

use std::fs::File;

use wire::data::Time;

use super::tick;
use crate::measure::{Measure, measure};

/// The time of change that an object had when it was handed out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Handed(Time);

impl Handed {
    /// Of one that was found so.
    pub fn of(found: &Measure) -> Handed {
        Handed(found.ctime)
    }

    /// Waits until a change would show.
    pub fn pass_tick(self) {
        tick::pass((self.0.seconds, self.0.nanos));
    }

    /// Whether an object that is found so now was not changed.
    pub fn is(self, found: &Measure) -> bool {
        self == Handed::of(found)
    }

    /// Whether the object was not changed until now; not, where nobody can tell.
    pub fn is_unchanged(self, file: &File) -> bool {
        measure(file).is_ok_and(|found| self.is(&found))
    }
}
