//! What a stage needs of a buffer's file tree.

use std::ops::Range;
use std::os::fd::OwnedFd;

use rustix::io::Errno;
use wire::data::{Attr, Creator, DirEntry, FileKind, SetAttr, Time};

use crate::tree::{Result, Usage};

/// The operations that a stage needs of a buffer. Numbers, names and errors mean what they mean in POSIX.
#[expect(missing_docs, reason = "each is the POSIX call of its name")]
pub trait Namespace: Send + Sync {
    fn lookup(&self, parent: u64, name: &[u8]) -> Result<Attr>;
    fn getattr(&self, ino: u64) -> Result<Attr>;
    fn setattr(&self, ino: u64, set: &SetAttr) -> Result<Attr>;
    fn mkdir(&self, parent: u64, name: &[u8], mode: u32, creator: &Creator) -> Result<Attr>;
    /// Makes a pipe, socket or device node.
    fn mknod(&self, parent: u64, name: &[u8], kind: FileKind, rdev: u64, creator: &Creator) -> Result<Attr>;
    fn symlink(&self, parent: u64, name: &[u8], target: &[u8], creator: &Creator) -> Result<Attr>;
    fn link(&self, ino: u64, parent: u64, name: &[u8]) -> Result<Attr>;
    /// Makes a regular file that must not exist; it is then open for writing.
    fn create(&self, parent: u64, name: &[u8], mode: u32, creator: &Creator) -> Result<Attr>;
    fn open(&self, ino: u64, write: bool) -> Result<()>;
    /// Opens files for reading; gives their attributes, in order.
    fn open_all(&self, inos: &[u64]) -> Vec<Result<Attr>> {
        inos.iter().map(|ino| self.open(*ino, false).and_then(|()| self.getattr(*ino))).collect()
    }
    /// The beginnings of files, as (inode, length), in order, where that is less work than reading each by itself.
    fn read_all(&self, files: &[(u64, usize)]) -> Vec<Option<Vec<u8>>> {
        files.iter().map(|_| None).collect()
    }
    /// Attributes and names of extended attributes of files, in order.
    fn survey(&self, inos: &[u64]) -> Vec<client::Survey> {
        inos.iter().map(|ino| (self.getattr(*ino), self.listxattr(*ino))).collect()
    }
    /// Closes what `create` (`write`) or `open` opened.
    fn close(&self, ino: u64, write: bool) -> Result<()>;
    fn read(&self, ino: u64, offset: u64, buffer: &mut [u8]) -> Result<usize>;
    fn write(&self, ino: u64, offset: u64, bytes: &[u8]) -> Result<()>;
    /// The next range that holds data at or after `offset`; `None`: only a hole to the end.
    fn next_data(&self, ino: u64, offset: u64) -> Result<Option<Range<u64>>>;
    /// Where the next hole at or after `offset` begins; `size`, the file's, where there is none before its end.
    fn next_hole(&self, ino: u64, offset: u64, size: u64) -> Result<u64>;
    /// Makes a file's contents survive a power loss.
    fn fsync(&self, ino: u64) -> Result<()>;
    /// The same for many files.
    fn fsync_many(&self, inos: &[u64]) -> Result<()> {
        inos.iter().try_for_each(|ino| self.fsync(*ino))
    }
    /// Makes every name and attribute set so far survive a power loss.
    fn sync_metadata(&self) -> Result<()>;
    /// Where a range of a file lies, if that is in one object: its fragment, and the offset there.
    fn place(&self, _ino: u64, _offset: u64, _len: u64) -> Option<(u32, u64)> {
        None
    }
    /// The object of a file on a fragment, open for reading and writing, where that is on this host. ENOENT: nothing
    /// was written to it yet.
    fn object(&self, _ino: u64, _fragment: u32) -> Result<OwnedFd> {
        Err(Errno::NOTSUP)
    }
    /// Bytes up to `end` of a file were written to an object of it, whose time of change is `mtime`.
    fn wrote(&self, _ino: u64, _end: u64, _mtime: Time) {}
    /// Whether somebody has it open for writing, or may have.
    fn is_written(&self, _ino: u64) -> Result<bool> {
        Ok(false)
    }
    fn unlink(&self, parent: u64, name: &[u8]) -> Result<()>;
    fn rmdir(&self, parent: u64, name: &[u8]) -> Result<()>;
    fn rename(&self, parent: u64, name: &[u8], new_parent: u64, new_name: &[u8]) -> Result<()>;
    /// A page of entries after `cookie` (0: from the start), without `.` and `..`; empty at the end.
    fn readdir(&self, ino: u64, cookie: u64) -> Result<Vec<DirEntry>>;
    fn readlink(&self, ino: u64) -> Result<Vec<u8>>;
    fn getxattr(&self, ino: u64, name: &[u8]) -> Result<Vec<u8>>;
    fn setxattr(&self, ino: u64, name: &[u8], value: &[u8]) -> Result<()>;
    fn listxattr(&self, ino: u64) -> Result<Vec<Vec<u8>>>;
    /// How full the buffer is.
    fn usage(&self) -> Result<Usage>;
    /// Files whose checksums were lost, each with a fragment that has a part of it.
    fn unverified(&self) -> Result<Vec<(u64, u32)>> {
        Ok(Vec::new())
    }
}
