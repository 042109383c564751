//! Notes in the log of seals: what may change, what may be removed, and what turned out to do neither.
//!
//! **Invariant:** a note is durable before what it allows can reach the disk; what is removed is in no index any more.

use std::io;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use model::Ino;

use super::{LIFTED, RELEASED, SealLog, Sealed, live_bytes};

/// Objects whose seals are lifted soon after each other are most often neighbours: each lift that follows another
/// within this time takes twice as many along, so that who changes many pays for few syncs.
const NEIGHBOURS_WITHIN: Duration = Duration::from_secs(2);
const NEIGHBOURS_MAX: u32 = 12;

impl SealLog {
    /// The objects that were lifted or released for a neighbour's sake, once none was for `idle`.
    pub fn lapsed(&self, idle: Duration) -> Vec<Ino> {
        let mut end = self.end();
        let is_quiet = end.last_lift.is_none_or(|last| last.elapsed() >= idle);
        if is_quiet { std::mem::take(&mut end.lapsed) } else { Vec::new() }
    }

    /// Seals an object again that is there, and was not changed since its seal was lifted, as the caller knows.
    ///
    /// # Errors
    /// The errno of the write.
    pub fn seal_again(&self, ino: Ino) -> io::Result<()> {
        let mut end = self.end();
        self.replace_broken(&mut end)?;
        let mut index = self.index.write().unwrap_or_else(PoisonError::into_inner);
        let Some(sealed) = index.get_mut(&ino).filter(|sealed| sealed.lifted || sealed.released) else {
            return Ok(());
        };
        // Its sums may be in a log that was written anew since.
        let seal = Arc::new(end.copy(ino, &sealed.seal)?);
        end.flush()?;
        *sealed = Sealed::new(seal);
        Ok(())
    }

    /// Lifts the object's seal, durably; those of neighbours go along.
    ///
    /// # Errors
    /// The errno of the write or sync: the object must not be changed then.
    pub fn lift(&self, ino: Ino) -> io::Result<()> {
        self.note(LIFTED, ino, |sealed| &mut sealed.lifted)
    }

    /// Notes that the object may be removed, durably; neighbours go along, and their bytes are compared with their sums
    /// all the same.
    ///
    /// # Errors
    /// As [`SealLog::lift`].
    pub fn release(&self, ino: Ino) -> io::Result<()> {
        if self.get(ino).is_some_and(|sealed| sealed.lifted) {
            return Ok(());
        }
        self.note(RELEASED, ino, |sealed| &mut sealed.released)
    }

    fn note(&self, kind: u8, ino: Ino, flag: fn(&mut Sealed) -> &mut bool) -> io::Result<()> {
        let mut end = self.end();
        let taken: Vec<Ino> = {
            let index = self.index.read().unwrap_or_else(PoisonError::into_inner);
            let Some(mut sealed) = index.get(&ino).cloned() else { return Ok(()) };
            if *flag(&mut sealed) {
                return Ok(());
            }
            let soon = end.last_lift.is_some_and(|last| last.elapsed() < NEIGHBOURS_WITHIN);
            end.neighbours = if soon { (end.neighbours + 1).min(NEIGHBOURS_MAX) } else { 0 };
            index.range(ino..).take(1 << end.neighbours).map(|(ino, _)| *ino).collect()
        };
        let last = taken.last().copied().unwrap_or(ino);
        self.append_notes(&mut end, |end| {
            end.note(kind, ino..=last)?;
            end.sync(&self.path)
        })?;
        end.last_lift = Some(Instant::now());
        end.lapsed.extend(taken.iter().filter(|taken| **taken != ino));
        let mut index = self.index.write().unwrap_or_else(PoisonError::into_inner);
        index.range_mut(ino..=last).for_each(|(_, sealed)| *flag(sealed) = true);
        Ok(())
    }

    /// The object is removed: nobody looks for it any more. If the note is lost, the shard still knows that it is gone.
    pub fn forget(&self, ino: Ino) {
        let mut end = self.end();
        let gone = self.index.write().unwrap_or_else(PoisonError::into_inner).remove(&ino);
        let Some(gone) = gone else { return };
        end.live -= live_bytes(&gone.seal).min(end.live);
        if gone.lifted {
            return;
        }
        // A new log does not have it.
        let noted = end.note(LIFTED, ino..=ino).or_else(|error| match end.broken {
            true => self.replace_broken(&mut end),
            false => Err(error),
        });
        if let Err(error) = noted {
            tracing::debug!(%ino, %error, "cannot note that an object is removed");
        }
    }
}
