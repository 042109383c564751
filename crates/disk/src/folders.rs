//! Folders that come and go as a whole: in each of a parent's folders is what belongs to one id.
//!
//! **Invariant:** a folder under its own name was finished, and nobody has begun to remove it.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::{if_there, sync_names};

const MAKING: &str = ".making-";
const REMOVING: &str = ".removing-";

/// How far a folder is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// It was being made when its process ended: nobody was told of it.
    Making,
    /// It is in use.
    InUse,
    /// It was being removed when its process ended.
    Removing,
}

/// A folder, or something else, in the parent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// Where it is.
    pub path: PathBuf,
    /// What its name says.
    pub stage: Stage,
}

/// Everything in `parent`, in the order of the names.
///
/// # Errors
/// The file system's: then nothing is known of any of them.
pub fn names(parent: &Path) -> io::Result<Vec<Found>> {
    let mut all = Vec::new();
    for entry in std::fs::read_dir(parent)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().as_bytes();
        let stage = match name {
            _ if name.starts_with(MAKING.as_bytes()) => Stage::Making,
            _ if name.starts_with(REMOVING.as_bytes()) => Stage::Removing,
            _ => Stage::InUse,
        };
        all.push(Found { path, stage });
    }
    all.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(all)
}

/// Where the folder `path` is while it is being made.
pub fn making(path: &Path) -> PathBuf {
    beside(path, MAKING)
}

/// Gives the finished folder [`making`] its name `path`, in one step; durably after [`sync_names`].
///
/// # Errors
/// It has not its name; also ENOTEMPTY or ENOTDIR where something is at `path`, which is untouched then.
pub fn publish(path: &Path) -> io::Result<()> {
    std::fs::rename(making(path), path)
}

/// Where the folder `path` is while it is being removed.
pub fn removing(path: &Path) -> PathBuf {
    beside(path, REMOVING)
}

/// Takes the folder `path` out of use, durably, in one step: it is at [`removing`] then. Nothing to do where there is
/// none.
///
/// # Errors
/// The file system's; also ENOTEMPTY where an earlier one is still being removed.
pub fn begin_removal(path: &Path) -> io::Result<()> {
    match if_there(std::fs::rename(path, removing(path)))? {
        Some(()) => sync_names(path),
        None => Ok(()),
    }
}

/// Removes a folder that is not in use, with all that is in it. Nothing to do where there is none.
///
/// # Errors
/// The file system's; repeat it.
pub fn discard(folder: &Path) -> io::Result<()> {
    if_there(std::fs::remove_dir_all(folder))?;
    sync_names(folder)
}

fn beside(path: &Path, prefix: &str) -> PathBuf {
    let mut name = OsStr::new(prefix).to_owned();
    name.push(path.file_name().unwrap_or_default());
    path.with_file_name(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_appears_and_goes_as_a_whole() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("i1");
        let stages = || names(dir.path()).unwrap().into_iter().map(|found| found.stage).collect::<Vec<_>>();
        std::fs::create_dir_all(making(&path).join("objects")).unwrap();
        assert_eq!(stages(), [Stage::Making]);
        publish(&path).unwrap();
        assert_eq!(stages(), [Stage::InUse]);
        begin_removal(&path).unwrap();
        assert_eq!(stages(), [Stage::Removing]);
        begin_removal(&path).unwrap();
        discard(&removing(&path)).unwrap();
        assert_eq!(stages(), []);
        discard(&removing(&path)).unwrap();
    }

    #[test]
    fn nothing_is_published_over_what_is_there() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("i1");
        std::fs::create_dir_all(making(&path)).unwrap();
        std::fs::create_dir_all(path.join("objects")).unwrap();
        publish(&path).unwrap_err();
        assert!(super::super::is_folder(&path.join("objects")).unwrap());
    }
}
