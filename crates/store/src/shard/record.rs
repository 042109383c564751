//! What the metadata log holds: every change of the tree, as one record each.
//!
//! A record says what happened with everything that was decided at the time (numbers, times), so that applying the same
//! records in the same order always gives the same tree. Variants are only ever added at the end.

pub mod losses;

use model::{FragmentIndex, Ino, SessionId};
use serde::{Deserialize, Serialize};
use wire::data::{FileKind, Time};

use losses::LossRecord;

/// A change of the tree.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Record {
    /// Snapshot: an inode as it is, without its entries.
    Inode { ino: Ino, inode: InodeRecord },
    /// Snapshot: one directory entry.
    Entry { parent: Ino, name: Vec<u8>, ino: Ino, cookie: u64 },
    /// Snapshot: the next number to give out.
    NextIno { next: Ino },
    /// A new inode under a new name.
    Make { parent: Ino, name: Vec<u8>, ino: Ino, inode: InodeRecord },
    /// One more name for an inode.
    Link {
        ino: Ino,
        parent: Ino,
        name: Vec<u8>,
        #[serde(with = "kept::form")]
        time: Time,
    },
    /// A name less; also a directory's.
    Remove {
        parent: Ino,
        name: Vec<u8>,
        #[serde(with = "kept::form")]
        time: Time,
    },
    /// A name moved, over whatever was there.
    Rename {
        parent: Ino,
        name: Vec<u8>,
        new_parent: Ino,
        new_name: Vec<u8>,
        #[serde(with = "kept::form")]
        time: Time,
    },
    /// Two names swapped.
    Exchange {
        parent: Ino,
        name: Vec<u8>,
        new_parent: Ino,
        new_name: Vec<u8>,
        #[serde(with = "kept::form")]
        time: Time,
    },
    /// Attributes changed.
    SetAttr { ino: Ino, change: AttrChange },
    /// An extended attribute set.
    SetXattr {
        ino: Ino,
        name: Vec<u8>,
        value: Vec<u8>,
        #[serde(with = "kept::form")]
        time: Time,
    },
    /// An extended attribute removed.
    RemoveXattr {
        ino: Ino,
        name: Vec<u8>,
        #[serde(with = "kept::form")]
        time: Time,
    },
    /// Somebody began to write, or a fragment lost changes: from here on the size is what the fragments have.
    Opened { ino: Ino },
    /// Nobody writes any more: this is the size.
    Settled {
        ino: Ino,
        size: u64,
        #[serde(with = "kept::form")]
        mtime: Time,
    },
    /// The objects of an inode without names are gone from every fragment.
    Destroyed { ino: Ino },
    /// Snapshot: the entry's origin was answered, with this inode if there was one.
    Answered { ino: Option<Ino> },
    /// A session is about to hold something: files that are open, locks. After a restart it is waited for.
    Began { session: SessionId },
    /// It holds nothing any more and does not come back.
    Ended { session: SessionId },
    /// An append got the place from `offset` to `end`; an `end` of 0: nobody appends any more.
    Reserved { ino: Ino, offset: u64, end: u64 },
    /// Snapshot: the entry's origin was answered, with this place in a file.
    Placed { offset: u64 },
    /// Snapshot: how often the time of change of a file that may be written was set, and its epoch.
    Counted { ino: Ino, times: u64, epoch: u64 },
    /// The log up to this length, bytes, survives a power loss.
    Synced { length: u64 },
    /// An access list set, and the mode that stands for it; `None`: the mode says all of it.
    SetAcl {
        ino: Ino,
        mode: u32,
        value: Option<Vec<u8>>,
        #[serde(with = "kept::form")]
        time: Time,
    },
    /// The end of the snapshot that a log begins with.
    Begun,
    /// Numbers below this one may have been given to inodes that the log does not know after a power loss.
    Numbered { until: Ino },
    /// The fragment's commit verifier is this from here on. With another one before, a power loss may have taken back
    /// that files were opened and settled: no size is known any more but to the fragments.
    Verified { verifier: u64 },
    /// Another fragment has this commit verifier. With another one before, it may have lost that files were cut off.
    Followed { fragment: FragmentIndex, verifier: u64 },
    /// Snapshot: files that were cut off, which may not be synced yet; not all of them where there were too many.
    Cut { inos: Vec<Ino>, overflown: bool },
    /// Snapshot: the last epoch that was given to a file.
    Epochs { last: u64 },
    /// No power loss of a fragment brings back an object of these, which were destroyed.
    Confirmed { inos: Vec<Ino> },
    /// Another thing is known of what no sync had confirmed, and was lost.
    Losses(LossRecord),
}

