//! What was taken from a name on the PFS, by a copy that gets the name or to be removed, lies under a name of the
//! drain's own until somebody has looked at it: also where the drainer is killed in between.
//!
//! ```text
//! name := PART "." ours "." over "." crc ".taken"      PART: the copy's working name; `crc`: of what was taken's name
//! ours, over := inode "-" crc                          what may go: the copy, and what it was to replace
//! ```
//!
//! **Invariant:** what lies there goes if it is one of the two that its name tells of, whatever else is forgotten. Else
//! it is somebody's: it gets its name back, or stays, and every `wait` says where.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

use disk::below::{Place, Root, by_descriptor};
use rustix::fs::{AtFlags, unlinkat};
use rustix::io::{Errno, Result};
use stage::single::{PART_SUFFIX, TAKEN_SUFFIX};

use crate::generation::{Seen, if_there, look_in};
use crate::placed::{Names, Placed, Under};
use crate::status::Trouble;

/// What a drainer has taken and could not decide about.
pub(crate) struct Taken {
    root: Root,
    names: Arc<dyn Names>,
    /// Where it lies, and which name it had, if that is known.
    left: Mutex<BTreeMap<PathBuf, Option<PathBuf>>>,
}

/// What the name says under which something was taken.
#[derive(Debug, PartialEq, Eq)]
struct Mark {
    ours: String,
    over: String,
    name: String,
}

/// The name under which what is `over` is taken from `name`, for the copy at `part`: that may go, and so may `ours`.
pub(crate) fn aside(part: &OsStr, ours: &Seen, over: &Seen, name: &OsStr) -> OsString {
    let stem = part.to_string_lossy();
    let stem = stem.strip_suffix(PART_SUFFIX).unwrap_or(&stem);
    format!("{stem}.{}.{}.{}{TAKEN_SUFFIX}", id(ours), id(over), sum(name.as_bytes())).into()
}

impl Mark {
    fn read(name: &OsStr) -> Option<Mark> {
        let mut parts = name.to_str()?.strip_suffix(TAKEN_SUFFIX)?.rsplit('.').map(str::to_owned);
        let (name, over, ours) = (parts.next()?, parts.next()?, parts.next()?);
        Some(Mark { ours, over, name })
    }

    /// Whether it is one of the two that may go.
    fn knows(&self, seen: &Seen) -> bool {
        let id = id(seen);
        id == self.ours || id == self.over
    }
}

/// An inode as it is, but for what a rename changes.
fn id(seen: &Seen) -> String {
    let it = &seen.generation;
    let (size, seconds, nanos) = (it.size.to_le_bytes(), it.mtime.0.to_le_bytes(), it.mtime.1.to_le_bytes());
    format!("{:x}-{}", it.ino, sum(&[&size[..], &seconds, &nanos].concat()))
}

fn sum(bytes: &[u8]) -> String {
    format!("{:08x}", crc32c::crc32c(bytes))
}

impl Taken {
    /// From names below `root`, of which `names` are known.
    pub(crate) fn of(root: &Path, names: Arc<dyn Names>) -> Taken {
        Taken { root: Root::at(root), names, left: Mutex::default() }
    }

    /// Takes note of what was taken from `to` and lies there beside it, if something does.
    pub(crate) fn note(&self, place: &Place, aside: &OsStr, to: &Path) {
        let found = if_there(look_in(place.folder.as_fd(), aside));
        if !found.is_ok_and(|found| found.is_none()) {
            self.lock().insert(to.with_file_name(aside), Some(to.to_owned()));
        }
    }

    /// Decides about what was taken from this name, before a copy gets it.
    ///
    /// # Errors
    /// The PFS's; EXIST where it is not decided.
    pub(crate) fn settle_of(&self, to: &Path) -> Result<()> {
        let is_of = |name: &Option<PathBuf>| name.as_deref() == Some(to);
        let paths: Vec<_> =
            self.lock().iter().filter(|(_, name)| is_of(name)).map(|(path, _)| path.clone()).collect();
        paths.iter().try_for_each(|path| self.settle(path))?;
        if self.lock().values().any(is_of) { Err(Errno::EXIST) } else { Ok(()) }
    }

    /// Decides about what lies at `path`.
    ///
    /// # Errors
    /// It cannot be looked at.
    pub(crate) fn settle(&self, path: &Path) -> Result<()> {
        let place = self.root.reach(path)?;
        let Some(mark) = Mark::read(&place.name) else { return Ok(()) };
        let Some(seen) = if_there(look_in(place.folder.as_fd(), &place.name))? else {
            self.lock().remove(path);
            return Ok(());
        };
        if mark.knows(&seen) {
            unlinkat(&place.folder, &place.name, AtFlags::empty())?;
            self.lock().remove(path);
            return Ok(());
        }
        let name = self.name_of(&place, path, &mark)?;
        let is_back = name.as_ref().is_some_and(|name| self.give_back(&place, name, &mark).is_ok());
        if is_back {
            self.lock().remove(path)
        } else {
            self.lock().insert(path.to_owned(), name)
        };
        Ok(())
    }

