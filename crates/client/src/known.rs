//! What a client that shares its namespace with nobody knows without asking.
//!
//! Before the kernel makes a file it asks whether the name is there, and after that it asks for the folder's attributes
//! again. Of a folder that was made here, the first follows from what was put into it since; the second came with the
//! answer to the change.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, MutexGuard};

use model::Ino;
use wire::data::{Attr, FileKind, ROOT};

use super::Client;
use crate::sharing::{Present, Sharing};

/// Names remembered, over all folders: about 16 MiB. At the limit everything is forgotten, and asked for again.
const NAMES_MAX: usize = 1 << 20;

/// A root folder with no more entries than this is known from the start.
const KNOWN_ROOT_MAX: usize = 100;

/// Folders, as this client left them.
#[derive(Debug)]
pub struct Known {
    sharing: Present,
    state: Mutex<State>,
    hasher: RandomState,
}

#[derive(Debug, Default)]
struct State {
    folders: HashMap<Ino, Folder>,
    /// Names and folders.
    count: usize,
    /// How often something was forgotten.
    forgotten: u64,
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
    /// Nothing is known yet; where the names are not the client's, nothing ever is.
    pub fn new(sharing: Sharing) -> Known {
        Known { sharing: Present::new(sharing), state: Mutex::default(), hasher: RandomState::default() }
    }

    /// Who else uses the namespace.
    pub fn sharing(&self) -> Sharing {
        self.sharing.get()
    }

    /// Stages use the namespace from now on: forgets everything, and remembers nothing.
    pub fn demote(&self) {
        self.sharing.demote();
        // Last: see `state`.
        self.lost();
    }

    /// A power loss took changes back: nothing is known any more of what was there.
    pub fn lost(&self) {
        self.lock().forget();
    }

    /// Nobody has put anything into this folder yet but these names.
    pub fn contents<'a>(&self, folder: Ino, names: impl Iterator<Item = &'a [u8]>) {
        let hashes: HashSet<u64> = names.map(|name| self.hasher.hash_one(name)).collect();
        let Some(mut state) = self.state() else { return };
        state.make_room(hashes.len() + 1);
        state.folders.entry(folder).or_default().names = Some(hashes);
    }

    /// A name is about to be put into a folder.
    pub fn put(&self, folder: Ino, name: &[u8]) {
        let Some(mut state) = self.state() else { return };
        let hash = self.hasher.hash_one(name);
        let names = state.folders.get_mut(&folder).and_then(|folder| folder.names.as_mut());
        if names.is_some_and(|names| names.insert(hash)) {
            state.make_room(1);
        }
    }

    /// Whether the name is certainly not there.
    pub fn is_absent(&self, folder: Ino, name: &[u8]) -> bool {
        // Nobody puts these there, and every folder has them.
        if matches!(name, b"." | b"..") {
            return false;
        }
        let Some(state) = self.state() else { return false };
        let hash = self.hasher.hash_one(name);
        let names = state.folders.get(&folder).and_then(|folder| folder.names.as_ref());
        names.is_some_and(|names| !names.contains(&hash))
    }

    /// Now, before something is asked; `None` where no answer is remembered.
    pub fn moment(&self) -> Option<Moment> {
        Some(Moment(self.state()?.forgotten))
    }

    /// A folder's attributes.
    pub fn attr(&self, folder: Ino) -> Option<Attr> {
        self.state()?.folders.get(&folder)?.attr
    }

    /// Remembers the attributes of a folder, which were asked for at a moment, unless they are older than what is
    /// known.
    pub fn learn(&self, attr: &Attr, asked: Option<Moment>) {
        let (Some(asked), Some(mut state)) = (asked, self.state()) else { return };
        if attr.kind != FileKind::Directory || state.forgotten != asked.0 {
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
    pub fn forget(&self, folder: Ino) {
        let Some(mut state) = self.state() else { return };
        state.forgotten += 1;
        if let Some(folder) = state.folders.get_mut(&folder) {
            folder.attr = None;
        }
    }

    /// The attributes of several folders have changed.
    pub fn forget_all(&self) {
        let Some(mut state) = self.state() else { return };
        state.forgotten += 1;
        state.folders.values_mut().for_each(|folder| folder.attr = None);
    }

    /// What is known, where the names are the client's. That is looked at with the lock held: whoever demotes forgets
    /// everything after that.
    fn state(&self) -> Option<MutexGuard<'_, State>> {
        // Who shares the namespace does not wait for the lock.
        if !self.sharing().owns_names() {
            return None;
        }
        let state = self.lock();
        self.sharing().owns_names().then_some(state)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no thread panics while it holds what is known")
    }
}

