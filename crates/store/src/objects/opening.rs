//! Objects are opened, and others closed where there are too many.

use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::sync::{Arc, Mutex};

use model::Ino;
use rustix::io::Errno;
use wire::data::connection::is_shortage;

use super::syncing::Pending;
use super::{Object, Objects, open_objects};
use crate::extents::{BLOCK_BYTES, Extents};
use crate::integrity::guard::Change;
use crate::integrity::report::Fault;
use crate::measure::extents_of;

/// So many objects with unsynced writes are synced at once to be closed: in the background, or while somebody waits for
/// room.
const RETIRED_AT_ONCE: usize = 1024;
const SYNCED_FOR_ROOM: usize = 64;

/// Errors that say nothing of the object that somebody wanted to open: it is not there, or there is no room for it.
const OF_NO_OBJECT: [Errno; 7] =
    [Errno::NOENT, Errno::NOSPC, Errno::DQUOT, Errno::ROFS, Errno::INTR, Errno::AGAIN, Errno::NOMEM];

impl Objects {
    pub(super) fn existing(&self, ino: Ino) -> io::Result<Option<Arc<Object>>> {
        match self.open_object(ino, false) {
            Ok(object) => Ok(Some(object)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The object, if it is what its name leads to: what is written to one that somebody removed or replaced below us
    /// would be gone when it is closed. Looked at before the first change of one at rest.
    pub(super) fn in_place(&self, ino: Ino) -> io::Result<Option<Arc<Object>>> {
        let Some(object) = self.existing(ino)? else { return Ok(None) };
        if !object.guard.lock().sealed || is_at(&object.file, &self.path(ino))? {
            return Ok(Some(object));
        }
        tracing::error!(%ino, path = %self.path(ino).display(), "somebody has removed or replaced an object");
        self.opened().remove(ino);
        self.existing(ino)
    }

    /// The object, to be changed so.
    pub(super) fn make(&self, ino: Ino, change: &Change) -> io::Result<Arc<Object>> {
        self.made(ino, || self.keeper.replace_absent(ino, change))
    }

    /// The object, once `prepare` lets one be made where there is none.
    pub(super) fn made(&self, ino: Ino, prepare: impl FnOnce() -> io::Result<()>) -> io::Result<Arc<Object>> {
        if let Some(object) = self.in_place(ino)? {
            return Ok(object);
        }
        match prepare() {
            Ok(()) => {
                let object = self.open_object(ino, true)?;
                if self.keeper.lost_length(ino).is_some() {
                    // First: that it was lost is noted until what it is now is on the disk.
                    self.keeper.queue(&object.guard);
                    self.keeper.replaced_absent(ino);
                }
                Ok(object)
            }
            // It may have been made, and sealed, meanwhile.
            Err(error) => self.existing(ino)?.ok_or(error),
        }
    }

    pub(super) fn open_object(&self, ino: Ino, create: bool) -> io::Result<Arc<Object>> {
        let object = match with_room(|| self.try_open(ino, create)) {
            Err(error) if is_shortage(&error) => {
                // Those with unsynced writes cannot be closed before they are synced.
                for (ino, object, path) in self.unsynced(SYNCED_FOR_ROOM) {
                    if let Some(object) = object.upgrade() {
                        self.syncs.object(ino, &*object, &path);
                    }
                }
                with_room(|| self.try_open(ino, create))?
            }
            opened => opened?,
        };
        open_objects::trim();
        if open_objects::is_crowded() {
            self.syncs.retire(|| self.unsynced(RETIRED_AT_ONCE));
        }
        Ok(object)
    }

    /// Counts what each object holds. Of one that cannot be opened that is what it was sealed with: it is damaged, and
    /// the others are served.
    pub(super) fn count_all(&self) -> io::Result<()> {
        for ino in self.list()? {
            let Err(error) = self.existing(ino) else { continue };
            let Some(fault) = Fault::of(&error) else { return Err(error) };
            self.note_fault(ino, &fault);
            let sealed = self.keeper.log.get(ino).map(|sealed| sealed.seal);
            self.count(ino, &sealed.map_or_else(Extents::default, |seal| seal.extents()), 0);
        }
        Ok(())
    }

    /// Notes what is wrong with an object. The log says so once.
    pub fn note_fault(&self, ino: Ino, fault: &Fault) {
        if self.keeper.known.add(ino, fault) {
            let (path, what) = (self.path(ino), fault.described());
            tracing::error!(%ino, object = %path.display(), what, "an object is damaged");
        }
    }

    /// What an error of opening, or looking at, an object says of it: where that is about this one only, the object is
    /// damaged, and no other waits for it.
    pub fn unopened(&self, ino: Ino, error: io::Error) -> io::Error {
        let is_other = match Errno::from_io_error(&error) {
            None => true,
            Some(errno) => OF_NO_OBJECT.contains(&errno),
        };
        // Of a disk that is away no object is damaged.
        if is_other || is_shortage(&error) || std::fs::read_dir(&self.root).is_err() {
            return error;
        }
        let sealed = self.keeper.log.get(ino).map(|sealed| sealed.seal.length);
        let looked_up = || std::fs::metadata(self.path(ino)).map_or(BLOCK_BYTES, |found| found.len());
        let errno = error.raw_os_error().unwrap_or(Errno::IO.raw_os_error());
        Fault::Unopened { was: sealed.unwrap_or_else(looked_up), errno }.error(ino)
    }

    fn try_open(&self, ino: Ino, create: bool) -> io::Result<Arc<Object>> {
        let mut open = self.opened();
        if let Some(object) = open.get(ino) {
            return Ok(object.clone());
        }
        let path = self.path(ino);
        let file = match open_file(&path, create) {
            // The first object in its folder.
            Err(error) if create && error.kind() == io::ErrorKind::NotFound => {
                std::fs::create_dir_all(path.parent().expect("an object lies in a folder"))?;
                open_file(&path, create)?
            }
            other => other.map_err(|error| self.unopened(ino, error))?,
        };
        let extents = match self.space.counts() {
            true => extents_of(&file).map_err(|error| self.unopened(ino, error))?,
            false => Extents::default(),
        };
        let guard = self.keeper.guard(ino, &file)?;
        if self.space.counts() {
            self.count(ino, &extents, 0);
        }
        let (pending, extents) = (Pending::default(), Mutex::new(extents));
        let object = Arc::new(Object { file, pending, extents, guard });
        open.keep(ino, object.clone());
        Ok(object)
    }
}

/// Does what needs a descriptor, once more if none was left and some could be closed.
pub(super) fn with_room<T>(action: impl Fn() -> io::Result<T>) -> io::Result<T> {
    match action() {
        Err(error) if is_shortage(&error) && open_objects::make_room() => action(),
        other => other,
    }
}

/// Whether the path leads to this file.
fn is_at(file: &File, path: &Path) -> io::Result<bool> {
    let id = |found: Metadata| (found.dev(), found.ino());
    let there = disk::if_there(std::fs::metadata(path))?;
    Ok(there.map(id) == Some(id(file.metadata()?)))
}

fn open_file(path: &Path, create: bool) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).create(create).mode(0o600).open(path)
}
