//! A plain folder that plays a buffer, and fails on demand.

mod contents;

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File, Metadata};
use std::os::unix::{ffi::OsStrExt, fs::MetadataExt, fs::PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64, Ordering::Relaxed};

use client::{Names, Node, RequestId, Result};
use model::Ino;
use rustix::fs::{AtFlags, CWD, FileType, Gid, Mode, Timespec, Timestamps, Uid, XattrFlags};
use rustix::io::Errno;
use wire::data::message::{RenameMode, XattrMode};
use wire::data::{Attr, Creator, DirEntry, FileKind, ROOT, SetAttr, Time};

use super::faulty_pfs::Event;

/// Is told how many files are made so far.
pub type Hook = Box<dyn Fn(u64) + Send>;

/// What is to go wrong.
#[derive(Default)]
pub struct Faults {
    /// Bytes that can still be written before ENOSPC; `None`: no limit.
    pub room: Mutex<Option<u64>>,
    /// The checksums of these files were lost.
    pub unverified: Mutex<Vec<Ino>>,
    /// These lost writes.
    pub lost_writes: Mutex<Vec<Ino>>,
    /// A disk could not write these back, and nobody has noticed yet.
    pub lost_by_disk: Mutex<Vec<Ino>>,
    /// So many reads fail with EIO; negative: all.
    pub failing_reads: AtomicI64,
    /// So many writes fail with EIO; negative: all.
    pub failing_writes: AtomicI64,
    /// So many fsyncs of files fail with EIO; negative: all.
    pub failing_syncs: AtomicI64,
    /// What such an fsync was to bring to the disk is lost, as with a storage node that lost its power.
    pub lossy_syncs: AtomicBool,
    /// Reads of the file with this name come back with one bit flipped.
    pub flipped: Mutex<Option<String>>,
    /// Times are those of the last tick of a clock that ticks so often; 0: each change has its own.
    pub tick_ns: AtomicU32,
    /// How far that clock is ahead of this host's.
    pub clock_ahead_s: AtomicI64,
    /// `setxattr` fails with ENOTSUP.
    pub no_xattrs: AtomicBool,
    /// Files made so far.
    pub files_made: AtomicU64,
    /// Is called after each file that is made.
    pub after_create: Mutex<Option<Hook>>,
    /// What happens after the first read of the file with this name.
    pub after_read: Mutex<Option<(OsString, Event)>>,
}

/// Inode numbers are those of the folder's files; the root is [`ROOT`].
pub struct FolderNamespace {
    root: PathBuf,
    paths: Mutex<HashMap<Ino, PathBuf>>,
    faults: std::sync::Arc<Faults>,
}

impl FolderNamespace {
    pub fn new(root: &Path, faults: std::sync::Arc<Faults>) -> FolderNamespace {
        FolderNamespace { root: root.to_owned(), paths: Mutex::default(), faults }
    }

    fn path(&self, ino: Ino) -> Result<PathBuf> {
        if ino == ROOT {
            return Ok(self.root.clone());
        }
        let path = self.paths.lock().unwrap().get(&ino).cloned().ok_or(Errno::STALE)?;
        // Another file may have the name now.
        let is_it = fs::symlink_metadata(&path).is_ok_and(|found| Ino::from(found.ino()) == ino);
        if is_it { Ok(path) } else { Err(Errno::STALE) }
    }

    fn child(&self, parent: Ino, name: &[u8]) -> Result<PathBuf> {
        assert!(!name.is_empty() && !name.contains(&b'/'), "{name:?} is no name");
        Ok(self.path(parent)?.join(OsStr::from_bytes(name)))
    }

    /// Attributes as a file system with a coarse clock gives them.
    fn stamped(&self, metadata: &Metadata) -> Attr {
        let attr = attributes(metadata);
        let (ns, ahead) = (self.faults.tick_ns.load(Relaxed).max(1), self.faults.clock_ahead_s.load(Relaxed));
        let coarse = |time: Time| Time { seconds: time.seconds + ahead, nanos: time.nanos - time.nanos % ns };
        Attr { mtime: coarse(attr.mtime), ctime: coarse(attr.ctime), ..attr }
    }

    fn attr_of(&self, path: PathBuf) -> Result<Attr> {
        let attr = self.stamped(&fs::symlink_metadata(&path).map_err(errno)?);
        self.paths.lock().unwrap().insert(attr.ino, path);
        Ok(attr)
    }

