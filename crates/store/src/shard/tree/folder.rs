//! In which folder an inode has a name: to tell whether a user reaches it.

use model::Ino;

use super::{Body, Inode, Tree};

/// A folder in which an inode has a name; 0 where none is remembered. Of several names any: two trees are the same
/// whichever that is.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Folder(Ino);

impl PartialEq for Folder {
    fn eq(&self, _: &Folder) -> bool {
        true
    }
}

impl Inode {
    /// A folder in which the inode has a name, if one is remembered: always of a directory, and of whatever has lost no
    /// name.
    pub fn folder(&self) -> Option<Ino> {
        match &self.body {
            Body::Directory(directory) => Some(directory.parent),
            _ => Some(self.folder.0).filter(|folder| *folder != Ino(0)),
        }
    }
}

impl Tree {
    /// All folders in which an inode has a name. Looks into every folder.
    pub fn folders_of(&self, ino: Ino) -> Vec<Ino> {
        let holds = |inode: &Inode| inode.directory().is_some_and(|entries| entries.holds(ino));
        self.inodes.iter().filter(|(_, inode)| holds(inode)).map(|(folder, _)| *folder).collect()
    }

    /// The inode has a name in this folder now.
    pub(super) fn is_in(&mut self, ino: Ino, folder: Ino) {
        self.change(ino, |inode| inode.folder = Folder(folder));
    }

    /// It has one less there, and may have none.
    pub(super) fn is_out_of(&mut self, ino: Ino, folder: Ino) {
        self.change(ino, |inode| {
            if inode.folder.0 == folder {
                inode.folder = Folder::default();
            }
        });
    }
}
