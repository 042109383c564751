//! What was taken from a name on the PFS, by a copy that gets the name or to be removed, lies under a name of the
//! drain's own until somebody has looked at it: also where the drainer is killed in between.
//!
//! ```text
//! name := PART "." ours "." over "." crc ".taken"      PART: the copy's working name; `crc`: of what was taken's name
//! ours, over := inode "-" crc                          what may go: the copy, and what it was to replace
//! ```
//!
//! **Invariant:** what lies there goes if it is one of the two that its name tells of, whatever else is forgotten. Else
//! it is somebody's: it gets its name back, or stays, and every `wait` says where, wherever its folder is moved to.

mod removal;
mod told;

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

use disk::below::{Place, Root, by_descriptor};
use model::Ino;
use rustix::fs::{AtFlags, unlinkat};
use rustix::io::{Errno, Result};
use stage::single::{PART_SUFFIX, TAKEN_SUFFIX};

use crate::generation::{Seen, if_there, look_in};
use crate::placed::{Names, Placed};

pub(crate) use self::removal::Removal;
use self::told::Missed;

/// What a drainer has taken and could not decide about.
pub(crate) struct Taken {
    root: Root,
    names: Arc<dyn Names>,
    left: Mutex<BTreeMap<Key, Left>>,
    missed: Mutex<Vec<Missed>>,
}

/// Where something lies: in the folder of these numbers, under this name.
type Key = (u64, u64, OsString);

/// Something that lies somewhere.
struct Left {
    /// Held open: it may be renamed.
    folder: Arc<OwnedFd>,
    /// Where it was seen last.
    path: PathBuf,
    /// The name that it had, if that is known.
    name: Option<PathBuf>,
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
        Taken { root: Root::at(root), names, left: Mutex::default(), missed: Mutex::default() }
    }

    /// Takes note of what was taken from `to` and lies there beside it, if something does.
    pub(crate) fn note(&self, place: &Place, aside: &OsStr, to: &Path) {
        if if_there(look_in(place.folder.as_fd(), aside)).is_ok_and(|found| found.is_none()) {
            return;
        }
        let path = to.with_file_name(aside);
        let folder = place.folder.try_clone().map_err(|_| Errno::MFILE);
        let kept = folder.and_then(|folder| self.keep(&Arc::new(folder), &path, Some(to.to_owned())));
        // The next drainer looks where this one has made copies.
        kept.unwrap_or_else(|errno| tracing::error!("hold the folder of {}: {errno}", path.display()));
    }

    fn keep(&self, folder: &Arc<OwnedFd>, path: &Path, name: Option<PathBuf>) -> Result<()> {
        let key = key(folder, &name_in(path))?;
        let mut left = self.lock();
        // One descriptor for all that lies in a folder.
        let held = left.iter().find(|(other, _)| (other.0, other.1) == (key.0, key.1));
        let folder = held.map_or_else(|| Arc::clone(folder), |(_, held)| Arc::clone(&held.folder));
        left.insert(key, Left { folder, path: path.to_owned(), name });
        Ok(())
    }

    /// Decides about what was taken from this name, before a copy gets it.
    ///
    /// # Errors
    /// The PFS's; EXIST where it is not decided.
    pub(crate) fn settle_of(&self, to: &Path) -> Result<()> {
        let is_of = |left: &Left| left.name.as_deref() == Some(to);
        if !self.lock().values().any(is_of) {
            return Ok(());
        }
        self.settle_again(is_of)?;
        if self.lock().values().any(is_of) { Err(Errno::EXIST) } else { Ok(()) }
    }

    /// Decides about what lies at `path`.
    ///
    /// # Errors
    /// It cannot be looked at.
    pub(crate) fn settle(&self, path: &Path) -> Result<()> {
        self.settle_as(path, None)
    }

    /// The same, where the name is known that it had.
    ///
    /// # Errors
    /// As of [`Taken::settle`].
    pub(crate) fn settle_known(&self, path: &Path, name: &Path) -> Result<()> {
        self.settle_as(path, Some(name))
    }

    fn settle_as(&self, path: &Path, known: Option<&Path>) -> Result<()> {
        let Place { folder, name } = self.root.reach(path)?;
        self.decide((&Arc::new(folder), &name), path, known)
    }

    /// Decides about what is left so far, wherever its folder is now.
    fn settle_again(&self, of: impl Fn(&Left) -> bool) -> Result<()> {
        let of_it = |(key, left): (&Key, &Left)| {
            (key.clone(), Arc::clone(&left.folder), left.path.clone(), left.name.clone())
        };
        let all: Vec<_> = self.lock().iter().filter(|(_, left)| of(left)).map(of_it).collect();
        let mut outcome = Ok(());
        for (key, folder, path, name) in all {
            let path = self.path_of(&folder, &path);
            match self.decide((&folder, &key.2), &path, name.as_deref()) {
                // A server's folder that was removed, or is mounted anew.
                Err(Errno::STALE) => {
                    self.lock().remove(&key);
                    if self.settle(&path).is_err() {
                        self.miss(path.parent().unwrap_or(&path), Ino(key.1), false);
                    }
                }
                Err(errno) => {
                    tracing::warn!("look at {}: {errno}", path.display());
                    outcome = Err(errno);
                }
                Ok(()) => {}
            }
        }
        outcome
    }

    /// The path of what was at `path` in this folder, which may have been renamed.
    fn path_of(&self, folder: &Arc<OwnedFd>, path: &Path) -> PathBuf {
        let name = name_in(path);
        let there = self.root.reach(path).and_then(|place| key(&place.folder, &name));
        if there.is_ok_and(|there| key(folder, &name) == Ok(there)) {
            return path.to_owned();
        }
        let now = fs::read_link(by_descriptor(folder)).ok().filter(|now| now.is_absolute());
        now.map_or_else(|| path.to_owned(), |now| now.join(&name))
    }

    /// As [`Taken::settle`] of what is called `aside` in `folder`, and was `known` by that name.
    fn decide(
        &self,
        (folder, aside): (&Arc<OwnedFd>, &OsStr),
        path: &Path,
        known: Option<&Path>,
    ) -> Result<()> {
        let Some(mark) = Mark::read(aside) else { return Ok(()) };
        let place = Place { folder: folder.try_clone().map_err(|_| Errno::MFILE)?, name: aside.to_owned() };
        let is_decided = match if_there(look_in(folder.as_fd(), aside))? {
            None => true,
            Some(seen) if mark.knows(&seen) => unlinkat(folder, aside, AtFlags::empty()).map(|()| true)?,
            Some(_) => {
                let name = self.name_of(&place, path, (&mark, known))?;
                let is_back = name.as_ref().is_some_and(|name| self.give_back(&place, name, &mark).is_ok());
                if !is_back {
                    self.keep(folder, path, name)?;
                }
                is_back
            }
        };
        if is_decided {
            self.lock().remove(&key(folder, aside)?);
        }
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
    fn name_of(
        &self,
        place: &Place,
        path: &Path,
        (mark, known): (&Mark, Option<&Path>),
    ) -> Result<Option<PathBuf>> {
        if let Some(known) = known {
            return Ok(Some(path.with_file_name(name_in(known))));
        }
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

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Key, Left>> {
        self.left.lock().expect("no thread panics with the lock")
    }
}

fn key(folder: &impl AsFd, name: &OsStr) -> Result<Key> {
    let found = rustix::fs::fstat(folder)?;
    Ok((found.st_dev, found.st_ino, name.to_owned()))
}

fn name_in(path: &Path) -> OsString {
    path.file_name().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests;
