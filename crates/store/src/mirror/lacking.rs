//! What one of the nodes did and the other did not.
//!
//! **Invariant:** an object that may differ is among what is to be copied before anybody is answered.

use std::io;

use model::Ino;
use rustix::io::Errno;

use super::progress::{Had, Progress};
use super::{Mirror, POISON, Way, alone};

impl Mirror {
    /// The mirror did not do what was done here. Nobody is answered before control knows, where it is to.
    ///
    /// # Errors
    /// The fragment is closed; what the mirror lacks cannot be noted.
    pub(super) fn lacks(&self, inos: &[Ino], errno: Errno) -> io::Result<()> {
        let mut progress = self.lock();
        let is_noted = progress.named && progress.alone && progress.lacking.has(inos);
        progress.todo.add(inos);
        progress.trouble = Some(format!("the mirror fails: {errno}"));
        let noted = if is_noted { Ok(()) } else { self.note_alone(&mut progress) };
        self.changed.notify_all();
        noted?;
        progress.lacking.add(inos);
        let is_untold = |progress: &mut Progress| !progress.closed && progress.doubt.untold().is_some();
        let progress = self.changed.wait_while(progress, is_untold).expect(POISON);
        if progress.closed || self.place.is_replaced() { Err(Errno::IO.into()) } else { Ok(()) }
    }

    /// Notes durably that the mirror may lack something.
    ///
    /// # Errors
    /// The errno of making the note: without it the next life takes the mirror for whole.
    pub(super) fn note_alone(&self, progress: &mut Progress) -> io::Result<()> {
        progress.whole = false;
        if !progress.alone {
            alone::note_alone(&*self.notes, true).inspect_err(|error| {
                let path = self.notes.path_of("");
                tracing::error!(path = %path.display(), %error, "cannot note that the mirror lacks something");
            })?;
            progress.alone = true;
        }
        progress.had = Some(Had::default());
        progress.unname();
        Ok(())
    }

    /// The mirror may have done what was not done here: it lacks nothing that anybody was answered.
    pub(super) fn differs(&self, ino: Ino) {
        let mut progress = self.lock();
        progress.whole = false;
        progress.todo.add(&[ino]);
        self.changed.notify_all();
    }

    /// From here on changes are made without the mirror, which is noted.
    pub(super) fn go_alone(&self, progress: &mut Progress) {
        if progress.way == Way::Both {
            progress.turn();
            progress.idle.clear();
        }
        if progress.way != Way::Alone {
            let why = progress.trouble.clone().unwrap_or_else(|| "it does not answer in time".into());
            tracing::warn!(
                path = %self.notes.path_of("").display(),
                node = ?self.place.node(),
                why,
                "the node with the mirror of this part of a buffer cannot be waited for: what is written is on this \
                 node only until the mirror is up to date again"
            );
        }
        progress.way = Way::Alone;
        self.changed.notify_all();
    }
}
