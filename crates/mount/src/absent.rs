//! Names that are not in a folder, known without asking.
//!
//! Before the kernel makes a file it asks whether its name is there. On a mount that shares its namespace with nobody, the
//! answer for a folder that was made here follows from what was put into it since.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, RandomState};
use std::sync::{Mutex, MutexGuard};

/// Names remembered, over all folders: about 16 MiB. At the limit everything is forgotten, and asked for again.
const NAMES_MAX: usize = 1 << 20;

/// What was put into each folder that is known from its beginning.
#[derive(Debug, Default)]
pub struct Absent {
    known: Mutex<Known>,
    hasher: RandomState,
}

#[derive(Debug, Default)]
struct Known {
    /// Hashes of every name that the folder may have; of a removed one, too.
    folders: HashMap<u64, HashSet<u64>>,
    names: usize,
}

impl Absent {
    /// Nobody has put anything into this folder yet but these names.
    pub fn know<'a>(&self, folder: u64, names: impl Iterator<Item = &'a [u8]>) {
        let hashes: HashSet<u64> = names.map(|name| self.hasher.hash_one(name)).collect();
        let mut known = self.known();
        known.count(hashes.len() + 1);
        known.folders.insert(folder, hashes);
    }

    /// A name is about to be put into a folder.
    pub fn add(&self, folder: u64, name: &[u8]) {
        let hash = self.hasher.hash_one(name);
        let mut known = self.known();
        if known.folders.get_mut(&folder).is_some_and(|names| names.insert(hash)) {
            known.count(1);
        }
    }

    /// Whether the name is certainly not there.
    pub fn is_absent(&self, folder: u64, name: &[u8]) -> bool {
        let hash = self.hasher.hash_one(name);
        self.known().folders.get(&folder).is_some_and(|names| !names.contains(&hash))
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().expect("no thread panics while it holds the known names")
    }
}

impl Known {
    fn count(&mut self, more: usize) {
        self.names += more;
        if self.names > NAMES_MAX {
            *self = Known::default();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_never_put_into_a_known_folder_is_absent() {
        let absent = Absent::default();
        assert!(!absent.is_absent(7, b"a"), "nothing is known of the folder");
        absent.know(7, [&b"old"[..]].into_iter());
        absent.add(7, b"new");
        absent.add(8, b"elsewhere");
        assert!(!absent.is_absent(7, b"old") && !absent.is_absent(7, b"new"));
        assert!(absent.is_absent(7, b"elsewhere") && !absent.is_absent(8, b"a"));
    }

    #[test]
    fn at_the_limit_nothing_is_known_any_more() {
        let absent = Absent::default();
        absent.know(7, std::iter::empty());
        for n in 0..NAMES_MAX {
            absent.add(7, &n.to_le_bytes());
        }
        assert!(!absent.is_absent(7, b"a"));
    }
}
