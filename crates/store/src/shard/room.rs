//! How much metadata a namespace has, and whether it may have more.
//!
//! Counted is what lives, as the tree weighs it: inodes, names, extended attributes, access lists, texts of links. What
//! the log has of former times is not; the log is replaced when it is several times as long as what lives.
//!
//! **Invariant:** what makes it less, or leaves it as it is, is never refused.

use std::sync::Arc;

use rustix::io::Errno;
use wire::data::room::MetadataRoom;

use super::acl;
use super::record::Record;
use super::tree::Tree;
use super::tree::weight::{entry_bytes, record_bytes, xattr_bytes};
use crate::objects::space::Space;
use crate::seldom::Seldom;

/// A file with a name of some length, bytes: to tell how many more there may be.
const FILE_BYTES: u64 = 256;

/// The room of one namespace, in that of its fragment.
#[derive(Default)]
pub struct Room {
    /// `None`: nothing is served yet.
    space: Option<Arc<Space>>,
    counted: u64,
    refused: Seldom,
}

impl Room {
    /// What the tree has counts from now on, with what other namespaces of the fragment have.
    pub fn count_in(&mut self, space: Arc<Space>, tree: &Tree) {
        self.space = Some(space);
        self.follow(tree);
    }

    /// The tree has changed.
    pub fn follow(&mut self, tree: &Tree) {
        self.count(tree.weight().living);
    }

    /// Whether there is room for what this record does.
    ///
    /// # Errors
    /// ENOSPC.
    pub fn admit(&self, tree: &Tree, record: &Record) -> Result<(), Errno> {
        let Some(space) = &self.space else { return Ok(()) };
        let metadata = space.metadata();
        metadata.admit(more(tree, record)).inspect_err(|_| {
            if let Some(times) = self.refused.due() {
                let (used, limit) = (metadata.used(), metadata.max());
                tracing::warn!(
                    used,
                    limit,
                    times,
                    "no room for more metadata of a buffer (ENOSPC): names and extended attributes have to be removed"
                );
            }
        })
    }

    /// What there is, and what more there may be.
    pub fn tell(&self) -> MetadataRoom {
        let metadata = self.space.as_ref().map(|space| space.metadata());
        let (used, max) = metadata.map_or((0, 0), |metadata| (metadata.used(), metadata.max()));
        MetadataRoom { used, files: max.saturating_sub(used) / FILE_BYTES }
    }

    fn count(&mut self, now: u64) {
        // Before it is counted with others nothing is: all of it comes then.
        let Some(space) = &self.space else { return };
        let before = std::mem::replace(&mut self.counted, now);
        if before != now {
            space.metadata().changed(before, now);
        }
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        self.count(0);
    }
}

/// Bytes that a record adds to a tree; 0 where it takes some away.
fn more(tree: &Tree, record: &Record) -> u64 {
    let in_place_of = |ino: &model::Ino, name: &[u8], value: &[u8]| {
        let former = tree.get(*ino).and_then(|inode| inode.xattr(name));
        xattr_bytes(name, value).saturating_sub(former.map_or(0, |former| xattr_bytes(name, former)))
    };
    match record {
        Record::Make { name, inode, .. } => record_bytes(inode) + entry_bytes(name),
        Record::Link { name, .. } => entry_bytes(name),
        Record::Rename { name, new_parent, new_name, .. } => {
            let entries = tree.get(*new_parent).and_then(|folder| folder.directory());
            let replaces = entries.is_some_and(|entries| entries.get(new_name).is_some());
            if replaces { 0 } else { entry_bytes(new_name).saturating_sub(entry_bytes(name)) }
        }
        Record::SetXattr { ino, name, value, .. } => in_place_of(ino, name, value),
        Record::SetAcl { ino, value: Some(value), .. } => in_place_of(ino, acl::ACCESS, value),
        _ => 0,
    }
}