impl State {
    fn make_room(&mut self, more: usize) {
        self.count += more;
        if self.count > NAMES_MAX {
            self.forget();
        }
    }

    fn forget(&mut self) {
        *self = State { forgotten: self.forgotten + 1, ..State::default() };
    }
}

impl Client {
    /// Says who else uses the namespace. Where nobody does, what follows from this client's own changes is not asked
    /// for. Without this, anybody may.
    #[must_use]
    pub fn with_sharing(mut self, sharing: Sharing) -> Client {
        self.known = Arc::new(Known::new(sharing));
        self.nodes.commits().doubt(Arc::clone(&self.known));
        self
    }

    /// Who else uses the namespace now.
    pub fn sharing(&self) -> Sharing {
        self.known.sharing()
    }

    /// Stages use the namespace from now on: everything is asked for again.
    pub fn demote(&self) {
        self.known.demote();
    }

    /// Looks into the root folder: of a new namespace, all names are known then.
    pub fn look_around(&self) {
        if !self.sharing().owns_names() {
            return;
        }
        // Where it cannot be listed now, every name is asked for.
        let Ok(entries) = self.list(ROOT, 0) else { return };
        if entries.len() <= KNOWN_ROOT_MAX {
            self.known.contents(ROOT, entries.iter().map(|listed| listed.entry.name.as_slice()));
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
            ino: Ino(3),
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
        let known = Known::new(Sharing::Exclusive);
        assert!(!known.is_absent(Ino(7), b"a"), "nothing is known of the folder");
        known.contents(Ino(7), [&b"old"[..]].into_iter());
        known.put(Ino(7), b"new");
        known.put(Ino(8), b"elsewhere");
        assert!(!known.is_absent(Ino(7), b"old") && !known.is_absent(Ino(7), b"new"));
        assert!(known.is_absent(Ino(7), b"elsewhere") && !known.is_absent(Ino(8), b"a"));
        assert!(!known.is_absent(Ino(7), b".") && !known.is_absent(Ino(7), b".."));
    }

    #[test]
    fn where_others_come_nothing_is_known_any_more() {
        let known = Known::new(Sharing::Exclusive);
        known.contents(Ino(7), std::iter::empty());
        let before = known.moment();
        known.demote();
        known.learn(&folder(5), before);
        known.learn(&folder(5), known.moment());
        known.contents(Ino(7), std::iter::empty());
        assert!(!known.is_absent(Ino(7), b"a"));
        assert_eq!(known.attr(Ino(3)), None);
    }

    #[test]
    fn who_shares_its_namespace_from_the_beginning_knows_nothing() {
        let known = Known::new(Sharing::Shared);
        known.contents(Ino(7), std::iter::empty());
        known.learn(&folder(5), known.moment());
        assert!(!known.is_absent(Ino(7), b"a"));
        assert_eq!(known.attr(Ino(3)), None);
    }

    #[test]
    fn at_the_limit_nothing_is_known_any_more() {
        let known = Known::new(Sharing::Exclusive);
        known.contents(Ino(7), std::iter::empty());
        for n in 0..NAMES_MAX {
            known.put(Ino(7), &n.to_le_bytes());
        }
        assert!(!known.is_absent(Ino(7), b"a"));
    }

    #[test]
    fn an_answer_from_before_a_change_is_not_remembered_after_it() {
        let known = Known::new(Sharing::Exclusive);
        let before = known.moment();
        known.forget(Ino(3));
        known.learn(&folder(5), before);
        assert_eq!(known.attr(Ino(3)), None);
        known.learn(&folder(5), known.moment());
        known.learn(&folder(4), known.moment());
        assert_eq!(known.attr(Ino(3)), Some(folder(5)), "answers may overtake each other");
    }
}
