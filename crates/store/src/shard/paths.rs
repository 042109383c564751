//! Inodes seen from their objects: whether a number is a file's, where that file is, and which objects there should be.

use std::collections::HashMap;

use model::{FragmentIndex, Ino};
use rustix::io::Errno;
use wire::data::message::UNKNOWN_BYTES;
use wire::data::{FileKind, ROOT, Reply};

use super::Shard;
use super::tree::Tree;

/// So many objects are told of at once.
const PAGE_OBJECTS_MAX: usize = 16_384;

impl Shard {
    /// Those of `inos` that are no regular file's of this namespace, also none whose objects are being removed.
    pub fn strangers(&self, inos: &[Ino]) -> Vec<Ino> {
        let state = self.lock();
        let is_file = |ino: &Ino| state.tree.get(*ino).is_some_and(|inode| inode.kind == FileKind::Regular);
        inos.iter().copied().filter(|ino| !is_file(ino)).collect()
    }

    /// See [`Shard::meant`].
    ///
    /// # Errors
    /// EIO where the log lost its end: what it does not name would be removed, and be missed once the copy is back.
    pub fn list_meant(&self, fragment: FragmentIndex, after: Ino) -> Result<Reply, Errno> {
        if self.is_log_cut() { Err(Errno::IO) } else { Ok(Reply::Objects(self.meant(fragment, after))) }
    }

    /// Objects that the fragment `fragment` should have, with numbers above `after`, in order, with the lengths that
    /// they should have: a page. Where somebody writes a file, or it has holes, nobody but the fragment knows. What has
    /// no name and nobody has open is being removed: none of it should be there.
    pub fn meant(&self, fragment: FragmentIndex, after: Ino) -> Vec<(Ino, u64)> {
        let state = self.lock();
        let length = |ino, inode: &super::tree::Inode| {
            let settled = self.layout.object_size(ino, fragment, inode.size)?;
            let length = if inode.live { UNKNOWN_BYTES + settled } else { settled };
            (length > 0).then_some((ino, length))
        };
        let may_be_open = |ino: Ino| state.sessions.is_open(ino) || state.sessions.is_awaiting();
        let is_had = |ino: Ino, inode: &super::tree::Inode| inode.nlink > 0 || may_be_open(ino);
        let files = state.tree.files().filter(|(ino, inode)| *ino > after && is_had(*ino, inode));
        let mut meant: Vec<(Ino, u64)> = files.filter_map(|(ino, inode)| length(ino, inode)).collect();
        meant.sort_unstable();
        meant.truncate(PAGE_OBJECTS_MAX);
        meant
    }

    /// The paths of inodes, from the namespace's root; `None` where one has no name.
    pub fn paths(&self, inos: &[Ino]) -> Vec<Option<String>> {
        let state = self.lock();
        let names = names_of(&state.tree);
        inos.iter().map(|ino| path(&names, *ino)).collect()
    }
}

/// A folder and a name in it for every inode that has one: of several names any.
fn names_of(tree: &Tree) -> HashMap<Ino, (Ino, Vec<u8>)> {
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

fn path(names: &HashMap<Ino, (Ino, Vec<u8>)>, ino: Ino) -> Option<String> {
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
