//! What one of the nodes did and the other did not.
//!
//! **Invariant:** an object that may differ is among what is to be copied before anybody is answered.

use std::io;

use rustix::io::Errno;

use super::progress::Progress;
use super::{Mirror, POISON};

impl Mirror {
    /// The mirror did not do what was done here. Nobody is answered before control knows, where it is to.
    ///
    /// # Errors
    /// The fragment is closed; what the mirror lacks cannot be noted.
    pub(super) fn lacks(&self, inos: &[u64], errno: Errno) -> io::Result<()> {
        let mut progress = self.lock();
        progress.todo.add(inos);
        progress.trouble = Some(format!("the mirror fails: {errno}"));
        let noted = self.note_alone(&mut progress);
        self.changed.notify_all();
        noted?;
        let is_untold = |progress: &mut Progress| !progress.closed && progress.doubt.untold().is_some();
        let progress = self.changed.wait_while(progress, is_untold).expect(POISON);
        if progress.closed || self.place.is_replaced() { Err(Errno::IO.into()) } else { Ok(()) }
    }

    /// The mirror may have done what was not done here.
    pub(super) fn differs(&self, ino: u64) {
        let mut progress = self.lock();
        progress.whole = false;
        progress.todo.add(&[ino]);
        self.changed.notify_all();
    }
}
