//! A few folders below a root, held open from one name to the next.
//!
//! **Invariant:** a folder that is held was reached as strictly as every name. Whether its path still leads to it is
//! not known: who gives a file its name, or says what is at a path, asks the root.

use std::ffi::OsStr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::fs::{Mode, OFlags, openat};
use rustix::io::{Errno, Result};

use super::Root;

/// As many folders are held: a few threads work in one or two each.
const HELD_MAX: usize = 8;

/// Folders below a root.
#[derive(Debug)]
pub struct Folders {
    root: Root,
    held: Mutex<Held>,
}

#[derive(Debug, Default)]
struct Held {
    /// So often all were let go.
    times: u64,
    /// The one that was used last comes last.
    folders: Vec<(PathBuf, Arc<OwnedFd>)>,
}

impl Folders {
    /// Holds none yet.
    pub fn below(root: Root) -> Folders {
        Folders { root, held: Mutex::default() }
    }

    /// The root.
    pub fn root(&self) -> &Root {
        &self.root
    }

    /// Does something with the name of `path` in its folder, which may have been held for a while.
    ///
    /// # Errors
    /// As of [`Root::reach`], and those of `work`. Every other than EXIST is one of the folder that is there now.
    pub fn with<T>(&self, path: &Path, work: impl Fn(BorrowedFd<'_>, &OsStr) -> Result<T>) -> Result<T> {
        match (path.parent(), path.file_name()) {
            (Some(above), Some(name)) if path != self.root.path() => {
                self.within(above, |folder| work(folder, name))
            }
            _ => self.within(path, |folder| work(folder, OsStr::new("."))),
        }
    }

    /// The same in the folder `path` itself.
    ///
    /// # Errors
    /// As of [`Folders::with`].
    pub fn within<T>(&self, path: &Path, work: impl Fn(BorrowedFd<'_>) -> Result<T>) -> Result<T> {
        if let Some(folder) = self.get(path) {
            match work(folder.as_fd()) {
                // It may have been removed, or its file system unmounted, and be there anew.
                Err(errno) if errno != Errno::EXIST => {}
                outcome => return outcome,
            }
        }
        let times = self.lock().times;
        let folder = Arc::new(self.root.inside(path)?.folder);
        self.put(path, folder.clone(), times);
        work(folder.as_fd())
    }

    /// Opens `path` itself, which may be in a folder that was held for a while.
    ///
    /// # Errors
    /// As of [`Root::open`].
    pub fn open(&self, path: &Path, flags: OFlags, mode: Mode) -> Result<OwnedFd> {
        let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        self.with(path, |folder, name| openat(folder, name, flags, mode))
    }

    /// Holds none any more.
    pub fn let_go(&self) {
        let mut held = self.lock();
        held.times += 1;
        held.folders.clear();
    }

    fn get(&self, path: &Path) -> Option<Arc<OwnedFd>> {
        let folders = &mut self.lock().folders;
        let place = folders.iter().position(|(held, _)| held == path)?;
        folders[place..].rotate_left(1);
        folders.last().map(|(_, folder)| folder.clone())
    }

    /// Holds a folder that was reached when all had been let go so often.
    fn put(&self, path: &Path, folder: Arc<OwnedFd>, times: u64) {
        let mut held = self.lock();
        if held.times != times {
            return;
        }
        let folders = &mut held.folders;
        folders.retain(|(held, _)| held != path);
        if folders.len() == HELD_MAX {
            folders.remove(0);
        }
        folders.push((path.to_owned(), folder));
    }

    fn lock(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use rustix::fs::{AtFlags, fstat, statat};

    use super::*;

    fn inode(folders: &Folders, path: &str) -> Result<u64> {
        let look = |folder: BorrowedFd<'_>, name: &OsStr| statat(folder, name, AtFlags::SYMLINK_NOFOLLOW);
        folders.with(Path::new(path), look).map(|found| found.st_ino)
    }

    #[test]
    fn what_is_not_in_a_folder_that_is_held_is_looked_for_in_the_one_that_is_there_now() {
        let top = tempfile::tempdir().unwrap();
        let path = |name: &str| top.path().join(name);
        std::fs::create_dir(path("a")).unwrap();
        std::fs::write(path("a/file"), "").unwrap();
        let folders = Folders::below(Root::at(top.path()));
        let file = inode(&folders, "a/file").unwrap();
        std::fs::rename(path("a"), path("b")).unwrap();
        std::fs::create_dir(path("a")).unwrap();
        std::fs::write(path("a/other"), "").unwrap();
        assert_eq!(inode(&folders, "a/file"), Ok(file), "that is what holding means");
        inode(&folders, "a/other").unwrap();
        assert_eq!(inode(&folders, "a/file"), Err(Errno::NOENT));
        std::fs::remove_dir_all(path("a")).unwrap();
        std::fs::rename(path("b"), path("a")).unwrap();
        let read = |folder: BorrowedFd<'_>| openat(folder, "file", OFlags::RDONLY, Mode::empty());
        assert_eq!(fstat(folders.within(&path("a"), read).unwrap()).unwrap().st_ino, file);
    }

    #[test]
    fn a_folder_that_was_being_reached_when_all_were_let_go_is_not_held() {
        let top = tempfile::tempdir().unwrap();
        let folders = Folders::below(Root::at(top.path()));
        let (times, reached) = (folders.lock().times, folders.root.inside(top.path()).unwrap().folder);
        folders.let_go();
        folders.put(Path::new(""), Arc::new(reached), times);
        assert!(folders.lock().folders.is_empty());
    }

    #[test]
    fn no_folder_is_held_that_was_reached_through_a_link_and_no_more_than_a_few() {
        let top = tempfile::tempdir().unwrap();
        let folders = Folders::below(Root::hold(top.path()).unwrap());
        for number in 0..3 * HELD_MAX {
            std::fs::create_dir(top.path().join(number.to_string())).unwrap();
            inode(&folders, &format!("{number}/x")).unwrap_err();
            inode(&folders, "0/x").unwrap_err();
        }
        let held: Vec<_> = folders.lock().folders.iter().map(|(path, _)| path.clone()).collect();
        assert_eq!(held.len(), HELD_MAX);
        assert!(held.contains(&PathBuf::from("0")), "the one that is used most: {held:?}");
        folders.let_go();
        std::os::unix::fs::symlink("0", top.path().join("link")).unwrap();
        assert_eq!(inode(&folders, "link/x"), Err(Errno::NOTDIR));
        assert!(folders.lock().folders.is_empty());
        inode(&folders, "").unwrap();
    }
}
