//! The PFS: any mounted file system, reached by path with the rights of the calling thread.
//!
//! **Invariant:** nothing is opened or changed through a symbolic link, but for those on the way to a folder that the
//! user names ([`Tree::enter`], [`Tree::locate`]). Whoever puts a link in the place of a folder leads nobody elsewhere.

mod attr;
mod batch;
mod file;
mod roots;
mod stores;
mod xattrs;

use std::fs::{self, File};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use disk::below::{Place, Root, by_descriptor};
use rustix::fs::{AtFlags, CWD, Mode, OFlags, Timestamps, XattrFlags};
use rustix::fs::{Gid, Uid};
use rustix::io::Errno;
use wire::control::Side;
use wire::data::{FileKind, SetAttr};

pub(crate) use self::attr::attributes;
use self::attr::{node_type, timespec};
pub use self::file::PfsFile;
use self::roots::Roots;
use crate::outside::Outside;
use crate::tree::{
    Batch, Found, Listing, New, OpenFile, Placement, Result, Source, Target, TargetFile, Tree, Xattr,
    on_one_line, split,
};

/// A descriptor that stands for an entry only, also for a symbolic link itself.
const ENTRY: OFlags = OFlags::PATH.union(OFlags::NOFOLLOW);

/// To read a folder, or have it synced.
const FOLDER: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY);

/// The PFS side of a stage.
#[derive(Clone, Debug, Default)]
pub struct Pfs {
    roots: Arc<Roots>,
}

impl Pfs {
    /// That of which stages may reach what is below these folders; all of it, if there are none.
    pub fn within(limits: &[PathBuf]) -> Pfs {
        Pfs { roots: Arc::new(Roots::within(limits)) }
    }

    /// Below a folder whose path is free of links: whichever is there when a name is reached.
    pub fn at(folder: &Path) -> Pfs {
        let pfs = Pfs::default();
        pfs.roots.add(Root::at(folder)).expect("nothing limits it");
        pfs
    }

    /// Opens a regular file for reading: [`Tree::open`].
    ///
    /// # Errors
    /// The file system's; STALE where it is not a regular file any more.
    pub fn open_file(&self, file: &Found) -> Result<PfsFile> {
        let opened = self.open_regular(&file.path, OFlags::RDONLY)?;
        stores::stamp_from_now_on(opened.file());
        Ok(opened)
    }

    /// Opens a file that must be a regular one.
    fn open_regular(&self, path: &Path, access: OFlags) -> Result<PfsFile> {
        // Without NONBLOCK the open would hang if somebody put a pipe in the file's place meanwhile.
        let flags = access | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
        let opened = PfsFile::new(File::from(self.opened(path, flags)?));
        if opened.attributes()?.kind != FileKind::Regular {
            return Err(Errno::STALE);
        }
        Ok(opened)
    }

    fn opened(&self, path: &Path, flags: OFlags) -> Result<OwnedFd> {
        self.roots.of(path)?.open(path, flags, Mode::empty())
    }

    /// Where a name is made or changed.
    fn place(&self, path: &Path) -> Result<Place> {
        self.roots.above(path)?.reach(path)
    }

    /// A path that leads to the very entry that was found, as long as what comes with it is held.
    fn held(&self, entry: &Found) -> Result<(PathBuf, OwnedFd)> {
        let held = self.opened(&entry.path, ENTRY)?;
        let there = rustix::fs::fstat(&held)?;
        if !is_it(&there, entry) {
            return Err(Errno::NOENT);
        }
        Ok((by_descriptor(&held), held))
    }
}

fn is_it(there: &rustix::fs::Stat, entry: &Found) -> bool {
    (there.st_dev, there.st_ino) == (entry.device, entry.attr.ino.into())
}

impl Tree for Pfs {
    fn side(&self) -> Side {
        Side::Pfs
    }

    fn show(&self, path: &Path) -> String {
        on_one_line(path)
    }

    fn enter(&self, folder: &Path) -> std::result::Result<(), Outside> {
        self.roots.enter(folder)
    }

    fn find(&self, path: &Path) -> Result<Found> {
        found(path.to_owned(), self.opened(path, ENTRY)?)
    }

    fn locate(&self, path: &Path) -> Result<Found> {
        let entry = self.find(path)?;
        if entry.attr.kind != FileKind::Symlink {
            return Ok(entry);
        }
        let held = self.place(path)?;
        let place = held.path();
        if fs::metadata(&place).map_err(errno)?.is_dir() {
            self.roots.add(Root::known_from(path, &place)?).map_err(|_| Errno::XDEV)?;
            return self.find(path);
        }
        self.find(&fs::canonicalize(place).map_err(errno)?)
    }

    fn list<'a>(&'a self, folder: &Found) -> Result<Listing<'a>> {
        let path = folder.path.clone();
        // It is read by a descriptor of its own.
        let held = self.opened(&path, FOLDER)?;
        let entries = fs::read_dir(by_descriptor(&held)).map_err(errno)?;
        Ok(Box::new(entries.map(move |entry| {
            let entry = entry.map_err(|error| (path.clone(), errno(error)))?;
            let path = path.join(entry.file_name());
            match entry.metadata() {
                Ok(metadata) => Ok(with(path, &metadata)),
                Err(error) => Err((path, errno(error))),
            }
        })))
    }

    fn open(&self, file: &Found) -> Result<Box<dyn OpenFile>> {
        Ok(Box::new(self.open_file(file)?))
    }
}

