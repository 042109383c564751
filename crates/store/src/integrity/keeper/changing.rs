//! What a change of an object means for what is known of it.

use std::fs::File;
use std::io;
use std::sync::Arc;

use super::Keeper;
use crate::integrity::guard::{Change, Changing, Guard};

impl Keeper {
    /// Lets a change of an object begin.
    ///
    /// # Errors
    /// See [`Guard::change`]; it cannot be noted that nothing of it is taken from its mirror any more.
    pub fn change<'a>(
        &self,
        guard: &'a Arc<Guard>,
        file: &File,
        change: &Change,
    ) -> io::Result<Changing<'a>> {
        let changing = self.change_in_doubt(guard, file, change)?;
        if self.unverified.has(guard.ino()) && change.replaces(file.metadata()?.len()) {
            if self.unverified.is_taken(guard.ino()) {
                // What was taken in part is gone before anybody may read it again, also after a power loss. And what is
                // written anew must not be taken from the mirror by the next life.
                file.set_len(0)?;
                file.sync_all()?;
                self.unverified.end_taken(guard.ino(), false)?;
            }
            self.unverified.forget(guard.ino());
        }
        Ok(changing)
    }

    /// The same, where an object in doubt stays so, whatever is changed.
    ///
    /// # Errors
    /// See [`Guard::change`].
    pub fn change_in_doubt<'a>(
        &self,
        guard: &'a Arc<Guard>,
        file: &File,
        change: &Change,
    ) -> io::Result<Changing<'a>> {
        guard.change(&self.log, file, change, || self.queue(guard))
    }
}
