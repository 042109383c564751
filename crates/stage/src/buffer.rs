//! The buffer side: [`Namespace`] is what a stage needs of a buffer's file tree, [`Buffer`] makes a [`Tree`] of it.
//!
//! The client library knows inodes, a stage knows paths; the numbers of folders are remembered here.
//!
//! **Invariant:** paths are relative to the namespace's root and hold no `..`.

mod batch;
mod file;
mod remote;
mod resolve;

use std::collections::HashMap;
use std::ffi::OsString;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use rustix::io::Errno;
use wire::control::Side;
use wire::data::{Attr, Creator, DirEntry, FileKind, ROOT, SetAttr, Time};

use self::batch::BufferBatch;
use self::file::BufferFile;
use crate::tree::{
    Batch, Found, Listing, New, OpenFile, Opened, Placement, Result, Survey, Tree, Usage, Xattr, keeps_xattr,
    on_one_line, split,
};

/// What of a batch of files is read when they are opened, bytes: of each file at most, and together.
const AHEAD_EACH_MAX: u64 = 64 << 10;
const AHEAD_MAX: u64 = 1 << 20;

/// Folders whose inode numbers are remembered; all are forgotten when there are more.
const FOLDERS_REMEMBERED_MAX: usize = 4096;

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
    fn open(&self, ino: u64) -> Result<()>;
    /// Opens files for reading; gives their attributes, in order.
    fn open_all(&self, inos: &[u64]) -> Vec<Result<Attr>> {
        inos.iter().map(|ino| self.open(*ino).and_then(|()| self.getattr(*ino))).collect()
    }
    /// The beginnings of files, as (inode, length), in order, where that is less work than reading each by itself.
    fn read_all(&self, files: &[(u64, usize)]) -> Vec<Option<Vec<u8>>> {
        files.iter().map(|_| None).collect()
    }
    /// Attributes and names of extended attributes of files, in order.
    fn survey(&self, inos: &[u64]) -> Vec<client::Survey> {
        inos.iter().map(|ino| (self.getattr(*ino), self.listxattr(*ino))).collect()
    }
    /// Opens a file for writing.
    fn reopen(&self, ino: u64) -> Result<()>;
    /// Closes what `create` and `reopen` (`write`) or `open` opened.
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

/// The buffer side of a stage.
pub struct Buffer<N> {
    namespace: Arc<N>,
    name: String,
    creator: Creator,
    folders: Mutex<HashMap<PathBuf, u64>>,
}

impl<N: Namespace> Buffer<N> {
    /// A tree over `namespace`, shown to users below `name`, as `$DW_JOB_STRIPED`. New entries belong to `creator`.
    pub fn new(namespace: impl Into<Arc<N>>, name: &str, creator: Creator) -> Buffer<N> {
        let name = name.trim_end_matches('/').to_owned();
        Buffer { namespace: namespace.into(), name, creator, folders: Mutex::default() }
    }

