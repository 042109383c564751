//! Names of one file within the set: the first is copied, the others become hard links to the copy.
//!
//! **Invariant:** a link is made only after the first name has its verified contents, and only of a name that is still
//! one of the very file that these are a copy of; whoever comes earlier waits here, not in a worker.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard};

use model::Ino;
use wire::data::Attr;

use crate::entry::{Entry, Role};
use crate::tree::Found;

/// A first name that is at the target.
#[derive(Clone)]
pub(crate) struct Copied {
    /// Its entry there.
    pub(crate) there: Found,
    /// What it is a copy of, as that was then.
    pub(crate) of: Attr,
}

impl Copied {
    /// Whether it is a copy of what `now` is: of the same file, as it is now. Inode numbers are used again.
    pub(crate) fn is_of(&self, now: &Attr) -> bool {
        (now.ino, now.size, now.mtime) == (self.of.ino, self.of.size, self.of.mtime)
    }
}

/// What is to be done with an entry that becomes a link.
pub(crate) enum Join {
    /// Link it to this copy, if it still is a name of what was copied.
    Link(Entry, Box<Copied>),
    /// What the first name had when it was copied is another file: this one is copied by itself.
    Alone(Entry),
    /// Its first name, at the source, could not be copied.
    FirstNameFailed(Entry, String),
    /// It is kept here until its first name is done.
    Waits,
}

#[derive(Default)]
pub(crate) struct Links {
    files: Mutex<HashMap<(u64, Ino), File>>,
}

struct File {
    first: FirstName,
    /// Names that are not done yet, those outside the set too; at 0 the file is forgotten.
    names_left: u32,
}

enum FirstName {
    Copying { waiting: Vec<Entry> },
    Done(Box<Copied>),
    Replaced,
    Failed(String),
}

impl Links {
    /// Tells the planner the role of a regular file.
    pub(crate) fn role(&self, source: &Found) -> Role {
        if source.attr.nlink < 2 {
            return Role::Alone;
        }
        let mut files = self.lock();
        if files.contains_key(&key(source)) {
            return Role::Other;
        }
        let first = FirstName::Copying { waiting: Vec::new() };
        files.insert(key(source), File { first, names_left: source.attr.nlink });
        Role::First
    }

    /// An entry that becomes a link is due.
    pub(crate) fn join(&self, entry: Entry) -> Join {
        let mut files = self.lock();
        let id = key(&entry.source);
        // Forgotten: the file had fewer names when it was found first than it has now.
        let Some(file) = files.get_mut(&id) else {
            let first = entry.source.path.display().to_string();
            return Join::FirstNameFailed(entry, first);
        };
        let join = match &mut file.first {
            FirstName::Copying { waiting } => {
                waiting.push(entry);
                return Join::Waits;
            }
            FirstName::Done(first) => Join::Link(entry, first.clone()),
            FirstName::Replaced => Join::Alone(entry),
            FirstName::Failed(first) => Join::FirstNameFailed(entry, first.clone()),
        };
        forget(&mut files, id, 1);
        join
    }

    /// The first name is done, or failed; gives those that waited for it.
    pub(crate) fn settle(&self, source: &Found, outcome: Option<Copied>) -> Vec<Entry> {
        let mut files = self.lock();
        let Some(file) = files.get_mut(&key(source)) else { return Vec::new() };
        let first = match outcome {
            Some(first) if first.of.ino == source.attr.ino => FirstName::Done(Box::new(first)),
            Some(_) => FirstName::Replaced,
            None => FirstName::Failed(source.path.display().to_string()),
        };
        let waiting = match std::mem::replace(&mut file.first, first) {
            FirstName::Copying { waiting } => waiting,
            FirstName::Done(_) | FirstName::Replaced | FirstName::Failed(_) => Vec::new(),
        };
        // The first name itself; those that waited come back through `join`.
        forget(&mut files, key(source), 1);
        waiting
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<(u64, Ino), File>> {
        self.files.lock().expect("no thread panics with the lock")
    }
}

fn forget(files: &mut HashMap<(u64, Ino), File>, id: (u64, Ino), names: u32) {
    if let Some(file) = files.get_mut(&id) {
        file.names_left = file.names_left.saturating_sub(names);
        if file.names_left == 0 {
            files.remove(&id);
        }
    }
}

fn key(source: &Found) -> (u64, Ino) {
    (source.device, source.attr.ino)
}
