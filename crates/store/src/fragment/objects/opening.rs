//! Objects are opened, and others closed where there are too many.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::{Arc, Mutex};

use wire::data::connection::is_shortage;

use super::{Object, Objects, extents_of};
use crate::fragment::extents::Extents;
use crate::fragment::open_objects;
use crate::fragment::syncing::Pending;
use crate::integrity::guard::Change;

/// So many objects with unsynced writes are synced at once to be closed: in the background, or while somebody waits for room.
const RETIRED_AT_ONCE: usize = 1024;
const SYNCED_FOR_ROOM: usize = 64;

impl Objects {
    pub(super) fn existing(&self, ino: u64) -> io::Result<Option<Arc<Object>>> {
        match self.open_object(ino, false) {
            Ok(object) => Ok(Some(object)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The object, to be changed so.
    pub(super) fn make(&self, ino: u64, change: &Change) -> io::Result<Arc<Object>> {
        if let Some(object) = self.existing(ino)? {
            return Ok(object);
        }
        match self.keeper.replace_absent(ino, change) {
            Ok(()) => self.open_object(ino, true),
            // It may have been made, and sealed, meanwhile.
            Err(error) => self.existing(ino)?.ok_or(error),
        }
    }

    pub(super) fn open_object(&self, ino: u64, create: bool) -> io::Result<Arc<Object>> {
        let object = match with_room(|| self.try_open(ino, create)) {
            Err(error) if is_shortage(&error) => {
                // Those with unsynced writes cannot be closed before they are synced.
                for (ino, object, path) in self.unsynced(SYNCED_FOR_ROOM) {
                    self.syncs.object(ino, &*object, &path);
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

    fn try_open(&self, ino: u64, create: bool) -> io::Result<Arc<Object>> {
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
            other => other?,
        };
        let extents = if self.space.counts() { extents_of(&file)? } else { Extents::default() };
        let guard = self.keeper.guard(ino, &file)?;
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

fn open_file(path: &Path, create: bool) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).create(create).mode(0o600).open(path)
}