    /// The inode of the folder that holds `path`, and the name in it.
    fn parent<'p>(&self, path: &'p Path) -> Result<(u64, &'p [u8])> {
        let (folder, name) = split(path)?;
        Ok((self.folder(folder)?, name.as_bytes()))
    }

    /// A folder's inode.
    fn folder(&self, path: &Path) -> Result<u64> {
        if path.as_os_str().is_empty() {
            return Ok(ROOT);
        }
        if let Some(ino) = self.folders.lock().expect("no thread panics with the lock").get(path) {
            return Ok(*ino);
        }
        let (parent, name) = self.parent(path)?;
        let attr = self.namespace.lookup(parent, name)?;
        if attr.kind != FileKind::Directory {
            return Err(Errno::NOTDIR);
        }
        self.remember(path, attr.ino);
        Ok(attr.ino)
    }

    /// The extended attributes that a stage keeps of an inode that has these.
    fn kept(&self, ino: u64, names: Vec<Vec<u8>>) -> Result<Vec<Xattr>> {
        let kept = names.into_iter().filter(|name| keeps_xattr(name));
        let read = kept.map(|name| self.namespace.getxattr(ino, &name).map(|value| (name, value)));
        // One that was removed meanwhile is none.
        read.filter(|read| !matches!(read, Err(Errno::NODATA))).collect()
    }

    /// The contents of the files that are worth reading together, by their places; what cannot be read is read again
    /// when it is copied.
    fn read_ahead(&self, opened: &[Result<Attr>]) -> HashMap<usize, Vec<u8>> {
        let mut left = AHEAD_MAX;
        let mut chosen = Vec::new();
        for (place, attr) in opened.iter().enumerate() {
            let Ok(attr) = attr else { continue };
            if (1..=AHEAD_EACH_MAX.min(left)).contains(&attr.size) {
                left -= attr.size;
                chosen.push((place, attr.ino, usize::try_from(attr.size).expect("at most AHEAD_EACH_MAX")));
            }
        }
        let files: Vec<(u64, usize)> = chosen.iter().map(|(_, ino, length)| (*ino, *length)).collect();
        let read = chosen.iter().zip(self.namespace.read_all(&files));
        let whole = read.filter_map(|((place, _, length), bytes)| {
            bytes.filter(|bytes| bytes.len() == *length).map(|bytes| (*place, bytes))
        });
        whole.collect()
    }

    fn remember(&self, folder: &Path, ino: u64) {
        let mut folders = self.folders.lock().expect("no thread panics with the lock");
        if folders.len() >= FOLDERS_REMEMBERED_MAX {
            folders.clear();
        }
        folders.insert(folder.to_owned(), ino);
    }
}

