//! The two sides of a copy: what is copied from is a [`Source`], what is copied to a [`Target`], and both are a
//! [`Tree`]. [`crate::pfs::Pfs`] and [`crate::buffer::Buffer`] can be either.
//!
//! Paths are the tree's own: absolute on the PFS, relative to the root without a leading slash in the buffer.
//!
//! **Invariant:** only [`Tree::locate`] follows a symbolic link in the last component; every other operation works on
//! the link itself or refuses. On the PFS no link above is followed, either, but by [`Tree::enter`].

mod path;
mod xattr;

use std::collections::HashMap;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Instant;

pub use client::LostByDisk;
use client::Usage;
use model::Ino;
use rustix::io::Errno;
use wire::control::Side;
use wire::data::{Attr, FileKind, SetAttr};

use crate::lost::Lost;
use crate::outside::Outside;

pub(crate) use self::path::on_one_line;
pub use self::path::split;
pub use self::xattr::Xattr;
pub(crate) use self::xattr::{is_access_list, is_label, keeps_xattr};

/// What an operation of a tree gives.
pub type Result<T> = std::result::Result<T, Errno>;

/// An entry that was found or made.
#[derive(Clone, Debug)]
pub struct Found {
    /// Its path in the tree.
    pub path: PathBuf,
    /// The device it is on: with the inode number what tells hard links. 0 in a buffer, which is one device.
    pub device: u64,
    /// Its attributes at that time.
    pub attr: Attr,
    /// Since when they are known to have been these.
    pub since: Instant,
}

impl Found {
    /// Whether it is a folder.
    pub fn is_folder(&self) -> bool {
        self.attr.kind == FileKind::Directory
    }
}

/// What [`Target::make`] makes. All but folders are made for their owner only; the mode is set later.
#[derive(Clone, Copy, Debug)]
pub enum New<'a> {
    /// A folder with these permission bits.
    Folder(u32),
    /// A symbolic link with this text.
    Symlink(&'a Path),
    /// A pipe, socket or device node.
    Node {
        /// Which of them.
        kind: FileKind,
        /// Device number, for device nodes.
        rdev: u64,
    },
}

/// Keeps an entry open, so that its inode number is no other's; `None` where none is ever used again.
pub type Held = Option<OwnedFd>;

/// How a new entry gets its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// Under a temporary name, renamed when it is whole and verified: others may watch the folder.
    Renamed,
    /// Under its own name at once, after what had it is removed: nobody looks before the stage ends, and a buffer
    /// that is nearly full has no room for both.
    InPlace,
}

/// A file that was opened, and its attributes then.
pub type Opened = (Attr, Box<dyn OpenFile>);

/// What a file is like.
pub struct Survey {
    /// Its attributes.
    pub attr: Result<Attr>,
    /// As [`Source::xattrs`].
    pub xattrs: Result<Vec<Xattr>>,
}

/// The entries of a folder; an entry that cannot be looked at comes as its path and the reason.
pub type Listing<'a> = Box<dyn Iterator<Item = std::result::Result<Found, (PathBuf, Errno)>> + 'a>;

/// A file tree that can be looked into.
pub trait Tree: Send + Sync {
    /// Which side it is.
    fn side(&self) -> Side;

    /// A path as users know it, on one line.
    fn show(&self, path: &Path) -> String;

    /// Reaches `folder`, or the nearest above that is there, once, through whatever links its user has on the way: what
    /// is below is reached through none any more.
    ///
    /// # Errors
    /// It is not one that stages may reach.
    fn enter(&self, folder: &Path) -> std::result::Result<(), Outside>;

    /// The entry with this name itself.
    fn find(&self, path: &Path) -> Result<Found>;

    /// The entry behind this name, through symbolic links; its path is free of links in the last component.
    fn locate(&self, path: &Path) -> Result<Found>;

    /// The entries of a folder, without `.` and `..`.
    fn list<'a>(&'a self, folder: &Found) -> Result<Listing<'a>>;

    /// Opens a regular file for reading.
    fn open(&self, file: &Found) -> Result<Box<dyn OpenFile>>;
}

/// What is copied from. Nothing is changed in it.
pub trait Source: Tree {
    /// The entry with this inode number, whatever its name is now; it is shown as `path`.
    ///
    /// # Errors
    /// NOENT where it has no name any more, and where the tree knows names alone; STALE where it is gone.
    fn known(&self, _ino: Ino, _path: &Path) -> Result<Found> {
        Err(Errno::NOENT)
    }

    /// Opens regular files for reading, in order, with the attributes that they then have; `None` where it is no less
    /// work for many than for each.
    fn open_all(&self, _files: &[&Found]) -> Option<Vec<Result<Opened>>> {
        None
    }

    /// What these files are like now, in order; `None` as above.
    fn survey(&self, _files: &[&Found]) -> Option<Vec<Survey>> {
        None
    }

    /// The text of a symbolic link.
    fn read_link(&self, link: &Found) -> Result<PathBuf>;

    /// Whether somebody has a regular file open for writing, or may have, where the tree knows.
    fn is_written(&self, file: &Found) -> Result<bool>;

    /// The user's extended attributes and POSIX ACLs; empty where the tree has none.
    fn xattrs(&self, entry: &Found) -> Result<Vec<Xattr>>;

    /// The names of those that are not kept, and that the system does not give each file by itself.
    fn unkept_xattrs(&self, entry: &Found) -> Result<Vec<Vec<u8>>>;

    /// Has what is in these files where a power loss does not take it, nor a disk that fails without a word. Those of
    /// which something was lost before; [`Source::unverified`] has them now, unless a program was told. A tree that
    /// knows nothing like that leaves them as they are.
    fn flush(&self, files: &[&Found]) -> Result<Vec<LostByDisk>>;

