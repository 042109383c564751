//! What is noted durably beside the log of seals, and looked at whenever an object is used.
//!
//! **Invariant:** who looks waits for no disk. A change counts only once it is durable, and changes are made durable in
//! their order.

use std::io;
use std::sync::{Mutex, MutexGuard};

/// What is known by a note.
#[derive(Debug, Default)]
pub struct Note<T> {
    known: Mutex<T>,
    /// Held while a change is made durable.
    writing: Mutex<()>,
}

impl<T: Clone> Note<T> {
    /// What the note says.
    pub fn of(known: T) -> Note<T> {
        Note { known: Mutex::new(known), writing: Mutex::default() }
    }

    /// What is known now. What is changed here counts at once: the note says something else until it is written.
    pub fn known(&self) -> MutexGuard<'_, T> {
        self.known.lock().expect("no thread panics while it holds what a note says")
    }

    /// Has `change` what is known once `write` has made that durable. Where `change` does not wish it, nothing is done;
    /// it is called again of what is known by then.
    ///
    /// # Errors
    /// Those of `write`: nothing is changed.
    pub fn change(
        &self,
        change: impl Fn(&mut T) -> bool,
        write: impl FnOnce(&T) -> io::Result<()>,
    ) -> io::Result<()> {
        let _in_order = self.writing();
        let mut next = self.known().clone();
        if !change(&mut next) {
            return Ok(());
        }
        write(&next)?;
        change(&mut self.known());
        Ok(())
    }

    /// Nobody else makes anything durable meanwhile.
    pub fn writing(&self) -> MutexGuard<'_, ()> {
        self.writing.lock().expect("no thread panics while it writes a note")
    }
}
