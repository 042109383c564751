//! Where a user finds the volume of the job that runs: `LOCAL_ROOT/USER`.
//!
//! A volume that is kept after its job has the same path as the volume of the user's next job.
//!
//! **Invariant:** a volume shows and hides nothing but itself, one volume at a time.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use store::image::{self, VolumeError, failed};

/// Held by who changes what is at the users' paths of a node.
#[derive(Clone, Debug, Default)]
pub(super) struct UserPathsLock(Arc<Mutex<()>>);

/// The path of a volume's user.
#[derive(Clone, Debug)]
pub(super) struct UserPath {
    pub(super) path: PathBuf,
    lock: UserPathsLock,
}

impl UserPath {
    pub(super) fn new(path: PathBuf, lock: &UserPathsLock) -> UserPath {
        UserPath { path, lock: lock.clone() }
    }

    /// Shows the volume that is mounted at `mountpoint`, instead of an earlier one that is still there.
    pub(super) fn show(&self, mountpoint: &Path) -> Result<(), VolumeError> {
        let _held = self.lock.0.lock().unwrap_or_else(PoisonError::into_inner);
        disk::make_passable(&self.path).map_err(|e| failed("make", &self.path, e))?;
        if image::mounted(&self.path)? {
            if self.shows(mountpoint)? {
                return Ok(());
            }
            image::detach(&self.path)?;
        }
        rustix::mount::mount_bind(mountpoint, &self.path)
            .map_err(|e| failed("mount the volume at", &self.path, e.into()))
    }

    /// Hides the volume that is mounted at `mountpoint`; another one that is there by now stays.
    pub(super) fn hide(&self, mountpoint: &Path) -> Result<(), VolumeError> {
        let _held = self.lock.0.lock().unwrap_or_else(PoisonError::into_inner);
        if image::mounted(&self.path)? {
            if !self.shows(mountpoint)? {
                return Ok(());
            }
            image::detach(&self.path)?;
        }
        // Not empty, or gone: neither is ours.
        let _ = fs::remove_dir(&self.path);
        Ok(())
    }

    /// Whether what is mounted at the path is what is mounted at `mountpoint`.
    fn shows(&self, mountpoint: &Path) -> Result<bool, VolumeError> {
        let folder = |path: &Path| {
            let found = disk::find(path).map_err(|e| failed("look for", path, e))?;
            Ok(found.map(|found| (found.dev(), found.ino())))
        };
        Ok(folder(&self.path)? == folder(mountpoint)?)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::{UserPath, UserPathsLock, image};

    #[test]
    fn a_volume_takes_the_path_of_an_earlier_one_and_the_earlier_one_leaves_it() {
        let root = tempfile::tempdir().unwrap();
        let [earlier, later, path] = ["earlier", "later", "path"].map(|name| root.path().join(name));
        for folder in [&earlier, &later] {
            fs::create_dir_all(folder).unwrap();
            rustix::mount::mount_bind(folder, folder).unwrap();
        }
        let user = UserPath::new(path.clone(), &UserPathsLock::default());
        user.show(&earlier).unwrap();
        assert!(user.shows(&earlier).unwrap());
        user.show(&later).unwrap();
        assert!(user.shows(&later).unwrap());
        user.hide(&earlier).unwrap();
        assert!(image::mounted(&path).unwrap() && user.shows(&later).unwrap());
        user.hide(&later).unwrap();
        assert!(!image::mounted(&path).unwrap() && disk::find(&path).unwrap().is_none());
        for folder in [&earlier, &later] {
            image::detach(folder).unwrap();
        }
    }
}
