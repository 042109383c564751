//! Inodes seen from their objects: whether a number is a file's, and where that file is.

use std::collections::HashMap;

use wire::data::{FileKind, ROOT};

use super::Shard;
use super::tree::Tree;

impl Shard {
    /// Those of `inos` that are no regular file's of this namespace, also none whose objects are being removed.
    pub fn strangers(&self, inos: &[u64]) -> Vec<u64> {
        let state = self.lock();
        let is_file = |ino: &u64| state.tree.get(*ino).is_some_and(|inode| inode.kind == FileKind::Regular);
        inos.iter().copied().filter(|ino| !is_file(ino)).collect()
    }

    /// The paths of inodes, from the namespace's root; `None` where one has no name.
    pub fn paths(&self, inos: &[u64]) -> Vec<Option<String>> {
        let state = self.lock();
        let names = names_of(&state.tree);
        inos.iter().map(|ino| path(&names, *ino)).collect()
    }
}

/// A folder and a name in it for every inode that has one: of several names any.
fn names_of(tree: &Tree) -> HashMap<u64, (u64, Vec<u8>)> {
    let mut names = HashMap::new();
    let mut folders = vec![ROOT];
    while let Some(folder) = folders.pop() {
        let Some(directory) = tree.get(folder).and_then(|inode| inode.directory()) else { continue };
        for (_, name, ino) in directory.after(0) {
            names.insert(ino, (folder, name.to_vec()));
            if tree.get(ino).is_some_and(|inode| inode.kind == FileKind::Directory) {
                folders.push(ino);
            }
        }
    }
    names
}

fn path(names: &HashMap<u64, (u64, Vec<u8>)>, ino: u64) -> Option<String> {
    let mut parts = Vec::new();
    let mut at = ino;
    while at != ROOT {
        let (folder, name) = names.get(&at)?;
        parts.push(String::from_utf8_lossy(name).into_owned());
        at = *folder;
    }
    parts.reverse();
    (!parts.is_empty()).then(|| parts.join("/"))
}
