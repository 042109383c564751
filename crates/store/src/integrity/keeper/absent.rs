//! Objects that are not there: which of them are lost, and what takes the place of one.
//!
//! **Invariant:** one that is lost is so, also after a crash, until there is another in its place.

use std::io;

use model::Ino;
use wire::data::Time;
use wire::data::message::UNKNOWN_BYTES;

use super::Keeper;
use crate::integrity::guard::Change;
use crate::integrity::lost;
use crate::integrity::report::Fault;
use crate::measure::Measure;

impl Keeper {
    /// Whether an object that is not there is rightly so.
    ///
    /// # Errors
    /// EIO where it was sealed with bytes in it, was there when its seal was lost, or was lost itself.
    pub fn check_absent(&self, ino: Ino) -> io::Result<()> {
        let sealed = || Some(self.must_have(ino)).filter(|was| *was > 0);
        self.lost_length(ino).or_else(sealed).map_or(Ok(()), |was| Err(Fault::Missing { was }.error(ino)))
    }

    /// How long an object was that is lost if it is not there, and that no seal tells of; [`UNKNOWN_BYTES`] or more
    /// where that is not known.
    pub fn lost_length(&self, ino: Ino) -> Option<u64> {
        // It was there when its seal was lost, and who removes it ends the doubt first.
        let in_doubt = || self.unverified.has(ino) && self.log.get(ino).is_none();
        self.lost.length(ino).or_else(|| in_doubt().then_some(UNKNOWN_BYTES))
    }

    /// The same, where the object is about to be changed: one that is lost may be replaced as a whole.
    ///
    /// # Errors
    /// EIO where it would lack what it had; the log's.
    pub fn replace_absent(&self, ino: Ino, change: &Change) -> io::Result<()> {
        if let Some(was) = self.lost_length(ino).filter(|was| !change.replaces(*was)) {
            return Err(Fault::Missing { was }.error(ino));
        }
        let was = self.must_have(ino);
        if was == 0 || !change.replaces(was) {
            return self.take_absent(ino, change);
        }
        // Until there is an object in its place, also after a crash.
        self.lost.add(ino, was)?;
        self.take_absent(ino, change).inspect_err(|_| self.lost.forget(ino))
    }

    /// The same, where its mirror tells what it had.
    ///
    /// # Errors
    /// As [`Keeper::replace_absent`].
    pub fn take_absent(&self, ino: Ino, change: &Change) -> io::Result<()> {
        let _nobody_puts_it_back = self.absent();
        let Some(sealed) = self.log.get(ino) else { return Ok(()) };
        let was = sealed.must_have();
        if was > 0 && !change.replaces(was) {
            return Err(Fault::Missing { was }.error(ino));
        }
        self.log.lift(ino)?;
        self.log.forget(ino);
        self.known.forget(ino);
        Ok(())
    }

    /// There is an object in place of one that was gone, or rightly none.
    pub fn replaced_absent(&self, ino: Ino) {
        self.lost.forget(ino);
        self.known.forget(ino);
    }

    /// How long an object is to look that is not there; 0: it is rightly gone.
    pub fn shown_absent(&self, ino: Ino) -> u64 {
        self.lost_length(ino).map_or_else(|| self.must_have(ino), lost::shown)
    }

    /// How long an object was that was sealed, if it cannot be rightly gone; else 0.
    pub fn must_have(&self, ino: Ino) -> u64 {
        self.log.get(ino).map_or(0, |sealed| sealed.must_have())
    }

    /// What an object was like that is lost.
    pub fn measure_absent(&self, ino: Ino) -> Option<Measure> {
        if let Some(size) = self.lost_length(ino).map(lost::shown) {
            return Some(Measure { size, blocks: 0, mtime: Time::default(), ctime: Time::default() });
        }
        let seal = self.log.get(ino).filter(|sealed| sealed.must_have() > 0)?.seal;
        let time = Time { seconds: seal.mtime.0, nanos: seal.mtime.1 };
        Some(Measure { size: seal.length, blocks: 0, mtime: time, ctime: time })
    }
}
