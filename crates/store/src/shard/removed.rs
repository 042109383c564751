//! The folders, links, pipes, sockets and devices that lost their last name, in the order in which they did.
//!
//! Whoever has one open, or works in it, still sees it: `fstat` says that it has no name, and it can be given another
//! mode. The shard is not told of open folders (each `ls` would cost two more requests), so it keeps the last ones for
//! everybody.
//!
//! **Invariant:** never more than [`REMOVED_MAX`], nor than those may weigh; the same removals in the same order leave
//! the same ones.

use std::collections::VecDeque;

use model::Ino;

/// How many are kept: a few MiB.
pub const REMOVED_MAX: usize = 16_384;

/// Their numbers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Removed(VecDeque<Ino>);

impl Removed {
    /// One more.
    pub fn push(&mut self, ino: Ino) {
        self.0.push_back(ino);
    }

    /// Whether there are more than are kept.
    pub fn are_too_many(&self) -> bool {
        self.0.len() > REMOVED_MAX
    }

    /// The oldest, which is to be forgotten.
    pub fn pop(&mut self) -> Option<Ino> {
        self.0.pop_front()
    }

    /// All of them, the oldest first.
    pub fn iter(&self) -> impl Iterator<Item = Ino> {
        self.0.iter().copied()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }
}

#[cfg(test)]
mod tests {
    use wire::data::{ROOT, Time};

    use super::super::record::{InodeRecord, Kind, Record};
    use super::super::tree::Tree;
    use super::*;

    const TIME: Time = Time { seconds: 7, nanos: 0 };

    fn folder() -> InodeRecord {
        InodeRecord {
            kind: Kind::Directory,
            mode: 0o755,
            nlink: 2,
            uid: 0,
            gid: 0,
            rdev: 0,
            size: 0,
            live: false,
            atime: TIME,
            mtime: TIME,
            ctime: TIME,
            target: Vec::new(),
            parent: ROOT,
            next_cookie: 1,
            xattrs: Vec::new(),
        }
    }

    /// A tree in which so many folders were made and removed.
    fn tree(removals: u64) -> Tree {
        let mut tree = Tree::new(folder());
        for ino in (2..2 + removals).map(Ino) {
            let name = b"name".to_vec();
            tree.apply(&Record::Make { parent: ROOT, name: name.clone(), ino, inode: folder() });
            tree.apply(&Record::Remove { parent: ROOT, name, time: TIME });
        }
        tree
    }

    #[test]
    fn the_last_removed_folders_are_kept_and_no_more() {
        let removals = REMOVED_MAX as u64 + 5;
        let tree = tree(removals);
        assert_eq!(tree.len(), 1, "they take no room");
        assert!(tree.get(Ino(6)).is_none() && tree.get(Ino(7)).is_some_and(|inode| inode.nlink == 0));
    }

    #[test]
    fn a_log_that_is_written_anew_has_the_removed_folders_in_their_order() {
        let before = tree(100);
        let mut after = Tree::empty();
        before.snapshot().for_each(|record| after.apply(&record));
        assert_eq!(before, after);
    }
}
