//! Names below a folder, reached from the folder downwards: the one way to what others may rename meanwhile.
//!
//! **Invariant:** no component of a name below the folder is followed through a symbolic link, whoever puts one there
//! and when, and what is done is done from the last one's descriptor.

mod held;
mod place;

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Component, Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat, openat2};
use rustix::io::{Errno, Result};

use crate::regular;

pub use self::held::Folders;
pub use self::place::{MayGo, Place};

/// A descriptor that stands for a folder only: nothing is read by it.
const FOLDER: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// The folder above all.
const SYSTEM: &str = "/";

/// A folder below which names are reached.
#[derive(Debug)]
pub struct Root {
    path: PathBuf,
    folder: Folder,
}

#[derive(Debug)]
enum Folder {
    Held(OwnedFd),
    /// It is opened for each name, at this path without links.
    At(PathBuf),
}

/// The way to a name: from a descriptor, or from `/` through `above`, and then through `rest`.
struct Way<'a> {
    from: Option<BorrowedFd<'a>>,
    above: &'a Path,
    rest: &'a Path,
}

/// A path that leads to what is open, as long as it is.
pub fn by_descriptor(open: &impl AsFd) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", open.as_fd().as_raw_fd()))
}

impl Root {
    /// The folder that is at `path` now, through whatever links lead there, wherever it is moved to later.
    ///
    /// # Errors
    /// Of `open`.
    pub fn hold(path: &Path) -> Result<Root> {
        Root::known_from(path, path)
    }

    /// The same of the folder to which `there` leads, which is called `path`.
    ///
    /// # Errors
    /// Of `open`.
    pub fn known_from(path: &Path, there: &Path) -> Result<Root> {
        let held = rustix::fs::open(there, FOLDER, Mode::empty())?;
        Ok(Root { path: path.to_owned(), folder: Folder::Held(held) })
    }

    /// Whatever folder is at `path` when a name is reached: a path without links, which is reached as strictly as the
    /// names below it.
    pub fn at(path: &Path) -> Root {
        Root::known_as(path, path)
    }

    /// The same of the folder at `real`, which is called `path`.
    pub fn known_as(path: &Path, real: &Path) -> Root {
        Root { path: path.to_owned(), folder: Folder::At(real.to_owned()) }
    }

    /// Its path, as it was given.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The path that it has now, without links.
    ///
    /// # Errors
    /// The kernel does not tell.
    pub fn real(&self) -> std::io::Result<PathBuf> {
        std::fs::read_link(by_descriptor(&self.top()?))
    }

    /// Its device and inode number.
    ///
    /// # Errors
    /// Of `fstat`.
    pub fn identity(&self) -> Result<(u64, u64)> {
        let found = rustix::fs::fstat(self.top()?)?;
        Ok((found.st_dev, found.st_ino))
    }

    /// Opens `path`, which is below the root, or relative to it. What lies elsewhere is reached from `/`, as strictly.
    ///
    /// # Errors
    /// NOTDIR where a component above the last is a symbolic link or a file; LOOP where the last is a link, unless
    /// `flags` are such that it is opened itself; XDEV for a path with `..`.
    pub fn open(&self, path: &Path, flags: OFlags, mode: Mode) -> Result<OwnedFd> {
        let way = self.way(path);
        way.open(way.rest, flags, mode)
    }

    /// The same of a regular file, without waiting for anybody.
    ///
    /// # Errors
    /// As of [`Root::open`]; one that says so where something else is there.
    pub fn open_file(&self, path: &Path, flags: OFlags, mode: Mode) -> std::io::Result<File> {
        regular::only(|also| self.open(path, flags | also, mode))
    }

    /// The place of `path`.
    ///
    /// # Errors
    /// As of [`Root::open`].
    pub fn reach(&self, path: &Path) -> Result<Place> {
        let way = self.way(path);
        let (above, name) = match (way.rest.parent(), way.rest.file_name()) {
            (Some(above), Some(name)) => (above, name),
            _ => (way.rest, OsStr::new(".")),
        };
        Ok(Place { folder: way.open(above, FOLDER, Mode::empty())?, name: name.to_owned() })
    }

    /// The place of the folder `path` itself, which is no symbolic link.
    ///
    /// # Errors
    /// As of [`Root::open`].
    pub fn inside(&self, path: &Path) -> Result<Place> {
        Ok(Place { folder: self.open(path, FOLDER, Mode::empty())?, name: OsString::from(".") })
    }