impl Record {
    /// What it does to the space on the disk: what gives space back must fit a log on a full disk, too.
    pub fn purpose(&self) -> Purpose {
        match self {
            Record::Remove { .. }
            | Record::Destroyed { .. }
            | Record::Confirmed { .. }
            | Record::Settled { .. }
            | Record::Ended { .. }
            | Record::Synced { .. }
            | Record::Verified { .. }
            | Record::Followed { .. }
            // Not to be forgotten on a full disk.
            | Record::Losses(_)
            // Nothing is reserved any more: part of a close.
            | Record::Reserved { end: 0, .. } => Purpose::Frees,
            Record::Rename { .. }
            | Record::Exchange { .. }
            | Record::SetAttr { .. }
            | Record::RemoveXattr { .. }
            | Record::Opened { .. }
            | Record::Began { .. }
            | Record::Reserved { .. } => Purpose::Changes,
            _ => Purpose::Takes,
        }
    }
}

/// Names and values of extended attributes.
pub type XattrPairs = Vec<(Vec<u8>, Vec<u8>)>;

/// An inode as the log keeps it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct InodeRecord {
    pub kind: Kind,
    pub mode: u32,
    pub nlink: u32,
    pub uid: u32,
    pub gid: u32,
    pub rdev: u64,
    pub size: u64,
    pub live: bool,
    #[serde(with = "kept::form")]
    pub atime: Time,
    #[serde(with = "kept::form")]
    pub mtime: Time,
    #[serde(with = "kept::form")]
    pub ctime: Time,
    /// A symbolic link's text.
    pub target: Vec<u8>,
    /// A directory's parent.
    pub parent: Ino,
    /// A directory's next cookie.
    pub next_cookie: u64,
    pub xattrs: XattrPairs,
}

/// What a change does to the space on the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Something new.
    Takes,
    /// A name, a size or an attribute is another.
    Changes,
    /// Something goes, or comes to its end.
    Frees,
}

/// [`FileKind`] on disk: the wire's type and the disk's evolve apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Kind {
    Regular,
    Directory,
    Symlink,
    Fifo,
    Socket,
    CharDevice,
    BlockDevice,
}

impl From<FileKind> for Kind {
    fn from(kind: FileKind) -> Kind {
        match kind {
            FileKind::Regular => Kind::Regular,
            FileKind::Directory => Kind::Directory,
            FileKind::Symlink => Kind::Symlink,
            FileKind::Fifo => Kind::Fifo,
            FileKind::Socket => Kind::Socket,
            FileKind::CharDevice => Kind::CharDevice,
            FileKind::BlockDevice => Kind::BlockDevice,
        }
    }
}

impl From<Kind> for FileKind {
    fn from(kind: Kind) -> FileKind {
        match kind {
            Kind::Regular => FileKind::Regular,
            Kind::Directory => FileKind::Directory,
            Kind::Symlink => FileKind::Symlink,
            Kind::Fifo => FileKind::Fifo,
            Kind::Socket => FileKind::Socket,
            Kind::CharDevice => FileKind::CharDevice,
            Kind::BlockDevice => FileKind::BlockDevice,
        }
    }
}

/// New values of attributes; `None` leaves one as it is.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct AttrChange {
    pub mode: Option<u32>,
    pub uid: Option<u32>,
    pub gid: Option<u32>,
    pub size: Option<u64>,
    #[serde(with = "kept::form")]
    pub atime: Option<Time>,
    #[serde(with = "kept::form")]
    pub mtime: Option<Time>,
    #[serde(with = "kept::form")]
    pub ctime: Time,
}

/// Which request of which client a record answers, so that the request, sent again after a crash, is not done twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Origin {
    pub session: SessionId,
    pub id: u64,
}

/// One record with where it came from; what is framed and checksummed in the log.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    pub origin: Option<Origin>,
    pub record: Record,
}

#[cfg(test)]
mod tests;
