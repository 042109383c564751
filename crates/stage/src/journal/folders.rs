//! The folders of the target in which parts are made: noted before the first, so that whoever goes on after a kill
//! finds every one.
//!
//! **Invariant:** when [`Journal::hold`] returns, the folder is in the journal and on disk, as far as the journal's
//! disk works.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use model::Ino;

use super::Journal;
use super::record::{FolderRecord, PathText, Record};

/// A folder of the target: its path when it was noted, and its inode, 0 where nobody knows.
pub(crate) type Noted = (PathBuf, Ino);

/// What is known of them.
#[derive(Default)]
pub(super) struct Folders {
    /// Of earlier runs.
    left: Vec<Noted>,
    /// Of this run, by path: one that was moved away may have been followed by another.
    noted: HashMap<PathBuf, Vec<Held>>,
}

/// A folder that had the path, or has it.
struct Held {
    ino: Ino,
    /// The note is on disk.
    on_disk: bool,
}

impl Folders {
    /// What an earlier run left.
    pub(super) fn after(left: Vec<Noted>) -> Folders {
        Folders { left, noted: HashMap::new() }
    }

    fn all_noted(&self) -> impl Iterator<Item = Noted> {
        self.noted.iter().flat_map(|(path, held)| held.iter().map(|held| (path.clone(), held.ino)))
    }
}

impl Journal {
    /// Notes that parts are going to be made in a folder; it need not be on disk yet.
    pub(crate) fn note_folder(&self, path: &Path, ino: Ino) {
        self.add_folder(&mut self.folders(), path, ino);
    }

    /// The same, on disk: a part is made next. Asks for the inode where the folder was not noted. One sync serves all
    /// folders that were noted before.
    pub(crate) fn hold(&self, path: &Path, ino: impl FnOnce() -> Ino) {
        let mut folders = self.folders();
        // A mover's coordinator has noted it.
        if self.is_detached()
            || folders.noted.get(path).is_some_and(|held| held.iter().all(|held| held.on_disk))
        {
            return;
        }
        if !folders.noted.contains_key(path) {
            self.add_folder(&mut folders, path, ino());
        }
        self.sync();
        folders.noted.values_mut().flatten().for_each(|held| held.on_disk = true);
    }

    /// Where earlier runs made parts and did not say that none is left.
    pub(crate) fn folders_left(&self) -> Vec<Noted> {
        self.folders().left.clone()
    }

    /// Where this run makes parts.
    pub(crate) fn folders_held(&self) -> Vec<Noted> {
        self.folders().all_noted().collect()
    }

    /// Records that no part of an earlier run is left.
    pub(crate) fn cleared(&self) {
        let mut folders = self.folders();
        if std::mem::take(&mut folders.left).is_empty() {
            return;
        }
        self.append(&Record::Cleared);
        for (path, ino) in folders.all_noted() {
            self.append(&Record::Folder(FolderRecord { path: PathText::from(path.as_path()), ino }));
        }
        self.sync();
    }

    /// Records that no part at all is left, and none will be made.
    pub(crate) fn all_cleared(&self) {
        let mut folders = self.folders();
        if folders.left.is_empty() && folders.noted.is_empty() {
            return;
        }
        *folders = Folders::default();
        self.append(&Record::Cleared);
        self.sync();
    }

    /// Whether files were begun whose parts are kept for this run to go on with, or for a later one.
    pub(crate) fn keeps_parts(&self) -> bool {
        !self.unfinished.lock().expect("no thread panics with the lock").is_empty()
    }

    fn add_folder(&self, folders: &mut Folders, path: &Path, ino: Ino) {
        let noted = folders.noted.entry(path.to_owned()).or_default();
        if noted.iter().all(|held| held.ino != ino) {
            noted.push(Held { ino, on_disk: false });
            self.append(&Record::Folder(FolderRecord { path: PathText::from(path), ino }));
        }
    }

    fn folders(&self) -> std::sync::MutexGuard<'_, Folders> {
        self.folders.lock().expect("no thread panics with the lock")
    }
}