    /// The first component on the way to `path` that is no folder, if there is one.
    pub fn obstacle(&self, path: &Path) -> Option<PathBuf> {
        let way = self.way(path);
        let mut folder = way.open(Path::new(""), FOLDER, Mode::empty()).ok()?;
        let is_elsewhere = path.is_absolute() && !path.starts_with(&self.path);
        let mut so_far = if is_elsewhere { PathBuf::from(SYSTEM) } else { self.path.clone() };
        for component in way.rest.parent()?.components() {
            so_far.push(component);
            match step(folder.as_fd(), component.as_os_str()) {
                Ok(next) => folder = next,
                Err(Errno::NOTDIR) => return Some(so_far),
                Err(_) => return None,
            }
        }
        None
    }

    /// Makes the folder `path` and what is missing above it, below the root, which is there.
    ///
    /// # Errors
    /// Of the file system; NOTDIR where something else has the name of one of them.
    pub fn make_folders(&self, path: &Path) -> Result<()> {
        let way = self.way(path);
        let mut folder = way.open(Path::new(""), FOLDER, Mode::empty())?;
        for component in way.rest.components() {
            match rustix::fs::mkdirat(&folder, component.as_os_str(), Mode::from_raw_mode(0o777)) {
                Ok(()) | Err(Errno::EXIST) => folder = step(folder.as_fd(), component.as_os_str())?,
                Err(errno) => return Err(errno),
            }
        }
        Ok(())
    }

    fn top(&self) -> Result<OwnedFd> {
        self.way(&self.path).open(Path::new(""), FOLDER, Mode::empty())
    }

    fn way<'a>(&'a self, path: &'a Path) -> Way<'a> {
        let (from, above) = match &self.folder {
            Folder::Held(held) => (Some(held.as_fd()), Path::new("")),
            Folder::At(path) => (None, &**path),
        };
        match (path.strip_prefix(&self.path), path.strip_prefix(SYSTEM)) {
            (Ok(rest), _) => Way { from, above, rest },
            (Err(_), Ok(rest)) => Way { from: None, above: Path::new(""), rest },
            (Err(_), Err(_)) => Way { from, above, rest: path },
        }
    }
}

impl Way<'_> {
    /// Opens what is at `rest`, in one call of the kernel.
    fn open(&self, rest: &Path, flags: OFlags, mode: Mode) -> Result<OwnedFd> {
        let Some(from) = self.from else {
            let above = Path::new(SYSTEM).join(self.above);
            // Not with a slash at the end: that would follow a link.
            let whole = if rest.as_os_str().is_empty() { above } else { above.join(rest) };
            return open_whole(&whole, flags, mode);
        };
        open_below(from, rest, flags, mode)
    }
}

/// Opens what is below `top`.
fn open_below(top: BorrowedFd<'_>, rest: &Path, flags: OFlags, mode: Mode) -> Result<OwnedFd> {
    let rest = if rest.as_os_str().is_empty() { Path::new(".") } else { rest };
    let strictly = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
    open_strictly(top, rest, (flags, mode), strictly, || open_by_steps(top, rest, flags, mode))
}

/// Opens what is at a path from `/`.
fn open_whole(path: &Path, flags: OFlags, mode: Mode) -> Result<OwnedFd> {
    // Without `..` and links everything is beneath `/`.
    open_strictly(CWD, path, (flags, mode), ResolveFlags::NO_SYMLINKS, || {
        let system = rustix::fs::open(SYSTEM, FOLDER, Mode::empty())?;
        open_by_steps(system.as_fd(), path.strip_prefix(SYSTEM).unwrap_or(path), flags, mode)
    })
}

fn open_strictly(
    top: BorrowedFd<'_>,
    path: &Path,
    (flags, mode): (OFlags, Mode),
    strictly: ResolveFlags,
    by_steps: impl FnOnce() -> Result<OwnedFd>,
) -> Result<OwnedFd> {
    if path.components().any(|component| component == Component::ParentDir) {
        return Err(Errno::XDEV);
    }
    match openat2(top, path, flags | OFlags::CLOEXEC, mode, strictly) {
        // Before Linux 5.6, and in containers that forbid what they do not know. Which component is the link is to be
        // known, too.
        Err(Errno::NOSYS | Errno::PERM | Errno::LOOP) => by_steps(),
        opened => opened,
    }
}

/// The same, component by component.
fn open_by_steps(top: BorrowedFd<'_>, rest: &Path, flags: OFlags, mode: Mode) -> Result<OwnedFd> {
    let mut folder = step(top, OsStr::new("."))?;
    for component in rest.parent().unwrap_or(Path::new("")).components() {
        folder = step(folder.as_fd(), component.as_os_str())?;
    }
    let name = rest.file_name().unwrap_or(OsStr::new("."));
    openat(&folder, name, flags | OFlags::NOFOLLOW | OFlags::CLOEXEC, mode)
}

/// A symbolic link is no folder.
fn step(folder: BorrowedFd<'_>, name: &OsStr) -> Result<OwnedFd> {
    openat(folder, name, FOLDER | OFlags::NOFOLLOW, Mode::empty())
}

#[cfg(test)]
mod tests;
