//! Names below a folder, reached from the folder downwards: the one way to what is on the PFS and on the node.
//!
//! **Invariant:** no component of a name below the folder is followed through a symbolic link, whoever puts one there
//! and when: each step is an `openat` with `O_NOFOLLOW`, and what is done is done from the last one's descriptor.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Component, Path, PathBuf};

use rustix::fs::{AtFlags, Mode, OFlags, openat};
use rustix::io::Errno;

/// A descriptor that stands for a folder only: nothing is read by it.
const FOLDER: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// A name in a folder that is held open.
pub(crate) struct Place {
    pub(crate) folder: OwnedFd,
    pub(crate) name: OsString,
}

impl Place {
    /// A path that leads there as long as this is held, wherever the folder is moved to: for what takes paths. It
    /// depends on who takes it whether a symbolic link is followed that has the name itself.
    pub(crate) fn path(&self) -> PathBuf {
        Path::new("/proc/self/fd").join(self.folder.as_raw_fd().to_string()).join(&self.name)
    }
}

/// The place of `path`, which is below `root`, or relative to it. What an earlier drain noted below another folder is
/// reached from `/`, as strictly: those paths were free of links.
///
/// # Errors
/// NOTDIR where a component above the last is a symbolic link or a file; of `openat` otherwise.
pub(crate) fn reach(root: &Path, path: &Path) -> rustix::io::Result<Place> {
    let (top, rest) = rooted(root, path);
    let (Some(above), Some(name)) = (rest.parent(), rest.file_name()) else {
        return Ok(Place { folder: descend(top, rest)?, name: OsString::from(".") });
    };
    Ok(Place { folder: descend(top, above)?, name: name.to_owned() })
}

/// The place of the folder `path` itself, which is no symbolic link.
///
/// # Errors
/// As of [`reach`].
pub(crate) fn inside(root: &Path, path: &Path) -> rustix::io::Result<Place> {
    let (top, rest) = rooted(root, path);
    Ok(Place { folder: descend(top, rest)?, name: OsString::from(".") })
}

/// The first component on the way to `path` that is no folder, if there is one.
pub(crate) fn obstacle(root: &Path, path: &Path) -> Option<PathBuf> {
    let (top, rest) = rooted(root, path);
    let mut folder = rustix::fs::open(top, FOLDER, Mode::empty()).ok()?;
    let mut way = top.to_owned();
    for component in rest.parent()?.components() {
        way.push(component);
        match step(&folder, component.as_os_str()) {
            Ok(next) => folder = next,
            Err(Errno::NOTDIR) => return Some(way),
            Err(_) => return None,
        }
    }
    None
}

/// Opens the file `path` to write, empty, and makes it if it is missing. A link in its place goes; what it leads to is
/// let alone.
///
/// # Errors
/// Of the file system.
pub(crate) fn create(root: &Path, path: &Path) -> std::io::Result<File> {
    let place = reach(root, path)?;
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let open = || openat(&place.folder, &place.name, flags, Mode::from_raw_mode(0o666));
    let opened = match open() {
        Err(Errno::LOOP) => {
            rustix::fs::unlinkat(&place.folder, &place.name, AtFlags::empty())?;
            open()?
        }
        opened => opened?,
    };
    Ok(File::from(opened))
}

/// Makes the folder `path` and what is missing above it, below `root`, which is there.
///
/// # Errors
/// Of the file system; NOTDIR where something else has the name of one of them.
pub(crate) fn make_folders(root: &Path, path: &Path) -> rustix::io::Result<()> {
    let (top, rest) = rooted(root, path);
    let mut folder = rustix::fs::open(top, FOLDER, Mode::empty())?;
    for component in rest.components() {
        match rustix::fs::mkdirat(&folder, component.as_os_str(), Mode::from_raw_mode(0o777)) {
            Ok(()) | Err(Errno::EXIST) => folder = step(&folder, component.as_os_str())?,
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}

fn rooted<'a>(root: &'a Path, path: &'a Path) -> (&'a Path, &'a Path) {
    match (path.strip_prefix(root), path.strip_prefix("/")) {
        (Ok(rest), _) => (root, rest),
        (Err(_), Ok(rest)) => (Path::new("/"), rest),
        (Err(_), Err(_)) => (root, path),
    }
}

fn descend(top: &Path, rest: &Path) -> rustix::io::Result<OwnedFd> {
    let mut folder = rustix::fs::open(top, FOLDER, Mode::empty())?;
    for component in rest.components() {
        let Component::Normal(name) = component else { return Err(Errno::XDEV) };
        folder = step(&folder, name)?;
    }
    Ok(folder)
}

/// A symbolic link is no directory.
fn step(folder: &OwnedFd, name: &OsStr) -> rustix::io::Result<OwnedFd> {
    openat(folder, name, FOLDER | OFlags::NOFOLLOW, Mode::empty())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn no_name_is_reached_through_a_link() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("root");
        std::fs::create_dir_all(root.join("a/b")).unwrap();
        std::fs::create_dir(folder.path().join("outside")).unwrap();
        symlink("../outside", root.join("out")).unwrap();
        symlink("a", root.join("in")).unwrap();
        for path in ["out/x", "in/x", "in/b/x"] {
            assert_eq!(reach(&root, &root.join(path)).map(drop), Err(Errno::NOTDIR), "{path}");
        }
        assert_eq!(inside(&root, Path::new("in")).map(drop), Err(Errno::NOTDIR));
        assert_eq!(make_folders(&root, Path::new("out/x")), Err(Errno::NOTDIR));
        assert_eq!(reach(&root, Path::new("a/../../x")).map(drop), Err(Errno::XDEV));
        assert_eq!(obstacle(&root, Path::new("in/b/x")), Some(root.join("in")));
        assert_eq!(obstacle(&root, Path::new("a/b/x")), None);
        create(&root, Path::new("in")).unwrap();
        assert!(std::fs::symlink_metadata(root.join("in")).unwrap().is_file());
        std::fs::write(reach(&root, Path::new("a/b/x")).unwrap().path(), "x").unwrap();
        assert!(disk::exists(&root.join("a/b/x")).unwrap());
        // Another folder than the one that is drained to now.
        assert_eq!(reach(Path::new("/nowhere"), &root.join("out/x")).map(drop), Err(Errno::NOTDIR));
        reach(Path::new("/nowhere"), &folder.path().canonicalize().unwrap().join("root/a/x")).unwrap();
    }
}