    /// Puts back what is somebody's. The name is disputed from then on: no copy gets it until it is free.
    fn give_back(&self, place: &Place, name: &Path, mark: &Mark) -> Result<()> {
        let to = Place { folder: place.folder.try_clone().map_err(|_| Errno::MFILE)?, name: name_in(name) };
        let is_ours = |folder: BorrowedFd<'_>, name: &OsStr| Ok(id(&look_in(folder, name)?) == mark.ours);
        if let Some(copy) = if_there(look_in(to.folder.as_fd(), &to.name))?
            && id(&copy) == mark.ours
        {
            self.names.note(name, Placed::now(&copy), None);
        }
        to.give_back(&place.name, is_ours)
    }

    /// The name that something had, as far as one only may be it: of what is in the folder, or is known to have been.
    fn name_of(&self, place: &Place, path: &Path, mark: &Mark) -> Result<Option<PathBuf>> {
        let folder = path.parent().unwrap_or(path);
        let mut names = self.names.within(folder);
        let errno = |error| Errno::from_io_error(&error).unwrap_or(Errno::IO);
        for entry in fs::read_dir(by_descriptor(&place.folder)).map_err(errno)? {
            names.push(folder.join(entry.map_err(errno)?.file_name()));
        }
        names.retain(|name| sum(name_in(name).as_bytes()) == mark.name);
        names.sort_unstable();
        names.dedup();
        Ok(names.pop().filter(|_| names.is_empty()))
    }

    /// What is left, after another try to give it back.
    pub(crate) fn troubles(&self) -> Vec<Trouble> {
        let paths: Vec<_> = self.lock().keys().cloned().collect();
        for path in paths {
            if let Err(errno) = self.settle(&path) {
                tracing::warn!("look at {}: {errno}", path.display());
            }
        }
        self.lock().iter().map(|(path, name)| trouble(path, name.as_deref())).collect()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<PathBuf, Option<PathBuf>>> {
        self.left.lock().expect("no thread panics with the lock")
    }
}

/// What became of a name that was to be removed.
pub(crate) enum Removal {
    /// It is not there any more.
    Removed,
    /// It stays, for this reason.
    Kept(&'static str),
}

impl Taken {
    /// Removes from the PFS what this drainer has put under the name `target`, if it is that, and nobody has touched
    /// it. It is taken to a name like `part` first.
    ///
    /// # Errors
    /// The PFS's.
    pub(crate) fn remove(
        &self,
        target: &Path,
        part: impl FnOnce() -> PathBuf,
        placed: Option<&Under>,
    ) -> Result<Removal> {
        let place = match self.root.reach(target) {
            Err(Errno::NOENT | Errno::NOTDIR) => return Ok(Removal::Removed),
            place => place?,
        };
        let Some(there) = if_there(look_in(place.folder.as_fd(), &place.name))? else {
            return Ok(Removal::Removed);
        };
        let differs =
            placed.map_or(Some("nothing is noted of what this drainer put there"), |it| it.differs(&there));
        if let Some(why) = differs {
            return Ok(Removal::Kept(why));
        }
        let aside = aside(&name_in(&part()), &there, &there, &place.name);
        let removed = place.remove_with(&aside, |folder, name| Ok(look_in(folder, name)?.is_still(&there)));
        self.note(&place, &aside, target);
        match removed {
            Ok(()) | Err(Errno::NOENT) => Ok(Removal::Removed),
            Err(Errno::EXIST) => Ok(Removal::Kept("another file has come there")),
            Err(errno) => Err(errno),
        }
    }
}

fn name_in(path: &Path) -> OsString {
    path.file_name().unwrap_or_default().to_owned()
}

fn trouble(path: &Path, name: Option<&Path>) -> Trouble {
    let name = name.map_or_else(|| "a file of the job".to_owned(), |name| name.display().to_string());
    Trouble {
        path: path.display().to_string(),
        errno: Errno::EXIST.raw_os_error(),
        message: format!(
            "{} is somebody's: it came to the name of {name} while that was replaced or removed, and could not get \
             its name back",
            path.display()
        ),
        advice: "move it to where it belongs, then wait again".to_owned(),
    }
}

#[cfg(test)]
mod tests;