impl Source for Pfs {
    fn read_link(&self, link: &Found) -> Result<PathBuf> {
        fs::read_link(self.place(&link.path)?.path()).map_err(errno)
    }

    fn xattrs(&self, entry: &Found) -> Result<Vec<Xattr>> {
        let held = self.opened(&entry.path, ENTRY)?;
        xattrs::read(&by_descriptor(&held))
    }
}

impl Target for Pfs {
    fn placement(&self) -> Placement {
        Placement::Renamed
    }

    fn reopen(&self, file: &Found) -> Result<Box<dyn TargetFile>> {
        Ok(Box::new(self.open_regular(&file.path, OFlags::RDWR)?))
    }

    fn create(&self, path: &Path) -> Result<(Found, Box<dyn TargetFile>)> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL;
        let file = File::from(self.roots.above(path)?.open(path, flags, Mode::from_raw_mode(0o600))?);
        let metadata = file.metadata().map_err(errno)?;
        Ok((with(path.to_owned(), &metadata), Box::new(PfsFile::new(file))))
    }

    fn make(&self, path: &Path, new: New<'_>) -> Result<Found> {
        let Place { folder, name } = self.place(path)?;
        match new {
            New::Folder(mode) => rustix::fs::mkdirat(&folder, &name, Mode::from_raw_mode(mode))?,
            New::Symlink(text) => rustix::fs::symlinkat(text, &folder, &name)?,
            New::Node { kind, rdev } => {
                let mode = Mode::from_raw_mode(0o600);
                rustix::fs::mknodat(&folder, &name, node_type(kind)?, mode, rdev)?;
            }
        }
        found(path.to_owned(), rustix::fs::openat(&folder, &name, ENTRY | OFlags::CLOEXEC, Mode::empty())?)
    }

    fn link(&self, existing: &Found, path: &Path) -> Result<()> {
        let (from, to) = (self.place(&existing.path)?, self.place(path)?);
        rustix::fs::linkat(&from.folder, &from.name, &to.folder, &to.name, AtFlags::empty())
    }

    fn rename(&self, folder: &Found, from: &Path, to: &Path) -> Result<()> {
        let (part, name) = split(from)?;
        let place = self.place(to)?;
        if !is_it(&rustix::fs::fstat(&place.folder)?, folder) {
            return Err(Errno::NOENT);
        }
        if to.parent() == Some(part) {
            return rustix::fs::renameat(&place.folder, name, &place.folder, &place.name);
        }
        rustix::fs::renameat(&self.place(from)?.folder, name, &place.folder, &place.name)
    }

    fn remove(&self, path: &Path) -> Result<()> {
        let Place { folder, name } = self.place(path)?;
        rustix::fs::unlinkat(&folder, &name, AtFlags::empty())
    }

    fn remove_folder(&self, path: &Path) -> Result<()> {
        let Place { folder, name } = self.place(path)?;
        rustix::fs::unlinkat(&folder, &name, AtFlags::REMOVEDIR)
    }

    fn sync_folder(&self, path: &Path) -> Result<()> {
        File::from(self.opened(path, FOLDER)?).sync_all().map_err(errno)
    }

    fn begin_batch(&self, folder: &Found) -> Result<Option<Box<dyn Batch>>> {
        batch::begin(folder.device, || self.opened(&folder.path, FOLDER))
    }

    fn set(&self, entry: &Found, change: &SetAttr) -> Result<()> {
        let (path, _held) = self.held(entry)?;
        if change.uid.is_some() || change.gid.is_some() {
            let (uid, gid) = (change.uid.map(Uid::from_raw), change.gid.map(Gid::from_raw));
            rustix::fs::chown(&path, uid, gid)?;
        }
        if let Some(mode) = change.mode {
            rustix::fs::chmod(&path, Mode::from_raw_mode(mode))?;
        }
        if change.atime.is_some() || change.mtime.is_some() {
            let times =
                Timestamps { last_access: timespec(change.atime), last_modification: timespec(change.mtime) };
            rustix::fs::utimensat(CWD, &path, &times, AtFlags::empty())?;
        }
        Ok(())
    }

    fn set_xattr(&self, entry: &Found, (name, value): &Xattr) -> Result<()> {
        let (path, _held) = self.held(entry)?;
        rustix::fs::setxattr(&path, name.as_slice(), value, XattrFlags::empty())
    }

    fn disinherit(&self, entry: &Found, kept: &[Xattr]) -> Result<()> {
        let (path, _held) = self.held(entry)?;
        xattrs::disinherit(&path, kept)
    }
}

/// An entry, by its own descriptor.
fn found(path: PathBuf, entry: OwnedFd) -> Result<Found> {
    Ok(with(path, &File::from(entry).metadata().map_err(errno)?))
}

fn with(path: PathBuf, metadata: &fs::Metadata) -> Found {
    Found { path, device: metadata.dev(), attr: attributes(metadata), since: Instant::now() }
}

/// The errno in an error of std; std's own errors (a NUL in a path) are invalid arguments.
pub(crate) fn errno(error: std::io::Error) -> Errno {
    Errno::from_io_error(&error).unwrap_or(Errno::INVAL)
}

/// Whether a path ends with a slash, which `Path` otherwise hides.
pub(crate) fn ends_with_slash(path: &Path) -> bool {
    path.as_os_str().as_bytes().last() == Some(&b'/')
}