    /// Inodes of files of which the tree knows that it cannot tell whether they are what was written, each with what
    /// was lost.
    fn unverified(&self) -> Result<HashMap<Ino, Lost>> {
        Ok(HashMap::new())
    }
}

/// What is copied to.
pub trait Target: Tree {
    /// How entries are made here.
    fn placement(&self) -> Placement;

    /// Opens for reading and writing a regular file that an earlier run of ours made.
    fn reopen(&self, file: &Found) -> Result<Box<dyn TargetFile>>;

    /// Makes a regular file that must not exist, readable and writable for its owner only, and opens it.
    fn create(&self, path: &Path) -> Result<(Found, Box<dyn TargetFile>)>;

    /// Makes an entry that must not exist; STALE where something else has the name at once.
    fn make(&self, path: &Path, new: New<'_>) -> Result<(Found, Held)>;

    /// Gives a file one more name, which must not exist; NOENT where another has its path by now.
    fn link(&self, existing: &Found, path: &Path) -> Result<Held>;

    /// Gives `entry`, which the caller holds open where numbers are used again, the name `to`, in `folder` and in place
    /// of whatever but a folder has it.
    ///
    /// # Errors
    /// NOENT where another folder has the path of that one by now. STALE where the tree saw that another entry has the
    /// path of this one by now: who must know looks at what has the name.
    fn rename(&self, folder: &Found, entry: &Found, to: &Path) -> Result<()>;

    /// Decides about what an earlier run had taken from a name when it was ended, and that lies at `path`.
    ///
    /// # Errors
    /// It cannot be looked at.
    fn settle_taken(&self, _path: &Path) -> Result<()> {
        Ok(())
    }

    /// Takes note that the folder `path`, of this number, is not found: what lay in it could not be decided about when
    /// it was there. `is_sure`: it was looked for everywhere.
    fn miss_taken(&self, _path: &Path, _ino: Ino, _is_sure: bool) {}

    /// The folders with what could not be decided about: the next run must look there, whatever else is done.
    fn undecided(&self) -> Vec<(PathBuf, Ino)> {
        Vec::new()
    }

    /// Removes anything but a folder.
    fn remove(&self, path: &Path) -> Result<()>;

    /// Removes an empty folder.
    ///
    /// # Errors
    /// NOTEMPTY.
    fn remove_folder(&self, path: &Path) -> Result<()>;

    /// Makes the names in a folder survive a power loss.
    fn sync_folder(&self, path: &Path) -> Result<()>;

    /// Begins a batch of regular files that are made in `folder`, or elsewhere in its file system. `None` where each is
    /// to be synced by itself.
    fn begin_batch(&self, _folder: &Found) -> Result<Option<Box<dyn Batch>>> {
        Ok(None)
    }

    /// Sets owner, mode and times: what is `Some`, in this order.
    fn set(&self, entry: &Found, change: &SetAttr) -> Result<()>;

    /// Sets an extended attribute.
    fn set_xattr(&self, entry: &Found, xattr: &Xattr) -> Result<()>;

    /// Takes from an entry that is just made the access lists that the folder above has handed down, but those that are
    /// among `kept`. Where folders hand nothing down there is nothing to do.
    fn disinherit(&self, entry: &Found, kept: &[Xattr]) -> Result<()>;

    /// Bytes that the tree may hold and bytes that it holds, where there is a limit of its own.
    fn usage(&self) -> Option<Usage> {
        None
    }
}

/// A regular file that is open for reading. Several threads may use it at once.
pub trait OpenFile: Send + Sync {
    /// Its attributes now.
    fn attributes(&self) -> Result<Attr>;

    /// Reads at `offset`; 0 only at the end of the file.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize>;

    /// Whether it is worth asking where the data is; `attr` are its attributes now.
    fn has_holes(&self, attr: &Attr) -> Result<bool>;

    /// The next range that holds data at or after `offset`; `None`: only a hole to the end.
    fn next_data(&self, offset: u64) -> Result<Option<Range<u64>>>;

    /// Forgets what is cached here, so that the next read comes from where the bytes are kept.
    fn forget_cached(&self) -> Result<()>;
}

/// The same of one that is open for writing, too.
pub trait TargetFile: OpenFile {
    /// Writes all of `bytes` at `offset`.
    fn write_at(&self, bytes: &[u8], offset: u64) -> Result<()>;

    /// Sets the size, bytes; what is new is a hole.
    fn set_size(&self, size: u64) -> Result<()>;

    /// Has a range written to where the bytes are kept from now on, so that [`TargetFile::sync`] has less to wait for.
    /// Whether that succeeds is seen there.
    fn begin_sync(&self, _range: Range<u64>) {}

    /// Makes the contents survive a power loss.
    fn sync(&self) -> Result<()>;

    /// Ends the use of the file: attributes set after this stay. Also done, silently, on drop.
    fn close(&self) -> Result<()>;
}

/// Files that are written one after the other, and then synced together.
pub trait Batch {
    /// Makes the contents of these files, written since the batch was begun, survive a power loss. An error may be that
    /// of any file, also of another.
    fn sync(&self, files: &[&Found]) -> Result<()>;
}

/// What was found, or `None` where the error says that there is nothing; every other one says that nobody knows.
pub(crate) fn if_there<T>(found: Result<T>) -> Result<Option<T>> {
    match found {
        Err(Errno::NOENT | Errno::NOTDIR) => Ok(None),
        found => found.map(Some),
    }
}