    fn own(&self, path: PathBuf, creator: &Creator) -> Result<Attr> {
        let (uid, gid) = (Uid::from_raw(creator.uid), Gid::from_raw(creator.gid));
        rustix::fs::chownat(CWD, &path, Some(uid), Some(gid), AtFlags::SYMLINK_NOFOLLOW)?;
        self.attr_of(path)
    }
}

impl Names for FolderNamespace {
    fn lookup(&self, parent: Ino, name: &[u8]) -> Result<Attr> {
        self.attr_of(self.child(parent, name)?)
    }

    fn getattr(&self, ino: Ino) -> Result<Attr> {
        let metadata = fs::symlink_metadata(self.path(ino)?).map_err(errno)?;
        Ok(Attr { ino, ..self.stamped(&metadata) })
    }

    fn setattr(&self, _id: RequestId, ino: Ino, set: &SetAttr) -> Result<Attr> {
        let path = self.path(ino)?;
        if set.uid.is_some() || set.gid.is_some() {
            let (uid, gid) = (set.uid.map(Uid::from_raw), set.gid.map(Gid::from_raw));
            rustix::fs::chownat(CWD, &path, uid, gid, AtFlags::SYMLINK_NOFOLLOW)?;
        }
        if let Some(mode) = set.mode {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).map_err(errno)?;
        }
        if let Some(size) = set.size {
            File::options().write(true).open(&path).and_then(|file| file.set_len(size)).map_err(errno)?;
        }
        let timespec = |time: Option<Time>| match time {
            Some(time) => Timespec { tv_sec: time.seconds, tv_nsec: time.nanos.into() },
            None => Timespec { tv_sec: 0, tv_nsec: rustix::fs::UTIME_OMIT },
        };
        let times = Timestamps { last_access: timespec(set.atime), last_modification: timespec(set.mtime) };
        rustix::fs::utimensat(CWD, &path, &times, AtFlags::SYMLINK_NOFOLLOW)?;
        self.getattr(ino)
    }

    fn mkdir(&self, _id: RequestId, parent: Ino, name: &[u8], mode: u32, creator: &Creator) -> Result<Attr> {
        let path = self.child(parent, name)?;
        rustix::fs::mkdir(&path, Mode::from_raw_mode(mode))?;
        self.own(path, creator)
    }

    fn mknod(
        &self,
        _id: RequestId,
        parent: Ino,
        name: &[u8],
        node: &Node,
        creator: &Creator,
    ) -> Result<Attr> {
        let path = self.child(parent, name)?;
        let kind = match node.kind {
            FileKind::Fifo => FileType::Fifo,
            FileKind::Socket => FileType::Socket,
            FileKind::CharDevice => FileType::CharacterDevice,
            FileKind::BlockDevice => FileType::BlockDevice,
            other => panic!("mknod of {other:?}"),
        };
        rustix::fs::mknodat(CWD, &path, kind, Mode::from_raw_mode(node.mode), node.rdev)?;
        self.own(path, creator)
    }

    fn symlink(
        &self,
        _id: RequestId,
        parent: Ino,
        name: &[u8],
        target: &[u8],
        creator: &Creator,
    ) -> Result<Attr> {
        let path = self.child(parent, name)?;
        std::os::unix::fs::symlink(OsStr::from_bytes(target), &path).map_err(errno)?;
        self.own(path, creator)
    }

    fn link(&self, _id: RequestId, ino: Ino, parent: Ino, name: &[u8]) -> Result<Attr> {
        let path = self.child(parent, name)?;
        fs::hard_link(self.path(ino)?, &path).map_err(errno)?;
        self.attr_of(path)
    }

    fn create(&self, _id: RequestId, parent: Ino, name: &[u8], mode: u32, creator: &Creator) -> Result<Attr> {
        let path = self.child(parent, name)?;
        let file = File::options().write(true).create_new(true).open(&path).map_err(errno)?;
        file.set_permissions(fs::Permissions::from_mode(mode)).map_err(errno)?;
        let made = self.faults.files_made.fetch_add(1, Relaxed) + 1;
        if let Some(hook) = &*self.faults.after_create.lock().unwrap() {
            hook(made);
        }
        self.own(path, creator)
    }

    fn open(&self, ino: Ino, _write: bool) -> Result<u32> {
        Ok(self.getattr(ino)?.mode)
    }

    fn close(&self, _ino: Ino, _write: bool) -> Result<()> {
        Ok(())
    }

    fn unlink(&self, _id: RequestId, parent: Ino, name: &[u8]) -> Result<()> {
        fs::remove_file(self.child(parent, name)?).map_err(errno)
    }

    fn rmdir(&self, _id: RequestId, parent: Ino, name: &[u8]) -> Result<()> {
        fs::remove_dir(self.child(parent, name)?).map_err(errno)
    }

    fn rename(
        &self,
        _id: RequestId,
        parent: Ino,
        name: &[u8],
        new_parent: Ino,
        new_name: &[u8],
        _mode: RenameMode,
    ) -> Result<()> {
        fs::rename(self.child(parent, name)?, self.child(new_parent, new_name)?).map_err(errno)
    }

    fn readlink(&self, ino: Ino) -> Result<Vec<u8>> {
        let text = fs::read_link(self.path(ino)?).map_err(errno)?;
        Ok(text.as_os_str().as_bytes().to_vec())
    }

    /// Pages of two entries, so that paging is tested too; the cookie is an index.
    fn readdir(&self, ino: Ino, cookie: u64) -> Result<Vec<DirEntry>> {
        let entries = fs::read_dir(self.path(ino)?).map_err(errno)?;
        let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
        paths.sort();
        let page = paths.into_iter().enumerate().skip(cookie as usize).take(2);
        page.map(|(index, path)| {
            let name = path.file_name().unwrap().as_bytes().to_vec();
            Ok(DirEntry { cookie: index as u64 + 1, name, attr: self.attr_of(path)? })
        })
        .collect()
    }

    fn getxattr(&self, ino: Ino, name: &[u8]) -> Result<Vec<u8>> {
        let mut value = vec![0; 4096];
        let length = rustix::fs::lgetxattr(self.path(ino)?, name, value.as_mut_slice())?;
        value.truncate(length);
        Ok(value)
    }

    fn setxattr(&self, _id: RequestId, ino: Ino, name: &[u8], value: &[u8], _mode: XattrMode) -> Result<()> {
        if self.faults.no_xattrs.load(Relaxed) {
            return Err(Errno::NOTSUP);
        }
        rustix::fs::lsetxattr(self.path(ino)?, name, value, XattrFlags::empty())
    }

    fn listxattr(&self, ino: Ino) -> Result<Vec<Vec<u8>>> {
        let mut names = vec![0; 4096];
        let length = rustix::fs::llistxattr(self.path(ino)?, names.as_mut_slice())?;
        names.truncate(length);
        Ok(names.split(|byte| *byte == 0).filter(|name| !name.is_empty()).map(<[u8]>::to_vec).collect())
    }

    fn removexattr(&self, _id: RequestId, ino: Ino, name: &[u8]) -> Result<()> {
        rustix::fs::lremovexattr(self.path(ino)?, name)
    }

    fn sync_metadata(&self) -> Result<()> {
        Ok(())
    }
}

pub fn attributes(metadata: &Metadata) -> Attr {
    let kind = match metadata.mode() & 0o170_000 {
        0o040_000 => FileKind::Directory,
        0o120_000 => FileKind::Symlink,
        0o010_000 => FileKind::Fifo,
        0o140_000 => FileKind::Socket,
        0o020_000 => FileKind::CharDevice,
        0o060_000 => FileKind::BlockDevice,
        _ => FileKind::Regular,
    };
    let time = |seconds, nanos: i64| Time { seconds, nanos: nanos as u32 };
    Attr {
        ino: metadata.ino().into(),
        kind,
        mode: metadata.mode() & 0o7777,
        nlink: metadata.nlink() as u32,
        uid: metadata.uid(),
        gid: metadata.gid(),
        rdev: metadata.rdev(),
        size: metadata.size(),
        blocks: metadata.blocks(),
        atime: time(metadata.atime(), metadata.atime_nsec()),
        mtime: time(metadata.mtime(), metadata.mtime_nsec()),
        ctime: time(metadata.ctime(), metadata.ctime_nsec()),
    }
}

fn errno(error: std::io::Error) -> Errno {
    Errno::from_io_error(&error).unwrap()
}
