//! What a client that shares its namespace with nobody knows without asking.
//!
//! Before the kernel makes a file it asks whether the name is there, and after that it asks for the folder's attributes
//! again. Of a folder that was made here, the first follows from what was put into it since; the second came with the
//! answer to the change.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, RandomState};
use std::sync::{Mutex, MutexGuard};

use wire::data::{Attr, FileKind};

/// Names remembered, over all folders: about 16 MiB. At the limit everything is forgotten, and asked for again.
const NAMES_MAX: usize = 1 << 20;

/// Folders, as this client left them.
#[derive(Debug, Default)]
pub struct Known {
    state: Mutex<State>,
    hasher: RandomState,
}

#[derive(Debug, Default)]
struct State {
    folders: HashMap<u64, Folder>,
    /// Names and folders.
    count: usize,
    /// How often something was forgotten.
    forgotten: u64,
    /// Others use the namespace too: nothing is known any more.
    closed: bool,
}

#[derive(Debug, Default)]
struct Folder {
    attr: Option<Attr>,
    /// Hashes of every name that it may have, of removed ones too; `None`: anything may be there.
    names: Option<HashSet<u64>>,
}

/// A moment. What was asked before something was forgotten must not be remembered after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment(u64);

impl Known {
    /// Others use the namespace from now on: forgets everything, and remembers nothing.
    pub fn close(&self) {
        let mut state = self.state();
        *state = State { forgotten: state.forgotten + 1, closed: true, ..State::default() };
    }

    /// A power loss took changes back: nothing is known any more of what was there.
    pub fn lost(&self) {
        let mut state = self.state();
        *state = State { forgotten: state.forgotten + 1, closed: state.closed, ..State::default() };
    }

    /// Nobody has put anything into this folder yet but these names.
    pub fn contents<'a>(&self, folder: u64, names: impl Iterator<Item = &'a [u8]>) {
        let hashes: HashSet<u64> = names.map(|name| self.hasher.hash_one(name)).collect();
        let mut state = self.state();
        if state.closed {
            return;
        }
        state.make_room(hashes.len() + 1);
        state.folders.entry(folder).or_default().names = Some(hashes);
    }

    /// A name is about to be put into a folder.
    pub fn put(&self, folder: u64, name: &[u8]) {
        let hash = self.hasher.hash_one(name);
        let mut state = self.state();
        let names = state.folders.get_mut(&folder).and_then(|folder| folder.names.as_mut());
        if names.is_some_and(|names| names.insert(hash)) {
            state.make_room(1);
        }
    }

    /// Whether the name is certainly not there.
    pub fn is_absent(&self, folder: u64, name: &[u8]) -> bool {
        // Nobody puts these there, and every folder has them.
        if matches!(name, b"." | b"..") {
            return false;
        }
        let hash = self.hasher.hash_one(name);
        let state = self.state();
        let names = state.folders.get(&folder).and_then(|folder| folder.names.as_ref());
        names.is_some_and(|names| !names.contains(&hash))
    }

    /// Now, before something is asked.
    pub fn moment(&self) -> Moment {
        Moment(self.state().forgotten)
    }

    /// A folder's attributes.
    pub fn attr(&self, folder: u64) -> Option<Attr> {
        self.state().folders.get(&folder)?.attr
    }

    /// Remembers the attributes of a folder, which were asked for at a moment, unless they are older than what is
    /// known.
    pub fn learn(&self, attr: &Attr, asked: Moment) {
        let mut state = self.state();
        if attr.kind != FileKind::Directory || state.forgotten != asked.0 || state.closed {
            return;
        }
        if !state.folders.contains_key(&attr.ino) {
            state.make_room(1);
        }
        let known = &mut state.folders.entry(attr.ino).or_default().attr;
        if known.is_none_or(|known| known.ctime <= attr.ctime) {
            *known = Some(*attr);
        }
    }

    /// A folder's attributes have changed.
    pub fn forget(&self, folder: u64) {
        let mut state = self.state();
        state.forgotten += 1;
        if let Some(folder) = state.folders.get_mut(&folder) {
            folder.attr = None;
        }
    }

    /// The attributes of several folders have changed.
    pub fn forget_all(&self) {
        let mut state = self.state();
        state.forgotten += 1;
        state.folders.values_mut().for_each(|folder| folder.attr = None);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no thread panics while it holds what is known")
    }
}

impl State {
    fn make_room(&mut self, more: usize) {
        self.count += more;
        if self.count > NAMES_MAX {
            *self = State { forgotten: self.forgotten + 1, closed: self.closed, ..State::default() };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::data::Time;

    fn folder(changed: i64) -> Attr {
        let time = |seconds| Time { seconds, nanos: 0 };
        Attr {
            ino: 3,
            kind: FileKind::Directory,
            mode: 0o755,
            nlink: 2,
            uid: 0,
            gid: 0,
            rdev: 0,
            size: 4096,
            blocks: 8,
            atime: time(1),
            mtime: time(changed),
            ctime: time(changed),
        }
    }

    #[test]
    fn only_what_was_never_put_into_a_known_folder_is_absent() {
        let known = Known::default();
        assert!(!known.is_absent(7, b"a"), "nothing is known of the folder");
        known.contents(7, [&b"old"[..]].into_iter());
        known.put(7, b"new");
        known.put(8, b"elsewhere");
        assert!(!known.is_absent(7, b"old") && !known.is_absent(7, b"new"));
        assert!(known.is_absent(7, b"elsewhere") && !known.is_absent(8, b"a"));
        assert!(!known.is_absent(7, b".") && !known.is_absent(7, b".."));
    }

    #[test]
    fn where_others_come_nothing_is_known_any_more() {
        let known = Known::default();
        known.contents(7, std::iter::empty());
        let before = known.moment();
        known.close();
        known.learn(&folder(5), before);
        known.learn(&folder(5), known.moment());
        known.contents(7, std::iter::empty());
        assert!(!known.is_absent(7, b"a"));
        assert_eq!(known.attr(3), None);
    }

    #[test]
    fn at_the_limit_nothing_is_known_any_more() {
        let known = Known::default();
        known.contents(7, std::iter::empty());
        for n in 0..NAMES_MAX {
            known.put(7, &n.to_le_bytes());
        }
        assert!(!known.is_absent(7, b"a"));
    }

    #[test]
    fn an_answer_from_before_a_change_is_not_remembered_after_it() {
        let known = Known::default();
        let before = known.moment();
        known.forget(3);
        known.learn(&folder(5), before);
        assert_eq!(known.attr(3), None);
        known.learn(&folder(5), known.moment());
        known.learn(&folder(4), known.moment());
        assert_eq!(known.attr(3), Some(folder(5)), "answers may overtake each other");
    }
}
