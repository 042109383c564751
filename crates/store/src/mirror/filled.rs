//! How it stands for who fills the mirror: what it finds there, what is to be copied, and that it was.
//!
//! **Invariant:** an object that may differ is noted as such until it was copied as a whole after that.

use std::collections::BTreeSet;
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use model::{FragmentIndex, Ino};

use super::progress::{Had, Note, Progress, Way};
use super::ranges::Claim;
use super::todo::Todo;
use super::{Mirror, POISON};
use crate::alone;
use crate::link::Place;

const LOST_UNSYNCED: &str = "the mirror's node has lost what was not synced";

impl Mirror {
    /// What the mirror had when it was found first, by what its node has noted, and under which verifier of the
    /// fragment.
    pub(crate) fn note_had(&self, noted: Note, verifier: Option<u64>) {
        let mut progress = self.lock();
        if progress.had.is_some() {
            return;
        }
        let all = noted.is_some() && !progress.alone;
        let still = all && verifier == Some(self.verifier.number());
        let lacking = noted.unwrap_or_default();
        if still {
            progress.lacking = Todo::These(lacking.clone());
        }
        progress.had = Some(Had { all, still, lacking });
    }

    /// The mirror was replaced by an older copy: it may lack all that was changed since, whatever it says itself.
    ///
    /// # Errors
    /// That cannot be noted.
    pub(crate) fn note_older(&self) -> io::Result<()> {
        self.may_lack_all(&mut self.lock(), "an older copy of the mirror was put back")
    }

    fn may_lack_all(&self, progress: &mut Progress, why: &str) -> io::Result<()> {
        (progress.todo, progress.lacking) = (Todo::All, Todo::All);
        progress.trouble = Some(why.into());
        self.note_alone(progress)
    }

    /// The mirror says which life it lives.
    ///
    /// # Errors
    /// It may lack something, which cannot be noted: it is heard again.
    pub(crate) fn heard(&self, life: u64) -> io::Result<()> {
        let mut progress = self.lock();
        if progress.life.is_some_and(|before| before != life) {
            // It has lost what was answered and not synced.
            self.may_lack_all(&mut progress, LOST_UNSYNCED)?;
        }
        progress.life = Some(life);
        if !progress.todo.is_none() {
            progress.whole = false;
        }
        Ok(())
    }

    /// From here on changes go to the mirror as well, and somebody watches whether its node lives. Which time that is,
    /// and how to tell that it is over.
    pub(crate) fn found(&self) -> (u64, Arc<AtomicU64>) {
        let mut progress = self.lock();
        progress.way = Way::Both;
        if progress.whole && !progress.alone {
            progress.doubt.end();
        }
        progress.turn();
        progress.waiting_since = None;
        progress.asked.told = false;
        progress.trouble = None;
        self.changed.notify_all();
        (progress.epoch, progress.now.clone())
    }

    /// Waits until the way is found; `None` once the fragment is closed. Which time that is.
    pub(crate) fn await_found(&self) -> Option<u64> {
        let is_away = |progress: &mut Progress| progress.way != Way::Both && !progress.closed;
        let progress = self.changed.wait_while(self.lock(), is_away).expect(POISON);
        (!progress.closed).then_some(progress.epoch)
    }

    /// Whether everything was copied: the mirror lacks nothing then that this node has.
    pub(crate) fn copied_all(&self) -> bool {
        let mut progress = self.lock();
        let is_done = progress.way == Way::Both && progress.todo.is_none();
        if is_done {
            progress.lacking = Todo::none();
        }
        is_done
    }

    /// The mirror has everything, if nothing went wrong since.
    pub(crate) fn completed(&self) {
        let mut progress = self.lock();
        if progress.way != Way::Both || !progress.todo.is_none() {
            return;
        }
        if progress.alone {
            if let Err(error) = alone::note_alone(&*self.notes, false) {
                let path = self.notes.path_of("");
                tracing::error!(path = %path.display(), %error, "cannot note that the mirror is up to date");
                return;
            }
            tracing::info!(
                node = ?self.place.node(),
                "the mirror of this part of a buffer is up to date again"
            );
        }
        (progress.alone, progress.whole, progress.trouble) = (false, true, None);
        progress.was_whole = true;
        progress.had = Some(Had { all: true, still: true, lacking: BTreeSet::new() });
        progress.doubt.end();
        // Whoever waits for control to know of it need not any more.
        self.changed.notify_all();
    }

    pub(crate) fn put_back(&self, todo: &Todo) {
        let mut progress = self.lock();
        match todo {
            Todo::All => progress.todo = Todo::All,
            Todo::These(these) => these.iter().for_each(|ino| progress.todo.add(&[*ino])),
        }
    }

    /// What may differ, which the caller copies.
    pub(crate) fn take_todo(&self) -> Todo {
        std::mem::replace(&mut self.lock().todo, Todo::none())
    }

    /// Waits so long for something to be copied. Returns whether there was nothing all the time.
    pub(crate) fn await_todo(&self, epoch: u64, pause: Duration) -> bool {
        let is_idle = |progress: &mut Progress| {
            let due = !progress.todo.is_none() || !progress.whole;
            !progress.closed && progress.epoch == epoch && !due
        };
        let waited = self.changed.wait_timeout_while(self.lock(), pause, is_idle).expect(POISON);
        waited.1.timed_out()
    }

    /// Whether the mirror knows that it has everything.
    pub(crate) fn is_completed(&self) -> bool {
        self.lock().whole
    }

    /// Which time it is that the mirror was found.
    pub(crate) fn epoch(&self) -> u64 {
        self.lock().epoch
    }

    /// Whether the time `epoch` is over.
    pub(crate) fn is_over(&self, epoch: u64) -> bool {
        let progress = self.lock();
        progress.closed || progress.epoch != epoch
    }

    /// Whether the fragment is closed.
    pub(crate) fn is_closed(&self) -> bool {
        self.lock().closed
    }

    /// What the mirror had of one object before anything was copied to it.
    pub(crate) fn had(&self, ino: Ino) -> Had {
        self.lock().had.as_ref().map(|had| had.of(ino)).unwrap_or_default()
    }

    /// Whether a sync failed there after the object was written, which is not asked again.
    pub(crate) fn take_unsynced(&self, ino: Ino) -> bool {
        self.lock().unsynced.remove(&ino)
    }

    /// A sync of the object may not have done there what it should.
    pub(crate) fn note_unsynced(&self, ino: Ino) {
        self.lock().unsynced.insert(ino);
    }

    /// Whether somebody changes the object.
    pub(crate) fn is_busy(&self, ino: Ino) -> bool {
        self.ranges.is_busy(ino)
    }

    /// Has nobody begin to change any of the range before the caller holds it.
    pub(crate) fn claim(&self, ino: Ino, range: Range<u64>) -> Claim<'_> {
        self.ranges.claim(ino, range)
    }

    /// Where it is.
    pub(crate) fn place(&self) -> &Place {
        &self.place
    }

    /// The namespace's home, which knows what files there are.
    pub(crate) fn home(&self) -> Option<&Place> {
        self.home.as_ref()
    }

    /// Whose objects they are.
    pub(crate) fn fragment(&self) -> FragmentIndex {
        self.fragment
    }

    /// The fragment's commit verifier.
    pub(crate) fn verifier(&self) -> u64 {
        self.verifier.number()
    }
}
