//! The PFS: any mounted file system, reached by path with the rights of the calling thread.
//!
//! **Invariant:** nothing is opened or changed through a symbolic link, but for those on the way to a folder that the
//! user names ([`Tree::enter`], [`Tree::locate`]). Whoever puts a link in the place of a folder leads nobody elsewhere.

mod attr;
mod batch;
mod file;
mod made;
mod roots;
mod source;
mod stores;
mod xattrs;

use std::fs::{self, File};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use disk::below::{Folders, Place, Root, by_descriptor};
use rustix::fs::{AtFlags, CWD, Mode, OFlags, Timestamps, XattrFlags};
use rustix::fs::{Gid, Uid, openat, statat};
use rustix::io::Errno;
use wire::control::Side;
use wire::data::{FileKind, SetAttr};

pub(crate) use self::attr::of_open;
pub use self::attr::{attributes, device};
use self::attr::{found, look, timespec, with};
use self::file::OpenFiles;
pub use self::file::PfsFile;
use self::roots::Roots;
use crate::outside::Outside;
use crate::tree::{
    Batch, Found, Held, Listing, New, OpenFile, Placement, Result, Target, TargetFile, Tree, Xattr,
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
    /// In which files are made and looked at; `None`: each is reached from its root.
    folders: Option<Arc<Folders>>,
    open: Arc<OpenFiles>,
}

impl Pfs {
    /// That of which stages may reach what is below these folders; all of it, if there are none.
    pub fn within(limits: &[PathBuf]) -> Pfs {
        Pfs { roots: Arc::new(Roots::within(limits)), ..Pfs::default() }
    }

    /// For who works on single files below a root: what it says is what is in folders that it has held for a while,
    /// until [`Pfs::let_go`]. Whoever cannot have that looks for himself.
    pub fn below(root: Root) -> Pfs {
        Pfs { folders: Some(Arc::new(Folders::below(root))), ..Pfs::default() }
    }

    /// Reaches every folder anew.
    pub fn let_go(&self) {
        self.folders.iter().for_each(|folders| folders.let_go());
    }

    /// Opens a regular file for reading: [`Tree::open`]. For who syncs it, which has stores stamp it, too.
    ///
    /// # Errors
    /// The file system's; STALE where it is not a regular file any more.
    pub fn open_file(&self, file: &Found) -> Result<PfsFile> {
        self.open_regular(&file.path, OFlags::RDONLY)
    }

    /// Opens a file that must be a regular one.
    fn open_regular(&self, path: &Path, access: OFlags) -> Result<PfsFile> {
        // Without NONBLOCK the open would hang if somebody put a pipe in the file's place meanwhile.
        let flags = access | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
        let file = File::from(self.opened(path, flags)?);
        let found = of_open(&file)?;
        if attributes(&found).kind != FileKind::Regular {
            return Err(Errno::STALE);
        }
        Ok(self.open.note(file, &found))
    }

    fn opened(&self, path: &Path, flags: OFlags) -> Result<OwnedFd> {
        match &self.folders {
            Some(folders) => folders.open(path, flags, Mode::empty()),
            None => self.roots.of(path)?.open(path, flags, Mode::empty()),
        }
    }

    /// Where a name is made or changed.
    fn place(&self, path: &Path) -> Result<Place> {
        match &self.folders {
            Some(folders) => folders.root().reach(path),
            None => self.roots.above(path)?.reach(path),
        }
    }

