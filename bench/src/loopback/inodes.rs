//! Inodes of the folder below, by the number that they have there.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::RwLock;

use fuse::abi::Attr;
use rustix::fs::{AtFlags, Mode, OFlags, Stat, statat};
use rustix::io::Errno;

/// The number of the root folder in FUSE.
const ROOT: u64 = 1;

/// Where each inode that the kernel may name is. The last name counts; what is gone stays, as the process lives only as
/// long as one benchmark.
pub struct Inodes {
    root: OwnedFd,
    paths: RwLock<HashMap<u64, PathBuf>>,
}

impl Inodes {
    /// Those of the folder `backing`.
    pub fn open(backing: &Path) -> Result<Inodes, Errno> {
        let root =
            rustix::fs::open(backing, OFlags::DIRECTORY | OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
        Ok(Inodes { root, paths: RwLock::new(HashMap::from([(ROOT, PathBuf::new())])) })
    }

    /// What paths begin at.
    pub fn root(&self) -> BorrowedFd<'_> {
        self.root.as_fd()
    }

    /// The path of an inode.
    pub fn path(&self, ino: u64) -> Result<PathBuf, Errno> {
        let paths = self.paths.read().map_err(|_| Errno::IO)?;
        paths.get(&ino).cloned().ok_or(Errno::STALE)
    }

    /// The path of a name in a folder.
    pub fn child(&self, parent: u64, name: &[u8]) -> Result<PathBuf, Errno> {
        Ok(self.path(parent)?.join(OsStr::from_bytes(name)))
    }

    /// What is at `path`, which the kernel may name from now on.
    pub fn found(&self, path: PathBuf) -> Result<Attr, Errno> {
        let attr = attr_of(&statat(&self.root, &path, AtFlags::SYMLINK_NOFOLLOW)?);
        self.paths.write().map_err(|_| Errno::IO)?.insert(attr.ino, path);
        Ok(attr)
    }

    /// An inode's attributes.
    pub fn attr(&self, ino: u64) -> Result<Attr, Errno> {
        let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::EMPTY_PATH;
        let attr = attr_of(&statat(&self.root, &self.path(ino)?, flags)?);
        Ok(Attr { ino, ..attr })
    }
}

#[expect(
    clippy::cast_sign_loss,
    clippy::cast_possible_truncation,
    reason = "times and devices as the protocol has them"
)]
fn attr_of(stat: &Stat) -> Attr {
    Attr {
        ino: stat.st_ino,
        size: stat.st_size as u64,
        blocks: stat.st_blocks as u64,
        atime: stat.st_atime as u64,
        mtime: stat.st_mtime as u64,
        ctime: stat.st_ctime as u64,
        atimensec: stat.st_atime_nsec as u32,
        mtimensec: stat.st_mtime_nsec as u32,
        ctimensec: stat.st_ctime_nsec as u32,
        mode: stat.st_mode,
        nlink: stat.st_nlink as u32,
        uid: stat.st_uid,
        gid: stat.st_gid,
        rdev: stat.st_rdev as u32,
        blksize: stat.st_blksize as u32,
        flags: 0,
    }
}
