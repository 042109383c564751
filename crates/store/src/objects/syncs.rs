//! Objects are made to survive a power loss, and whoever wrote to them is told where that failed.

use std::io;
use std::path::PathBuf;
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Weak};

use model::{Ino, SessionId};

use super::{Object, Objects};

impl Objects {
    /// Makes the object survive a power loss.
    ///
    /// # Errors
    /// The errno of a sync that failed, to each session once: whoever asks next must hear it, too. The request `id`
    /// that was told is told so again: it is asked again when its answer was lost.
    pub fn sync(&self, (session, id): (SessionId, u64), ino: Ino) -> io::Result<()> {
        self.sync_on_both(&[ino], || {
            self.sync_object(ino)?;
            self.stays_unsynced(ino);
            self.syncs.errors().tell(ino, session, id)
        })
    }

    /// Makes many objects survive a power loss: with one sync where they have a file system of their own.
    ///
    /// # Errors
    /// Something of one of them was lost, now or earlier: [`Objects::sync`] tells of which. As `Request::SyncMany`.
    pub fn sync_many(&self, session: SessionId, inos: &[Ino]) -> io::Result<()> {
        self.sync_on_both(inos, || self.sync_many_here(session, inos))
    }

    fn sync_many_here(&self, session: SessionId, inos: &[Ino]) -> io::Result<()> {
        let together = self.sync_whole();
        for ino in inos {
            if !together || self.is_suspect(*ino) {
                self.sync_object(*ino)?;
            }
            self.stays_unsynced(*ino);
            self.syncs.errors().owed(*ino, session)?;
        }
        Ok(())
    }

    /// Gets from now on each object of which the disk could not write back something, until these objects are dropped.
    /// The first call counts.
    pub fn failures(&self) -> Receiver<Ino> {
        self.syncs.failures()
    }

    /// How often each of these failed to be written back, of those that did.
    pub fn counted_failures(&self, inos: &[Ino]) -> Vec<(Ino, u64)> {
        self.syncs.errors().counted(inos)
    }

    /// What could not be written back is taken as it is.
    pub fn accept_failures(&self) {
        self.syncs.errors().accept();
    }

    /// The home of the namespace knows of so many of them.
    pub fn known_at_home(&self, counted: &[(Ino, u64)]) {
        self.syncs.errors().known_at_home(counted);
    }

    /// Whoever was handed the object may go on writing to it: it stays open until it is seen to be closed.
    fn stays_unsynced(&self, ino: Ino) {
        let object = self.opened().get(ino).cloned();
        if let Some(object) = object.filter(|object| object.guard.lock().handed.is_some()) {
            object.pending.note_unsynced();
        }
    }

    pub(super) fn sync_object(&self, ino: Ino) -> io::Result<()> {
        if let Some(object) = self.existing(ino)? {
            self.syncs.object(ino, &*object, &self.path(ino));
        }
        Ok(())
    }

    pub(super) fn suspect_all(&self) {
        // First: this process may end, also cleanly, before each of them was synced by itself.
        self.syncs.renounce();
        self.opened().all().for_each(|object| object.pending.suspect());
    }

    fn is_suspect(&self, ino: Ino) -> bool {
        let object = self.opened().get(ino).cloned();
        object.is_some_and(|object| object.pending.is_suspect())
    }

    pub(super) fn is_unsynced(&self, ino: Ino) -> bool {
        self.opened().get(ino).is_some_and(|object| object.pending.is_unsynced())
    }

    /// Syncs them all at once, where they have a file system of their own. Whether all that was written is safe.
    pub fn sync_whole(&self) -> bool {
        self.syncs.whole(|| self.suspect_all())
    }

    /// The oldest of the open objects that have unsynced writes. Not held, so that others may close them when they are
    /// synced.
    pub(super) fn unsynced(&self, count: usize) -> Vec<(Ino, Weak<Object>, PathBuf)> {
        let oldest = self.opened().unsynced(count);
        oldest.into_iter().map(|(ino, object)| (ino, Arc::downgrade(&object), self.path(ino))).collect()
    }
}
