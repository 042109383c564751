//! The file operations of a namespace, each once: [`Names`], [`Contents`], and [`Operations`], which are both and those
//! for many files at once. [`crate::Client`] has them all; who copies trees takes whatever has them.
//!
//! Numbers, names and errors mean what they mean in POSIX. Every method blocks.

use std::ops::Range;
use std::os::fd::OwnedFd;

use model::{FragmentIndex, Ino};
use wire::data::message::{AllocateMode, Loss, RenameMode, XattrMode};
use wire::data::{Attr, Creator, DirEntry, FileKind, SetAttr, Time};

use crate::{Result, Usage};

/// Which request a change is. The storage nodes do a change once, however often they are asked under the same number:
/// so whoever is asked twice for something, perhaps in two lives of a process, can pass that on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestId {
    /// One that is made now.
    New,
    /// One with a number of the caller's choice, below 2^63: no other change of the session has it.
    Given(u64),
}

/// What [`Names::mknod`] makes.
#[derive(Clone, Copy, Debug)]
pub struct Node {
    /// Anything but a directory or a symbolic link.
    pub kind: FileKind,
    /// Permission bits, `0..=0o7777`, before the creator's umask.
    pub mode: u32,
    /// Device number, for device nodes.
    pub rdev: u64,
}

/// What a file is like, and the names of its extended attributes.
pub type Survey = (Result<Attr>, Result<Vec<Vec<u8>>>);

/// Names, and what inodes have beside their contents.
pub trait Names: Send + Sync {
    /// The inode behind a name.
    fn lookup(&self, parent: Ino, name: &[u8]) -> Result<Attr>;

    /// An inode's attributes.
    fn getattr(&self, ino: Ino) -> Result<Attr>;

    /// Changes attributes.
    fn setattr(&self, id: RequestId, ino: Ino, set: &SetAttr) -> Result<Attr>;

    /// Makes a directory.
    fn mkdir(&self, id: RequestId, parent: Ino, name: &[u8], mode: u32, creator: &Creator) -> Result<Attr>;

    /// Makes a named pipe, socket, device node or empty regular file.
    fn mknod(&self, id: RequestId, parent: Ino, name: &[u8], node: &Node, creator: &Creator) -> Result<Attr>;

    /// Makes a symbolic link.
    fn symlink(
        &self,
        id: RequestId,
        parent: Ino,
        name: &[u8],
        target: &[u8],
        creator: &Creator,
    ) -> Result<Attr>;

    /// Gives an inode one more name.
    fn link(&self, id: RequestId, ino: Ino, parent: Ino, name: &[u8]) -> Result<Attr>;

    /// Makes a regular file, which must not exist, and opens it for writing.
    fn create(&self, id: RequestId, parent: Ino, name: &[u8], mode: u32, creator: &Creator) -> Result<Attr>;

    /// Opens a regular file; tells its permission bits. Each open is closed once, with the same `write`.
    fn open(&self, ino: Ino, write: bool) -> Result<u32>;

    /// Closes one handle.
    fn close(&self, ino: Ino, write: bool) -> Result<()>;

    /// Takes a name away from anything but a directory.
    fn unlink(&self, id: RequestId, parent: Ino, name: &[u8]) -> Result<()>;

    /// Removes an empty directory.
    fn rmdir(&self, id: RequestId, parent: Ino, name: &[u8]) -> Result<()>;

    /// Moves a name, or swaps two.
    fn rename(
        &self,
        id: RequestId,
        parent: Ino,
        name: &[u8],
        new_parent: Ino,
        new_name: &[u8],
        mode: RenameMode,
    ) -> Result<()>;

    /// A symbolic link's text.
    fn readlink(&self, ino: Ino) -> Result<Vec<u8>>;

    /// A page of a directory's entries after `cookie` (0: from the start), without `.` and `..`; empty at the end.
    ///
    /// # Errors
    /// Also those of nodes that have a part of a file that somebody may be writing.
    fn readdir(&self, ino: Ino, cookie: u64) -> Result<Vec<DirEntry>>;

    /// An extended attribute's value; ENODATA where there is none.
    fn getxattr(&self, ino: Ino, name: &[u8]) -> Result<Vec<u8>>;

    /// Sets an extended attribute that may, must or must not exist.
    fn setxattr(&self, id: RequestId, ino: Ino, name: &[u8], value: &[u8], mode: XattrMode) -> Result<()>;

    /// Names of extended attributes.
    fn listxattr(&self, ino: Ino) -> Result<Vec<Vec<u8>>>;

    /// Removes an extended attribute.
    fn removexattr(&self, id: RequestId, ino: Ino, name: &[u8]) -> Result<()>;

