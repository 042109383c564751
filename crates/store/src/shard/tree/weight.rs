//! What the metadata of a namespace weighs: what it takes of a log that has nothing else, and of memory, about.
//!
//! **Invariant:** the weight is what weighing everything anew would give, whatever was applied.

use model::Ino;
use wire::data::FileKind;

use super::super::record::InodeRecord;
use super::{Body, Inode, Tree};

/// An inode, without what has a length of its own.
const INODE_BYTES: u64 = 128;

/// A name in a folder, without its letters.
const ENTRY_BYTES: u64 = 64;

/// An extended attribute, without name and value.
const XATTR_BYTES: u64 = 32;

/// What those may weigh together that have lost their last name and may still be open, as folders. They could not be
/// removed once more.
const REMOVED_BYTES_MAX: u64 = 16 << 20;

/// Bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Weight {
    /// What has a name, and files that may still be open.
    pub living: u64,
    /// Folders and the like that have lost their last name.
    pub removed: u64,
}

impl Weight {
    fn of(inode: &Inode) -> Weight {
        let target = if let Body::Symlink(target) = &inode.body { target.as_ref() } else { &[] };
        let all = inode_bytes(target, inode.xattrs.iter().flatten());
        if inode.is_removed() {
            Weight { removed: all, living: 0 }
        } else {
            Weight { living: all, removed: 0 }
        }
    }

    fn add(&mut self, more: Weight) {
        self.living += more.living;
        self.removed += more.removed;
    }

    /// Never below nothing: a log that is none of ours must not end a node.
    fn take(&mut self, less: Weight) {
        self.living = self.living.saturating_sub(less.living);
        self.removed = self.removed.saturating_sub(less.removed);
    }
}

/// A name in a folder.
pub fn entry_bytes(name: &[u8]) -> u64 {
    ENTRY_BYTES + name.len() as u64
}

/// An extended attribute.
pub fn xattr_bytes(name: &[u8], value: &[u8]) -> u64 {
    XATTR_BYTES + (name.len() + value.len()) as u64
}

/// A new inode.
pub fn record_bytes(inode: &InodeRecord) -> u64 {
    inode_bytes(&inode.target, inode.xattrs.iter().map(|(name, value)| (name, value)))
}

fn inode_bytes<'a>(target: &[u8], xattrs: impl Iterator<Item = (&'a Vec<u8>, &'a Vec<u8>)>) -> u64 {
    let xattrs = xattrs.map(|(name, value)| xattr_bytes(name, value));
    INODE_BYTES + target.len() as u64 + xattrs.sum::<u64>()
}

impl Inode {
    /// A folder, link, pipe, socket or device without a name.
    pub(super) fn is_removed(&self) -> bool {
        self.nlink == 0 && self.kind != FileKind::Regular
    }
}

impl Tree {
    /// What it weighs.
    pub fn weight(&self) -> Weight {
        self.weight
    }

    /// One more inode, or another with this number.
    pub(super) fn add(&mut self, ino: Ino, inode: Inode) {
        self.weight.add(Weight::of(&inode));
        if let Some(former) = self.inodes.insert(ino, Box::new(inode)) {
            self.weight.take(Weight::of(&former));
        }
    }

    /// One less.
    pub(super) fn forget(&mut self, ino: Ino) {
        if let Some(former) = self.inodes.remove(&ino) {
            self.weight.take(Weight::of(&former));
        }
    }

    /// Changes something of an inode that weighs.
    pub(super) fn reweigh(&mut self, ino: Ino, change: impl FnOnce(&mut Inode)) {
        let Some(inode) = self.inodes.get_mut(&ino) else { return };
        self.weight.take(Weight::of(inode));
        change(inode);
        self.weight.add(Weight::of(inode));
        self.bound_removed();
    }

    /// A name came into a folder.
    pub(super) fn add_entry(&mut self, name: &[u8]) {
        self.weight.living += entry_bytes(name);
    }

    /// A name went.
    pub(super) fn take_entry(&mut self, name: &[u8]) {
        self.weight.take(Weight { living: entry_bytes(name), removed: 0 });
    }

    /// Forgets the oldest of those that were removed, where there are too many.
    pub(super) fn bound_removed(&mut self) {
        while self.removed.are_too_many() || self.weight.removed > REMOVED_BYTES_MAX {
            let Some(oldest) = self.removed.pop() else { return };
            self.forget(oldest);
        }
    }

    /// Weighs everything.
    #[cfg(test)]
    pub fn weighed_anew(&self) -> Weight {
        let mut all = Weight::default();
        self.inodes.values().for_each(|inode| all.add(Weight::of(inode)));
        let names = self.inodes.values().filter_map(|inode| inode.directory());
        let names = names.flat_map(|folder| folder.after(0).map(|(_, name, _)| entry_bytes(name)));
        all.living += names.sum::<u64>();
        all
    }
}
