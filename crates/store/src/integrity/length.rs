//! Whether an object is as long as it was when it was sealed.
//!
//! **Invariant:** who changes where an object ends touches its last block or one after that, and says so before: as
//! long as nobody has, another length is damage.

use std::fs::File;
use std::io;
use std::sync::Arc;

use super::guard::{Change, Guard, State};
use super::report::Fault;
use super::{BLOCKS_MAX, Seal};
use crate::extents::{BLOCK_BYTES, Extents};

impl Seal {
    /// What is wrong with the length of an object of which nobody has changed more than the blocks `touched`.
    pub(crate) fn fault_of_length(&self, touched: &Extents, is: u64) -> Option<Fault> {
        let (was, last) = (self.length, self.last_block());
        // One that was cut off lacks a block that nobody touched, whatever comes after it.
        let untouched = if is < was { last..last + 1 } else { last..BLOCKS_MAX };
        let is_known = touched.missing(untouched.clone()) == untouched.end - untouched.start;
        (is != was && is_known).then_some(Fault::Length { is, was })
    }

    /// The block in which it ended.
    fn last_block(&self) -> u64 {
        self.length.saturating_sub(1) / BLOCK_BYTES
    }
}

impl Guard {
    /// How long the object is, or was, where that is not what was sealed.
    ///
    /// # Errors
    /// The errno of `stat`.
    pub fn length(&self, file: &File) -> io::Result<u64> {
        let mut state = self.lock();
        let is = file.metadata()?.len();
        match state.fault(file, is) {
            Some(Fault::Length { was, .. }) => Ok(was),
            _ => Ok(is),
        }
    }

    /// What is wrong with the object as a whole.
    ///
    /// # Errors
    /// The errno of `stat`.
    pub fn fault(&self, file: &File) -> io::Result<Option<Fault>> {
        let mut state = self.lock();
        Ok(state.fault(file, file.metadata()?.len()))
    }

    /// Whether the object as a whole may be used.
    ///
    /// # Errors
    /// EIO where it is not what was sealed.
    pub fn whole(&self, file: &File) -> io::Result<()> {
        self.fault(file)?.map_or(Ok(()), |fault| Err(fault.error(self.ino())))
    }
}

impl State {
    /// What is wrong with an object that is found to be so long now, while nobody can say that it changes.
    fn fault(&mut self, file: &File, length: u64) -> Option<Fault> {
        if self.broken.is_none() {
            let fault_of = |base: &Arc<Seal>| base.fault_of_length(&self.touched, length);
            self.broken = self.seal(file).and_then(fault_of);
        }
        self.broken.clone()
    }

    /// Looks whether an object has the length that it should have, before a change after which nobody can tell.
    pub(super) fn look_at_length(&mut self, file: &File, change: &Change) -> io::Result<()> {
        let Some(base) = &self.base else { return Ok(()) };
        let last = base.last_block();
        // Who changed it before has looked.
        if change.blocks(base.length).end > last && self.touched.missing(last..last + 1) == 1 {
            self.fault(file, file.metadata()?.len());
        }
        Ok(())
    }
}
