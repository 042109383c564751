//! How a change of an object begins, and changes of its length.
//!
//! **Invariant:** a damaged block that keeps some of its bytes is repaired before it is changed, or is not changed.

use std::io;

use model::Ino;
use wire::data::Request;

use super::admitted::Admitted;
use super::{NO_MORE, Object, Objects};
use crate::extents::BLOCK_BYTES;
use crate::integrity::guard::{Change, Changing};

impl Objects {
    /// Sets the length.
    pub fn resize(&self, ino: Ino, size: u64) -> io::Result<()> {
        let _held = match size {
            0 => self.hold(ino, 0..u64::MAX),
            _ => self.hold_judged(ino, size..u64::MAX)?,
        };
        let change = Change::Resize(size);
        let admitted = self.admit(ino, NO_MORE)?;
        // Of one that was lost there is an object from now on, which says that it is not any more.
        let may_stay_away = size == 0 && self.keeper.lost_length(ino).is_none();
        let object = match self.in_place(ino)? {
            None if may_stay_away => {
                self.keeper.replace_absent(ino, &change)?;
                self.keeper.replaced_absent(ino);
                self.existing(ino)?
            }
            None => Some(self.repaired(ino, &NO_MORE, || self.make(ino, &change))?),
            found => found,
        };
        let request = (&Request::Resize { ino, size }, &[][..]);
        let Some(object) = object else { return self.on_both(ino, request, || Ok(())) };
        let _changing = self.change(&object, &change, admitted)?;
        let _writing = object.pending.writing();
        self.on_both(ino, request, || {
            object.file.set_len(size)?;
            if size == 0 {
                // Whatever it lost is not there any more.
                self.syncs.errors().forget(ino);
            }
            self.refund(&object, size.div_ceil(BLOCK_BYTES)..u64::MAX);
            Ok(())
        })
    }

    /// Lets a change of an object begin that was admitted.
    pub(super) fn change<'a>(
        &self,
        object: &'a Object,
        change: &Change,
        admitted: Admitted<'_>,
    ) -> io::Result<Changing<'a>> {
        let begin = || self.keeper.change(&object.guard, &object.file, change);
        let changing = self.repaired(object.guard.ino(), &NO_MORE, begin)?;
        admitted.spend(object);
        Ok(changing)
    }
}
