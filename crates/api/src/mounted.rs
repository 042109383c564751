//! Which buffer a path is in, by this machine's mount table.

use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

use disk::mount_table::{self, Mount};
use rustix::io::Errno;
use wire::control::Place;

/// A namespace that is mounted here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mounted {
    /// The instance, as `i3`.
    pub instance: String,
    /// Where.
    pub mountpoint: PathBuf,
    /// The device number of its files, major and minor.
    pub device: (u32, u32),
}

impl Mounted {
    /// For the control service.
    pub fn place(&self) -> Place {
        Place::Mount { instance: self.instance.clone(), mountpoint: self.mountpoint.clone() }
    }

    /// The inode number of the file or folder that has the name `path`; `None`: it has a link, or another file system.
    pub fn inode(&self, path: &Path) -> Option<u64> {
        let found = path.symlink_metadata().ok()?;
        let device = (rustix::fs::major(found.dev()), rustix::fs::minor(found.dev()));
        (device == self.device && !found.is_symlink()).then(|| found.ino())
    }

    /// The mounted namespaces.
    ///
    /// # Errors
    /// `/proc` is not there.
    pub fn all() -> io::Result<Vec<Mounted>> {
        Ok(mount_table::mounts()?.into_iter().filter_map(Mounted::of).collect())
    }

    /// The namespace that a mount is one of; `None` where it is somebody else's.
    fn of(mount: Mount) -> Option<Mounted> {
        let instance = mount.instance()?.to_owned();
        Some(Mounted { instance, mountpoint: mount.mountpoint, device: mount.device })
    }

    /// The namespace that has the file of this `st_dev`.
    ///
    /// # Errors
    /// `/proc` is not there.
    pub fn of_device(device: u64) -> io::Result<Option<Mounted>> {
        let device = (rustix::fs::major(device), rustix::fs::minor(device));
        Ok(Mounted::all()?.into_iter().find(|mounted| mounted.device == device))
    }

    /// The namespace that a path is in, and the path below its root, without a slash at either end. Symbolic links are
    /// followed, but not one in the last place that is no folder. What is missing at the end of the path may be
    /// missing.
    ///
    /// # Errors
    /// What the path cannot be looked up with; `Ok(None)`: it is in no buffer.
    pub fn of_path(path: &Path) -> io::Result<Option<(Mounted, String)>> {
        let real = real(path)?;
        let all = Mounted::all()?;
        // The last one mounted at a place is the one that is seen, and of nested ones the innermost has the path.
        let inside = all.iter().filter(|mounted| real.starts_with(&mounted.mountpoint));
        let found = inside.max_by_key(|mounted| mounted.mountpoint.as_os_str().len());
        let Some(found) = found else { return Ok(None) };
        let below = real.strip_prefix(&found.mountpoint).expect("it starts with it");
        // Control's requests are JSON.
        let below = below.to_str().ok_or(Errno::ILSEQ)?;
        Ok(Some((found.clone(), below.to_owned())))
    }
}

/// The path without symbolic links above its last part.
fn real(path: &Path) -> io::Result<PathBuf> {
    if disk::is_folder(path)? {
        return path.canonicalize();
    }
    let absolute = std::path::absolute(path)?;
    let mut missing = Vec::new();
    let mut above = absolute.as_path();
    loop {
        let (Some(parent), Some(Component::Normal(name))) = (above.parent(), above.components().next_back())
        else {
            // A `..` below what is not there leads nowhere.
            return Err(Errno::NOENT.into());
        };
        missing.push(name.to_owned());
        match parent.canonicalize() {
            Ok(parent) => return Ok(missing.iter().rev().fold(parent, |path, name| path.join(name))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => above = parent,
            Err(error) => return Err(error),
        }
    }
}

/// The absolute form of a path on the parallel file system, with its last slash.
///
/// # Errors
/// The working folder is gone.
pub fn absolute(path: &Path) -> io::Result<PathBuf> {
    let slash = path.as_os_str().as_bytes().ends_with(b"/");
    let mut absolute = std::path::absolute(path)?.into_os_string();
    if slash && !absolute.as_bytes().ends_with(b"/") {
        absolute.push("/");
    }
    Ok(absolute.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_mounts_are_told_from_others() {
        let mount = |kind: &str, source: &str| Mount {
            id: 36,
            device: (0, 45),
            root: "/".into(),
            mountpoint: "/mnt/7/striped".into(),
            kind: kind.into(),
            source: source.into(),
        };
        let found = Mounted::of(mount("fuse.forebay", "forebay-i3")).unwrap();
        assert_eq!((found.instance.as_str(), found.device), ("i3", (0, 45)));
        assert_eq!(Mounted::of(mount("fuse.sshfs", "forebay-i4")), None);
        assert_eq!(Mounted::of(mount("fuse.forebay", "/dev/sda1")), None);
    }

    #[test]
    fn what_is_missing_at_the_end_of_a_path_may_be_missing_but_leads_nowhere_else() {
        let folder = tempfile::tempdir().unwrap();
        let base = folder.path().canonicalize().unwrap();
        assert_eq!(real(&base.join("a/b")).unwrap(), base.join("a/b"));
        assert_eq!(real(&base.join("a/../../b")).unwrap_err().kind(), io::ErrorKind::NotFound);
        std::os::unix::fs::symlink("x", base.join("link")).unwrap();
        assert_eq!(real(&base.join("link")).unwrap(), base.join("link"), "the link itself");
    }
}
