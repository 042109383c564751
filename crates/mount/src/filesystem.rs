//! What the kernel can ask of a file system, in our own types.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use client::{Attr, Creator, DirEntry, Errno, FileKind, FileLock, Memory, SetAttr, Sharing, Usage};
use wire::data::message::{AllocateMode, RenameMode, XattrMode};

/// The result of an operation.
pub type Result<T> = std::result::Result<T, Errno>;

/// An inode to be made.
#[derive(Clone, Copy, Debug)]
pub struct NewInode<'a> {
    /// Anything but a regular file that is to be opened.
    pub kind: FileKind,
    /// Permission bits, `0..=0o7777`, before the creator's umask.
    pub mode: u32,
    /// Device number, for device nodes.
    pub rdev: u64,
    /// A symbolic link's text.
    pub target: &'a [u8],
    /// In whose name.
    pub creator: Creator,
}

/// Where `lseek` goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seek {
    /// To data.
    Data,
    /// To a hole.
    Hole,
}

/// A file system.
///
/// Changes come with a number, `id`. The same number is the same change, asked for once more by a process that goes on
/// for one that died, and must be done once.
pub trait FileSystem: Send + Sync + 'static {
    /// Who else uses it now, which says what the kernel may keep and decide by itself.
    fn sharing(&self) -> Sharing;
    /// The inode behind a name.
    fn lookup(&self, parent: u64, name: &[u8]) -> Result<Attr>;
    /// An inode's attributes.
    fn getattr(&self, ino: u64) -> Result<Attr>;
    /// Its permissions.
    fn mode(&self, ino: u64) -> Result<u32>;
    /// Changes attributes.
    fn setattr(&self, id: u64, ino: u64, set: &SetAttr) -> Result<Attr>;
    /// Makes an inode.
    fn make(&self, id: u64, parent: u64, name: &[u8], new: &NewInode<'_>) -> Result<Attr>;
    /// Makes a regular file, which must not exist, and opens it for writing. If `with_object`, the file itself comes
    /// along, as [`FileSystem::object`] gives it, where that costs nothing.
    fn create(
        &self,
        id: u64,
        parent: u64,
        name: &[u8],
        mode: u32,
        creator: &Creator,
        with_object: bool,
    ) -> Result<(Attr, Option<OwnedFd>)>;
    /// A symbolic link's text.
    fn readlink(&self, ino: u64) -> Result<Vec<u8>>;
    /// One more name for an inode.
    fn link(&self, id: u64, ino: u64, parent: u64, name: &[u8]) -> Result<Attr>;
    /// Takes a name away.
    fn unlink(&self, id: u64, parent: u64, name: &[u8]) -> Result<()>;
    /// Removes an empty directory.
    fn rmdir(&self, id: u64, parent: u64, name: &[u8]) -> Result<()>;
    /// Moves or swaps names.
    fn rename(
        &self,
        id: u64,
        parent: u64,
        name: &[u8],
        new_parent: u64,
        new_name: &[u8],
        mode: RenameMode,
    ) -> Result<()>;
    /// Opens a regular file; tells its permission bits.
    fn open(&self, ino: u64, write: bool) -> Result<u32>;
    /// Closes one handle.
    fn close(&self, ino: u64, write: bool) -> Result<()>;
    /// The file itself, for the kernel to use without us; ENOTSUP where that cannot be.
    fn object(&self, ino: u64) -> Result<OwnedFd>;
    /// Reads; fewer bytes at the end.
    fn read(&self, ino: u64, offset: u64, buffer: &mut [u8]) -> Result<usize>;
    /// Writes all of `bytes`.
    fn write(&self, ino: u64, offset: u64, bytes: &[u8]) -> Result<()>;
    /// Writes all of `bytes` at the file's end, wherever that is; the kernel believes at `offset`.
    fn append(&self, id: u64, ino: u64, offset: u64, bytes: &[u8]) -> Result<()>;
    /// Allocates, frees or zeroes a range.
    fn allocate(&self, ino: u64, offset: u64, len: u64, mode: AllocateMode) -> Result<()>;
    /// The next data or hole at or after `offset`; ENXIO past the end.
    fn seek(&self, ino: u64, offset: u64, to: Seek) -> Result<u64>;
    /// A number for a handle that is being opened, below 2^62: what was lost is told to each handle once.
    fn handle(&self) -> u64;
    /// Keeps what a successor must know of what was written and lost in `memory`.
    fn remember_in(&self, memory: Arc<dyn Memory>);
    /// Sends what is held back of a file. An error is told at fsync or close.
    fn settle(&self, ino: u64);
    /// A program closes one of its handles: errors of what was held back are told.
    fn flush(&self, ino: u64, handle: u64) -> Result<()>;
    /// Makes a file survive a power loss.
    fn fsync(&self, ino: u64, handle: u64) -> Result<()>;
    /// Makes names survive a power loss, for a handle on a folder.
    fn sync_metadata(&self, handle: u64) -> Result<()>;
    /// A page of entries after `cookie`, without `.` and `..`, each with whether its attributes are what `stat` tells:
    /// where they would have to be asked for, they are not.
    fn readdir(&self, ino: u64, cookie: u64) -> Result<Vec<(DirEntry, bool)>>;
    /// How full it is.
    fn usage(&self) -> Result<Usage>;
    /// An extended attribute.
    fn getxattr(&self, ino: u64, name: &[u8]) -> Result<Vec<u8>>;
    /// Sets one.
    fn setxattr(&self, id: u64, ino: u64, name: &[u8], value: &[u8], mode: XattrMode) -> Result<()>;
    /// Their names.
    fn listxattr(&self, ino: u64) -> Result<Vec<Vec<u8>>>;
    /// Removes one.
    fn removexattr(&self, id: u64, ino: u64, name: &[u8]) -> Result<()>;
    /// A lock that is in the way of this one.
    fn test_lock(&self, ino: u64, owner: u64, lock: &FileLock) -> Result<Option<FileLock>>;
    /// The same, waiting until it is known; EINTR when `cancelled` says so.
    fn wait_test_lock(
        &self,
        ino: u64,
        owner: u64,
        lock: &FileLock,
        cancelled: &dyn Fn() -> bool,
    ) -> Result<Option<FileLock>>;
    /// Takes, changes or gives up a lock; EAGAIN where another is in the way, EINPROGRESS where that is not known yet.
    fn set_lock(&self, ino: u64, owner: u64, lock: &FileLock) -> Result<()>;
    /// Takes a lock, waiting until it is known whether another is in the way and, if `blocking`, until none is; EINTR
    /// when `cancelled` says so.
    fn wait_lock(
        &self,
        ino: u64,
        owner: u64,
        lock: &FileLock,
        blocking: bool,
        cancelled: &dyn Fn() -> bool,
    ) -> Result<()>;
    /// Gives up all range locks of an owner on a file.
    fn release_locks(&self, ino: u64, owner: u64) -> Result<()>;
}