    /// Makes every name and attribute set so far survive a power loss.
    ///
    /// # Errors
    /// Some were lost, and nobody was told yet.
    fn sync_metadata(&self) -> Result<()>;
}

/// What is in regular files.
pub trait Contents: Send + Sync {
    /// Reads into `buffer`; fewer bytes at the file's end. Holes read as zeros.
    fn read(&self, ino: Ino, offset: u64, buffer: &mut [u8]) -> Result<usize>;

    /// Writes all of `bytes`. When it returns, the storage nodes have them.
    ///
    /// # Errors
    /// ENOSPC when they do not fit the capacity; a part of them may have been written then.
    fn write(&self, ino: Ino, offset: u64, bytes: &[u8]) -> Result<()>;

    /// Writes all of `bytes` at the end of the file, wherever that is by then; asked again under its number, at the
    /// same place. Tells where it was.
    ///
    /// # Errors
    /// As [`Contents::write`]; the place stays empty then.
    fn append(&self, id: RequestId, ino: Ino, bytes: &[u8]) -> Result<u64>;

    /// Allocates, frees or zeroes a range.
    fn allocate(&self, ino: Ino, offset: u64, len: u64, mode: AllocateMode) -> Result<()>;

    /// The next range of the file that has data, at or after `offset`; `None`: only a hole to the end. A range may end
    /// before its data does.
    fn next_data(&self, ino: Ino, offset: u64) -> Result<Option<Range<u64>>>;

    /// Where the next hole at or after `offset` begins; `size`, the file's, where there is none before its end.
    fn next_hole(&self, ino: Ino, offset: u64, size: u64) -> Result<u64>;

    /// Makes the file's contents and every metadata change so far survive a power loss of the storage nodes.
    ///
    /// # Errors
    /// What was written to the file was lost, and nobody was told yet; ESTALE: the file itself was lost.
    fn fsync(&self, ino: Ino) -> Result<()>;

    /// Whether somebody has the file open for writing, or may have.
    fn is_written(&self, ino: Ino) -> Result<bool>;

    /// Where a range of a file lies, if that is in one object: its fragment, and the offset there.
    fn place(&self, ino: Ino, offset: u64, len: u64) -> Option<(FragmentIndex, u64)>;

    /// The object of a file on one fragment, open for reading and writing, where that is on this machine and its kernel
    /// keeps the capacity. Whoever writes to it tells so by [`Contents::wrote`].
    ///
    /// # Errors
    /// ENOTSUP where that is not so; ENOENT where nothing was written to it.
    fn object_on(&self, ino: Ino, fragment: FragmentIndex) -> Result<OwnedFd>;

    /// Bytes up to `end` of a file were written to an object of it, whose time of change is `mtime`.
    fn wrote(&self, ino: Ino, end: u64, mtime: Time);
}

/// A file of which a disk could not write something back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LostByDisk {
    /// Which.
    pub ino: Ino,
    /// A fragment that has told nobody by a sync, if there is one: whatever the home shard knows was something else.
    pub untold: Option<FragmentIndex>,
}

/// All of them, and those that concern many files or the whole namespace.
pub trait Operations: Names + Contents {
    /// Opens regular files for reading, as [`Names::open`] does; gives their attributes, in order.
    fn open_all(&self, inos: &[Ino]) -> Vec<Result<Attr>>;

    /// The attributes of files and the names of their extended attributes, in order.
    fn survey(&self, inos: &[Ino]) -> Vec<Survey>;

    /// The beginnings of files, as (inode, length), in order; shorter where a file is. `None` where it is no less work
    /// than to read it by itself.
    fn read_all(&self, files: &[(Ino, usize)]) -> Vec<Option<Vec<u8>>>;

    /// As [`Contents::fsync`] of many files at once. After an error, each is to be synced by itself to know which it
    /// was.
    fn fsync_many(&self, inos: &[Ino]) -> Result<()>;

    /// Has the storage nodes' disks have what is in these files now. Those of which a disk has lost something;
    /// [`Operations::lost_writes`] knows of it unless a program was told.
    ///
    /// # Errors
    /// That of the request; EAGAIN: something was lost, and the home shard has not heard of it yet.
    fn flush(&self, inos: &[Ino]) -> Result<Vec<LostByDisk>>;

    /// How full the namespace's instance is.
    fn usage(&self) -> Result<Usage>;

    /// Files of which nobody knows whether they are what was written, as checksums of them were lost, with a fragment
    /// that has a part of them.
    fn unverified(&self) -> Result<Vec<(Ino, FragmentIndex)>>;

    /// Files that lost writes which no sync had confirmed, of which nobody was told, as far as the home shard keeps
    /// account of that; inode 0: any file may have, or names.
    fn lost_writes(&self) -> Result<Vec<Loss>>;
}
