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

/// A folder of the target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Noted {
    /// Its path when it was noted.
    pub(crate) path: PathBuf,
    /// 0 where nobody knows.
    pub(crate) ino: Ino,
    /// Something lay in it that was taken from a name and that nobody could decide about.
    pub(crate) has_taken: bool,
}

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
        self.noted.iter().flat_map(|(path, held)| held.iter().map(|held| Noted::of(path, held.ino)))
    }
}

impl Noted {
    /// Nothing more is known of it.
    pub(crate) fn of(path: &Path, ino: Ino) -> Noted {
        Noted { path: path.to_owned(), ino, has_taken: false }
    }

    fn record(&self) -> Record {
        let path = PathText::from(self.path.as_path());
        Record::Folder(FolderRecord { path, ino: self.ino, taken: self.has_taken })
    }
}

impl From<FolderRecord> for Noted {
    fn from(record: FolderRecord) -> Noted {
        Noted { path: record.path.to_path(), ino: record.ino, has_taken: record.taken }
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

    /// Records that nothing of an earlier run is left but in the folders `undecided`.
    pub(crate) fn cleared(&self, undecided: Vec<(PathBuf, Ino)>) {
        let mut folders = self.folders();
        let undecided = noted_again(undecided);
        if folders.left == undecided {
            return;
        }
        folders.left = undecided;
        self.rewrite(&folders);
    }

    /// Records that nothing at all is left but in the folders `undecided`, and that no part will be made.
    pub(crate) fn all_cleared(&self, undecided: Vec<(PathBuf, Ino)>) {
        let mut folders = self.folders();
        let undecided = noted_again(undecided);
        if folders.left == undecided && folders.noted.is_empty() {
            return;
        }
        *folders = Folders::after(undecided);
        self.rewrite(&folders);
    }

    fn rewrite(&self, folders: &Folders) {
        self.append(&Record::Cleared);
        folders
            .left
            .iter()
            .cloned()
            .chain(folders.all_noted())
            .for_each(|noted| self.append(&noted.record()));
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
            self.append(&Noted::of(path, ino).record());
        }
    }

    fn folders(&self) -> std::sync::MutexGuard<'_, Folders> {
        self.folders.lock().expect("no thread panics with the lock")
    }
}

fn noted_again(undecided: Vec<(PathBuf, Ino)>) -> Vec<Noted> {
    undecided.into_iter().map(|(path, ino)| Noted { path, ino, has_taken: true }).collect()
}