impl<N: Namespace + 'static> Tree for Buffer<N> {
    fn side(&self) -> Side {
        Side::Buffer
    }

    fn show(&self, path: &Path) -> String {
        format!("{}/{}", self.name, on_one_line(path))
    }

    fn placement(&self) -> Placement {
        Placement::InPlace
    }

    fn find(&self, path: &Path) -> Result<Found> {
        let attr = if path.as_os_str().is_empty() {
            self.namespace.getattr(ROOT)?
        } else {
            let (parent, name) = self.parent(path)?;
            self.namespace.lookup(parent, name)?
        };
        Ok(found(path, attr))
    }

    fn locate(&self, path: &Path) -> Result<Found> {
        resolve::resolve(self, path)
    }

    fn known(&self, ino: u64, path: &Path) -> Result<Found> {
        let attr = self.namespace.getattr(ino)?;
        if attr.nlink == 0 { Err(Errno::NOENT) } else { Ok(found(path, attr)) }
    }

    fn list<'a>(&'a self, folder: &Found) -> Result<Listing<'a>> {
        let (ino, path) = (folder.attr.ino, folder.path.clone());
        let (mut page, mut cookie, mut broken) = (Vec::new().into_iter(), 0, false);
        Ok(Box::new(std::iter::from_fn(move || {
            if page.len() == 0 && !broken {
                match self.namespace.readdir(ino, cookie) {
                    Ok(entries) => page = entries.into_iter(),
                    Err(error) => {
                        broken = true;
                        return Some(Err((path.clone(), error)));
                    }
                }
            }
            let DirEntry { cookie: after, name, attr } = page.next()?;
            cookie = after;
            Some(Ok(found(&path.join(OsString::from_vec(name)), attr)))
        })))
    }

    fn open(&self, file: &Found) -> Result<Box<dyn OpenFile>> {
        self.namespace.open(file.attr.ino)?;
        Ok(Box::new(BufferFile::for_reading(self.namespace.clone(), file.attr.ino, None)))
    }

    fn open_all(&self, files: &[&Found]) -> Option<Vec<Result<Opened>>> {
        let inos: Vec<u64> = files.iter().map(|file| file.attr.ino).collect();
        let opened = self.namespace.open_all(&inos);
        let mut ahead = self.read_ahead(&opened);
        let file = |(place, opened): (usize, Result<Attr>)| -> Result<Opened> {
            let attr = opened?;
            let file = BufferFile::for_reading(self.namespace.clone(), inos[place], ahead.remove(&place));
            Ok((attr, Box::new(file)))
        };
        Some(opened.into_iter().enumerate().map(file).collect())
    }

    fn survey(&self, files: &[&Found]) -> Option<Vec<Survey>> {
        let inos: Vec<u64> = files.iter().map(|file| file.attr.ino).collect();
        let found = self.namespace.survey(&inos).into_iter().zip(&inos);
        let survey = found.map(|((attr, names), ino)| Survey {
            attr,
            xattrs: names.and_then(|names| self.kept(*ino, names)),
        });
        Some(survey.collect())
    }

    fn reopen(&self, file: &Found) -> Result<Box<dyn OpenFile>> {
        self.namespace.reopen(file.attr.ino)?;
        Ok(Box::new(BufferFile::for_writing(self.namespace.clone(), file.attr.ino)))
    }

    fn create(&self, path: &Path) -> Result<(Found, Box<dyn OpenFile>)> {
        let (parent, name) = self.parent(path)?;
        let attr = self.namespace.create(parent, name, 0o600, &self.creator)?;
        Ok((found(path, attr), Box::new(BufferFile::for_writing(self.namespace.clone(), attr.ino))))
    }

    fn read_link(&self, link: &Found) -> Result<PathBuf> {
        self.namespace.readlink(link.attr.ino).map(|text| OsString::from_vec(text).into())
    }

    fn make(&self, path: &Path, new: New<'_>) -> Result<Found> {
        let (parent, name) = self.parent(path)?;
        let attr = match new {
            New::Folder(mode) => {
                let attr = self.namespace.mkdir(parent, name, mode, &self.creator)?;
                self.remember(path, attr.ino);
                attr
            }
            New::Symlink(text) => {
                self.namespace.symlink(parent, name, text.as_os_str().as_bytes(), &self.creator)?
            }
            New::Node { kind, rdev } => self.namespace.mknod(parent, name, kind, rdev, &self.creator)?,
        };
        Ok(found(path, attr))
    }

    fn link(&self, existing: &Found, path: &Path) -> Result<()> {
        let (parent, name) = self.parent(path)?;
        self.namespace.link(existing.attr.ino, parent, name).map(drop)
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        let ((parent, name), (new_parent, new_name)) = (self.parent(from)?, self.parent(to)?);
        self.namespace.rename(parent, name, new_parent, new_name)
    }

    fn remove(&self, path: &Path) -> Result<()> {
        let (parent, name) = self.parent(path)?;
        self.namespace.unlink(parent, name)
    }

    fn begin_batch(&self, _folder: &Found) -> Result<Option<Box<dyn Batch>>> {
        Ok(Some(Box::new(BufferBatch(self.namespace.clone()))))
    }

    fn is_written(&self, file: &Found) -> Result<bool> {
        self.namespace.is_written(file.attr.ino)
    }

    fn sync_folder(&self, _path: &Path) -> Result<()> {
        self.namespace.sync_metadata()
    }

    fn set(&self, entry: &Found, change: &SetAttr) -> Result<()> {
        self.namespace.setattr(entry.attr.ino, change).map(drop)
    }

    fn xattrs(&self, entry: &Found) -> Result<Vec<Xattr>> {
        let ino = entry.attr.ino;
        self.kept(ino, self.namespace.listxattr(ino)?)
    }

    fn set_xattr(&self, entry: &Found, (name, value): &Xattr) -> Result<()> {
        self.namespace.setxattr(entry.attr.ino, name, value)
    }

    fn usage(&self) -> Option<Usage> {
        self.namespace.usage().ok()
    }

    fn unverified(&self) -> Result<HashMap<u64, u32>> {
        Ok(self.namespace.unverified()?.into_iter().collect())
    }
}

fn found(path: &Path, attr: Attr) -> Found {
    Found { path: path.to_owned(), device: 0, attr, since: Instant::now() }
}
