//! A fragment's volume: an XFS file system of the right size, in a preallocated image behind a loop device.
//!
//! ```text
//! FRAGMENT/volume.img       preallocated: the host's disk cannot run full under it
//! FRAGMENT/volume.empty     bytes available in it when it was empty, in decimal
//! FRAGMENT/volume/          where it is mounted
//! FRAGMENT/volume/.ballast  takes what XFS has beyond the capacity (its smallest file system is 300 MiB)
//! FRAGMENT/volume/objects/
//! ```
//!
//! The kernel keeps the limit, so files can be passed through to a job's node without us in between.
//!
//! **Invariant:** only [`create`] formats, in the folder of a fragment that is being made and where no image is.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use rustix::mount::UnmountFlags;

use crate::image::{
    self, OVERHEAD_BYTES, VolumeError, available, detach, failed, is_shut_down, mount, mounted, preallocate,
};
use crate::objects::space::Space;

/// Room for folders and inodes of objects, beyond the capacity.
const OBJECT_OVERHEAD_BYTES: u64 = 8 << 20;

/// Mounts the volume of `capacity` bytes below `fragment`, which must be there, and tells its space.
///
/// # Errors
/// [`VolumeError`]; what is on disk is as it was.
pub fn open(fragment: &Path, capacity: u64) -> Result<Space, VolumeError> {
    let (image, mountpoint) = (image_of(fragment), mountpoint_of(fragment));
    let empty = read_empty(&empty_of(fragment))?;
    if !disk::is_file(&image).map_err(|e| failed("look for", &image, e))? {
        return Err(missing("find the volume's image", &image));
    }
    if mounted(&mountpoint)? && is_shut_down(&mountpoint) {
        tracing::warn!(path = %mountpoint.display(), "the volume's file system has shut down: it is mounted anew");
        detach(&mountpoint)?;
    }
    if !mounted(&mountpoint)? {
        mount(&image, &mountpoint)?;
    }
    if is_shut_down(&mountpoint) {
        return Err(VolumeError::ShutDown { path: mountpoint });
    }
    let objects = mountpoint.join("objects");
    if !disk::is_folder(&objects).map_err(|e| failed("look for", &objects, e))? {
        return Err(missing("find the objects of the volume in", &objects));
    }
    Ok(Space::volume(capacity, mountpoint, empty))
}

/// What was available in the volume when it was empty.
fn read_empty(path: &Path) -> Result<u64, VolumeError> {
    let text = std::fs::read_to_string(path).map_err(|e| failed("read", path, e))?;
    let number = text.trim().parse();
    number.map_err(|_| failed("read a number in", path, io::ErrorKind::InvalidData.into()))
}

fn missing(operation: &'static str, path: &Path) -> VolumeError {
    failed(operation, path, io::ErrorKind::NotFound.into())
}

fn image_of(fragment: &Path) -> PathBuf {
    fragment.join("volume.img")
}

fn empty_of(fragment: &Path) -> PathBuf {
    fragment.join("volume.empty")
}

/// Where the fragment's volume is mounted.
pub fn mountpoint_of(fragment: &Path) -> PathBuf {
    fragment.join("volume")
}

/// Unmounts and removes the volume, however many files are in it. Nothing to do where there is none.
///
/// # Errors
/// [`VolumeError::Io`].
pub fn remove(fragment: &Path) -> Result<(), VolumeError> {
    let mountpoint = mountpoint_of(fragment);
    detach(&mountpoint)?;
    let image = image_of(fragment);
    disk::remove_file(&image).map_err(|e| failed("remove", &image, e))
}

/// Unmounts the volume and keeps it, for a node that stops.
///
/// # Errors
/// [`VolumeError::Io`].
pub fn close(fragment: &Path) -> Result<(), VolumeError> {
    let mountpoint = mountpoint_of(fragment);
    if mounted(&mountpoint)? {
        // Another mount namespace may have a copy of the mount: then unmounting this one writes nothing back.
        image::sync(&mountpoint)?;
        rustix::mount::unmount(&mountpoint, UnmountFlags::empty())
            .map_err(|e| failed("unmount", &mountpoint, e.into()))?;
    }
    Ok(())
}

/// Makes the volume of `capacity` bytes below `fragment`, durably, and leaves it mounted.
///
/// # Errors
/// [`VolumeError`]; what was begun stays.
pub fn create(fragment: &Path, capacity: u64) -> Result<(), VolumeError> {
    let (image, mountpoint) = (image_of(fragment), mountpoint_of(fragment));
    disk::make_folder(&mountpoint).map_err(|e| failed("create", &mountpoint, e))?;
    let wanted = capacity + capacity / 64 + OVERHEAD_BYTES + OBJECT_OVERHEAD_BYTES;
    image::create(&image, wanted)?;
    mount(&image, &mountpoint)?;

    let available = available(&mountpoint)?;
    let surplus = available.saturating_sub(capacity + OBJECT_OVERHEAD_BYTES);
    if surplus > 0 {
        preallocate(&mountpoint.join(".ballast"), surplus)?;
    }
    let objects = mountpoint.join("objects");
    std::fs::create_dir(&objects).map_err(|e| failed("create", &objects, e))?;
    let whole = File::open(&mountpoint).and_then(|root| Ok(rustix::fs::syncfs(root)?));
    whole.map_err(|e| failed("sync", &mountpoint, e))?;
    let empty = empty_of(fragment);
    let bytes = image::available(&mountpoint)?.to_string();
    disk::replace(&empty, bytes.as_bytes()).map_err(|e| failed("write", &empty, e))
}
