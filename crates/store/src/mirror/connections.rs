//! Connections to the mirror: they are used again, and break; and the mirror is read by them, by who repairs an object
//! of its fragment.
//!
//! **Invariant:** only a mirror is read to which changes go: whatever was answered is done there, or known to lack.

use std::io;
use std::time::Instant;

use model::{Ino, NodeName};
use rustix::io::Errno;

use super::link::{Link, is_silence, told};
use super::{Mirror, POISON, SILENT_MAX, Way};
use crate::integrity::other::{NotRead, OtherCopy};

impl OtherCopy for Mirror {
    fn node(&self) -> NodeName {
        self.place.node()
    }

    fn read(&self, ino: Ino, offset: u64, len: u32) -> Result<Vec<u8>, NotRead> {
        let mut link = self.reader().map_err(NotRead::Away)?;
        let read = link.read_checked(ino, offset, len);
        match &read {
            Err(NotRead::Away(error)) if link.is_broken() => self.broke(link.epoch(), error),
            _ => self.give_back(link),
        }
        read
    }
}

impl Mirror {
    /// A connection of this time broke: the way is not known any more.
    pub(crate) fn broke(&self, epoch: u64, error: &io::Error) {
        let mut progress = self.lock();
        if progress.epoch == epoch && progress.way == Way::Both {
            progress.way = Way::Unknown;
            progress.turn();
            // A node that fell silent was waited for until now: nobody waits as long once more.
            progress.waiting_since =
                is_silence(error).then(|| Instant::now().checked_sub(SILENT_MAX)).flatten();
            progress.idle.clear();
            progress.trouble = Some(told(error));
            self.changed.notify_all();
        }
    }

    /// It can be used again.
    pub(super) fn give_back(&self, link: Link) {
        let mut progress = self.lock();
        if progress.epoch == link.epoch() && progress.way == Way::Both && !progress.closed {
            progress.idle.push(link);
        }
    }

    /// Why it is not whole.
    pub(crate) fn note_trouble(&self, why: String) {
        self.lock().trouble = Some(why);
    }

    /// The connection of the one who fills is over.
    pub(crate) fn lost(&self, error: &io::Error) {
        let epoch = self.lock().epoch;
        self.broke(epoch, error);
        self.note_trouble(told(error));
    }

    /// A connection, once it is known that changes go to the mirror.
    fn reader(&self) -> io::Result<Link> {
        let is_unknown = |progress: &mut super::Progress| progress.way == Way::Unknown && !progress.closed;
        let progress = self.lock();
        let waited = self.changed.wait_timeout_while(progress, SILENT_MAX, is_unknown).expect(POISON);
        let mut progress = waited.0;
        if progress.way != Way::Both || progress.closed {
            return Err(io::ErrorKind::NotConnected.into());
        }
        let (epoch, idle) = (progress.epoch, progress.take_idle());
        drop(progress);
        idle.map_or_else(|| self.connect(epoch), Ok)
    }
}

impl Link {
    /// Reads an object, where it makes a difference whether its node answers.
    pub(super) fn read_checked(&mut self, ino: Ino, offset: u64, len: u32) -> Result<Vec<u8>, NotRead> {
        self.read(ino, offset, len).map_err(|error| {
            let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<io::Error>());
            let errno = inner.and_then(io::Error::raw_os_error);
            match errno == Some(Errno::IO.raw_os_error()) && !self.is_broken() {
                true => NotRead::Damaged(error),
                false => NotRead::Away(error),
            }
        })
    }
}
