//! The buffer side: [`Buffer`] makes a [`Source`] or a [`Target`] of what a client does in a buffer ([`Operations`]).
//!
//! The client library knows inodes, a stage knows paths; the numbers of folders are remembered here.
//!
//! **Invariant:** paths are relative to the namespace's root and hold no `..`.

mod ahead;
mod batch;
mod file;
mod resolve;

use std::collections::HashMap;
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use client::{LostByDisk, Node, Operations, RequestId, Usage};
use model::Ino;
use rustix::io::Errno;
use wire::control::Side;
use wire::data::message::{RenameMode, XattrMode};
use wire::data::{Attr, Creator, DirEntry, FileKind, ROOT, SetAttr};

use self::batch::BufferBatch;
use self::file::BufferFile;
use crate::lost::{Lost, What};
use crate::outside::Outside;
use crate::tree::{
    Batch, Found, Held, Listing, New, OpenFile, Opened, Placement, Result, Source, Survey, Target,
    TargetFile, Tree, Xattr, keeps_xattr, on_one_line, split,
};

/// Folders whose inode numbers are remembered; all are forgotten when there are more.
const FOLDERS_REMEMBERED_MAX: usize = 4096;

/// The buffer side of a stage.
pub struct Buffer<N> {
    namespace: Arc<N>,
    name: String,
    creator: Creator,
    folders: Mutex<HashMap<PathBuf, Ino>>,
}

impl<N: Operations> Buffer<N> {
    /// A tree over `namespace`, shown to users below `name`, as `$DW_JOB_STRIPED`. New entries belong to `creator`.
    pub fn new(namespace: impl Into<Arc<N>>, name: &str, creator: Creator) -> Buffer<N> {
        let name = name.trim_end_matches('/').to_owned();
        Buffer { namespace: namespace.into(), name, creator, folders: Mutex::default() }
    }

    /// The inode of the folder that holds `path`, and the name in it.
    fn parent<'p>(&self, path: &'p Path) -> Result<(Ino, &'p [u8])> {
        let (folder, name) = split(path)?;
        Ok((self.folder(folder)?, name.as_bytes()))
    }

    /// A folder's inode.
    fn folder(&self, path: &Path) -> Result<Ino> {
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
    fn kept(&self, ino: Ino, names: Vec<Vec<u8>>) -> Result<Vec<Xattr>> {
        let kept = names.into_iter().filter(|name| keeps_xattr(name));
        let read = kept.map(|name| self.namespace.getxattr(ino, &name).map(|value| (name, value)));
        // One that was removed meanwhile is none.
        read.filter(|read| !matches!(read, Err(Errno::NODATA))).collect()
    }

    fn remember(&self, folder: &Path, ino: Ino) {
        let mut folders = self.folders.lock().expect("no thread panics with the lock");
        if folders.len() >= FOLDERS_REMEMBERED_MAX {
            folders.clear();
        }
        folders.insert(folder.to_owned(), ino);
    }
}

impl<N: Operations + 'static> Tree for Buffer<N> {
    fn side(&self) -> Side {
        Side::Buffer
    }

    fn show(&self, path: &Path) -> String {
        format!("{}/{}", self.name, on_one_line(path))
    }

    // There is nothing else to reach.
    fn enter(&self, _folder: &Path) -> std::result::Result<(), Outside> {
        Ok(())
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
        self.namespace.open(file.attr.ino, false)?;
        Ok(Box::new(BufferFile::for_reading(self.namespace.clone(), file.attr.ino, None)))
    }
}

impl<N: Operations + 'static> Source for Buffer<N> {
    fn known(&self, ino: Ino, path: &Path) -> Result<Found> {
        let attr = self.namespace.getattr(ino)?;
        if attr.nlink == 0 { Err(Errno::NOENT) } else { Ok(found(path, attr)) }
    }

    fn open_all(&self, files: &[&Found]) -> Option<Vec<Result<Opened>>> {
        let inos: Vec<Ino> = files.iter().map(|file| file.attr.ino).collect();
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
        let inos: Vec<Ino> = files.iter().map(|file| file.attr.ino).collect();
        let found = self.namespace.survey(&inos).into_iter().zip(&inos);
        let survey = found.map(|((attr, names), ino)| Survey {
            attr,
            xattrs: names.and_then(|names| self.kept(*ino, names)),
        });
        Some(survey.collect())
    }

    fn read_link(&self, link: &Found) -> Result<PathBuf> {
        self.namespace.readlink(link.attr.ino).map(|text| OsString::from_vec(text).into())
    }

    fn is_written(&self, file: &Found) -> Result<bool> {
        self.namespace.is_written(file.attr.ino)
    }

    fn xattrs(&self, entry: &Found) -> Result<Vec<Xattr>> {
        let ino = entry.attr.ino;
        self.kept(ino, self.namespace.listxattr(ino)?)
    }

    // Nobody who copies from one asks.
    fn unkept_xattrs(&self, _entry: &Found) -> Result<Vec<Vec<u8>>> {
        Ok(Vec::new())
    }

    fn flush(&self, files: &[&Found]) -> Result<Vec<LostByDisk>> {
        let inos: Vec<Ino> = files.iter().map(|file| file.attr.ino).collect();
        self.namespace.flush(&inos)
    }

    fn unverified(&self) -> Result<HashMap<Ino, Lost>> {
        let lost = |fragment, what| Lost { fragment, what };
        let writes = self.namespace.lost_writes()?.into_iter();
        let writes = writes.map(|l| (l.of.ino, lost(l.of.fragment, What::Writes { since: l.seconds })));
        let checksums = self.namespace.unverified()?.into_iter();
        let checksums = checksums.map(|(ino, fragment)| (ino, lost(fragment, What::Checksums)));
        Ok(writes.chain(checksums).collect())
    }
}

