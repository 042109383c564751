//! Which inode is at the target, so that nothing else is ever taken for it.

use model::Ino;
use wire::data::Time;

use crate::tree::Found;

/// Which file or folder something is, and when it was changed last (`st_ctime`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Inode {
    pub(crate) device: u64,
    pub(crate) ino: Ino,
    pub(crate) changed: Time,
}

impl Inode {
    pub(crate) fn of(found: &Found) -> Inode {
        Inode { device: found.device, ino: found.attr.ino, changed: found.attr.ctime }
    }

    /// Whether it is the same file or folder, whatever has become of it. A later one may have its number: only for what
    /// costs nobody anything then, as to remove a folder that is empty.
    pub(crate) fn is(&self, other: &Inode) -> bool {
        (self.device, self.ino) == (other.device, other.ino)
    }
}