    /// A path that leads to the very entry that was found, as long as what comes with it is held.
    fn held(&self, entry: &Found) -> Result<(PathBuf, Box<dyn AsFd>)> {
        if let (Some(folders), Some(file)) = (&self.folders, self.open.get(entry)) {
            // Its name, too: what somebody has put in its place must not be published for it.
            let there =
                folders.with(&entry.path, |folder, name| statat(folder, name, AtFlags::SYMLINK_NOFOLLOW))?;
            return if entry.is(&there) {
                Ok((by_descriptor(&file), Box::new(file)))
            } else {
                Err(Errno::NOENT)
            };
        }
        let held = self.opened(&entry.path, ENTRY)?;
        let there = rustix::fs::fstat(&held)?;
        if !entry.is(&there) {
            return Err(Errno::NOENT);
        }
        Ok((by_descriptor(&held), Box::new(held)))
    }
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
        let Some(folders) = &self.folders else { return found(path.to_owned(), self.opened(path, ENTRY)?) };
        Ok(with(path.to_owned(), &folders.with(path, look)?))
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
            let (name, path) = (entry.file_name(), path.join(entry.file_name()));
            match look(held.as_fd(), &name) {
                Ok(found) => Ok(with(path, &found)),
                Err(errno) => Err((path, errno)),
            }
        })))
    }

    fn open(&self, file: &Found) -> Result<Box<dyn OpenFile>> {
        let opened = self.open_file(file)?;
        // Not an error that a second try could hide.
        opened.stamp_from_now_on().map_err(|_| Errno::REMOTEIO)?;
        Ok(Box::new(opened))
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
        let mode = Mode::from_raw_mode(0o600);
        let opened = match &self.folders {
            // Whoever moved the folder that is held does not get what is made now.
            Some(folders) => folders.root().open(path, flags, mode)?,
            None => self.roots.above(path)?.open(path, flags, mode)?,
        };
        let found = of_open(&opened)?;
        Ok((with(path.to_owned(), &found), Box::new(self.open.note(File::from(opened), &found))))
    }

    fn make(&self, path: &Path, new: New<'_>) -> Result<(Found, Held)> {
        made::make(&self.place(path)?, path, new)
    }

    fn link(&self, existing: &Found, path: &Path) -> Result<Held> {
        made::link(self.opened(&existing.path, ENTRY)?, existing, &self.place(path)?)
    }

    fn rename(&self, folder: &Found, entry: &Found, to: &Path) -> Result<()> {
        let (part, name) = split(&entry.path)?;
        let place = self.place(to)?;
        if !folder.is(&rustix::fs::fstat(&place.folder)?) {
            return Err(Errno::NOENT);
        }
        let elsewhere = (to.parent() != Some(part)).then(|| self.place(&entry.path)).transpose()?;
        let from = elsewhere.as_ref().map_or(&place.folder, |from| &from.folder);
        // Whose number this is: the entry's, as long as that is held open. A mover's is not, see `movers::batch`.
        if u64::from(entry.attr.ino) != statat(from, name, AtFlags::SYMLINK_NOFOLLOW)?.st_ino {
            return Err(Errno::STALE);
        }
        rustix::fs::renameat(from, name, &place.folder, &place.name)
    }

    fn remove(&self, path: &Path) -> Result<()> {
        if let Some(folders) = &self.folders {
            return folders.with(path, |folder, name| rustix::fs::unlinkat(folder, name, AtFlags::empty()));
        }
        let Place { folder, name } = self.place(path)?;
        rustix::fs::unlinkat(&folder, &name, AtFlags::empty())
    }

    fn remove_folder(&self, path: &Path) -> Result<()> {
        let Place { folder, name } = self.place(path)?;
        rustix::fs::unlinkat(&folder, &name, AtFlags::REMOVEDIR)
    }

    fn sync_folder(&self, path: &Path) -> Result<()> {
        let opened = match &self.folders {
            // That in which the names were made.
            Some(folders) => {
                folders.within(path, |held| openat(held, ".", FOLDER | OFlags::CLOEXEC, Mode::empty()))?
            }
            None => self.opened(path, FOLDER)?,
        };
        File::from(opened).sync_all().map_err(errno)
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

/// The errno in an error of std; std's own errors (a NUL in a path) are invalid arguments.
pub(crate) fn errno(error: std::io::Error) -> Errno {
    Errno::from_io_error(&error).unwrap_or(Errno::INVAL)
}

/// Whether a path ends with a slash, which `Path` otherwise hides.
pub(crate) fn ends_with_slash(path: &Path) -> bool {
    path.as_os_str().as_bytes().last() == Some(&b'/')
}