impl<N: Operations + 'static> Target for Buffer<N> {
    fn placement(&self) -> Placement {
        Placement::InPlace
    }

    fn reopen(&self, file: &Found) -> Result<Box<dyn TargetFile>> {
        self.namespace.open(file.attr.ino, true)?;
        Ok(Box::new(BufferFile::for_writing(self.namespace.clone(), file.attr.ino)))
    }

    fn create(&self, path: &Path) -> Result<(Found, Box<dyn TargetFile>)> {
        let (parent, name) = self.parent(path)?;
        let attr = self.namespace.create(RequestId::New, parent, name, 0o600, &self.creator)?;
        Ok((found(path, attr), Box::new(BufferFile::for_writing(self.namespace.clone(), attr.ino))))
    }

    fn make(&self, path: &Path, new: New<'_>) -> Result<(Found, Held)> {
        let (parent, name) = self.parent(path)?;
        let attr = match new {
            New::Folder(mode) => {
                let attr = self.namespace.mkdir(RequestId::New, parent, name, mode, &self.creator)?;
                self.remember(path, attr.ino);
                attr
            }
            New::Symlink(text) => self.namespace.symlink(
                RequestId::New,
                parent,
                name,
                text.as_os_str().as_bytes(),
                &self.creator,
            )?,
            New::Node { kind, rdev } => self.namespace.mknod(
                RequestId::New,
                parent,
                name,
                &Node { kind, mode: 0o600, rdev },
                &self.creator,
            )?,
        };
        Ok((found(path, attr), None))
    }

    fn link(&self, existing: &Found, path: &Path) -> Result<Held> {
        let (parent, name) = self.parent(path)?;
        self.namespace.link(RequestId::New, existing.attr.ino, parent, name).map(|_| None)
    }

    fn rename(&self, _folder: &Found, entry: &Found, to: &Path) -> Result<()> {
        let ((parent, name), (new_parent, new_name)) = (self.parent(&entry.path)?, self.parent(to)?);
        self.namespace.rename(RequestId::New, parent, name, new_parent, new_name, RenameMode::Replace)
    }

    fn remove(&self, path: &Path) -> Result<()> {
        let (parent, name) = self.parent(path)?;
        self.namespace.unlink(RequestId::New, parent, name)
    }

    fn remove_folder(&self, path: &Path) -> Result<()> {
        let (parent, name) = self.parent(path)?;
        self.namespace.rmdir(RequestId::New, parent, name)
    }

    fn sync_folder(&self, _path: &Path) -> Result<()> {
        self.namespace.sync_metadata()
    }

    fn begin_batch(&self, _folder: &Found) -> Result<Option<Box<dyn Batch>>> {
        Ok(Some(Box::new(BufferBatch(self.namespace.clone()))))
    }

    fn set(&self, entry: &Found, change: &SetAttr) -> Result<()> {
        self.namespace.setattr(RequestId::New, entry.attr.ino, change).map(drop)
    }

    fn set_xattr(&self, entry: &Found, (name, value): &Xattr) -> Result<()> {
        self.namespace.setxattr(RequestId::New, entry.attr.ino, name, value, XattrMode::Any)
    }

    // A folder in a buffer that hands down access lists was made so for this job: what is staged in has them, too.
    fn disinherit(&self, _entry: &Found, _kept: &[Xattr]) -> Result<()> {
        Ok(())
    }

    fn usage(&self) -> Option<Usage> {
        self.namespace.usage().ok()
    }
}

fn found(path: &Path, attr: Attr) -> Found {
    Found { path: path.to_owned(), device: 0, attr, since: Instant::now() }
}
