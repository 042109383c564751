//! Names come into folders and go out of them.

use model::Ino;
use wire::data::{FileKind, Time};

use super::{Body, Directory, Tree};

impl Tree {
    /// An inode lost a name.
    pub(super) fn drop_name(&mut self, ino: Ino, time: Time) {
        let mut lost = None;
        self.reweigh(ino, |inode| {
            inode.ctime = time;
            inode.nlink = if inode.kind == FileKind::Directory { 0 } else { inode.nlink.saturating_sub(1) };
            lost = (inode.nlink == 0).then_some(inode.kind);
        });
        if let Some(kind) = lost {
            self.without_name(ino, kind);
        }
    }

    /// An inode has no name left: a file is an orphan while objects of it may exist, and all else is kept for a while.
    pub(super) fn without_name(&mut self, ino: Ino, kind: FileKind) {
        if kind == FileKind::Regular {
            self.orphans.insert(ino);
        } else {
            self.removed.push(ino);
            self.bound_removed();
        }
    }

    pub(super) fn enter(&mut self, parent: Ino, name: &[u8], ino: Ino, time: Time) {
        if self.directory(parent).is_some_and(|directory| directory.insert(name, ino)) {
            self.add_entry(name);
        }
        self.is_in(ino, parent);
        self.touch(parent, time);
    }

    /// The entry of a snapshot.
    pub(super) fn put(&mut self, parent: Ino, name: &[u8], ino: Ino, cookie: u64) {
        if self.directory(parent).is_some_and(|directory| directory.insert_at(name, ino, cookie)) {
            self.add_entry(name);
        }
        self.is_in(ino, parent);
    }

    pub(super) fn leave(&mut self, parent: Ino, name: &[u8], time: Time) -> Option<Ino> {
        let ino = self.directory(parent)?.remove(name)?;
        self.take_entry(name);
        self.is_out_of(ino, parent);
        self.touch(parent, time);
        Some(ino)
    }

    fn touch(&mut self, ino: Ino, time: Time) {
        self.change(ino, |inode| (inode.mtime, inode.ctime) = (time, time));
    }

    pub(super) fn directory(&mut self, ino: Ino) -> Option<&mut Directory> {
        match &mut self.inodes.get_mut(&ino)?.body {
            Body::Directory(directory) => Some(directory),
            _ => None,
        }
    }
}
