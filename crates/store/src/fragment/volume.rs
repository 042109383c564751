//! A fragment's volume: an XFS file system of the right size, in a preallocated image behind a loop device.
//!
//! ```text
//! FRAGMENT/volume.img       preallocated: the host's disk cannot run full under it
//! FRAGMENT/volume/          where it is mounted
//! FRAGMENT/volume/.ballast  takes what XFS has beyond the capacity (its smallest file system is 300 MiB)
//! FRAGMENT/volume/objects/
//! ```
//!
//! The kernel keeps the limit, so files can be passed through to a job's node without us in between.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use rustix::mount::UnmountFlags;

use super::space::Space;
use crate::image::{
    self, OVERHEAD_BYTES, VolumeError, available, detach, failed, mount, mounted, preallocate,
};
use crate::shard::log::sync_folder;

/// Room for folders and inodes of objects, beyond the capacity.
const OBJECT_OVERHEAD_BYTES: u64 = 8 << 20;

/// Makes the volume of `capacity` bytes below `fragment`, or mounts the one that is there, and tells its space.
///
/// # Errors
/// [`VolumeError`]; a volume that could not be finished is removed again.
pub fn open(fragment: &Path, capacity: u64) -> Result<Space, VolumeError> {
    let (image, mountpoint) = (fragment.join("volume.img"), fragment.join("volume"));
    let finished = mountpoint.join("objects");
    if !fragment.join("volume.empty").exists() {
        if let Err(error) = create(fragment, capacity) {
            remove(fragment)?;
            return Err(error);
        }
    } else if !mounted(&mountpoint) {
        mount(&image, &mountpoint)?;
    }
    let empty =
        std::fs::read_to_string(fragment.join("volume.empty")).ok().and_then(|text| text.trim().parse().ok());
    let Some(empty) = empty.filter(|_| finished.is_dir()) else {
        return Err(VolumeError::Io {
            operation: "find the finished volume below",
            path: fragment.to_owned(),
            cause: io::ErrorKind::NotFound.into(),
        });
    };
    Ok(Space::Volume { capacity, mountpoint, empty })
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
    for file in ["volume.img", "volume.empty"] {
        let path = fragment.join(file);
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(failed("remove", &path, error));
            }
            _ => {}
        }
    }
    Ok(())
}

/// Unmounts the volume and keeps it, for a node that stops.
///
/// # Errors
/// [`VolumeError::Io`].
pub fn close(fragment: &Path) -> Result<(), VolumeError> {
    let mountpoint = mountpoint_of(fragment);
    if mounted(&mountpoint) {
        // Another mount namespace may have a copy of the mount: then unmounting this one writes nothing back.
        image::sync(&mountpoint)?;
        rustix::mount::unmount(&mountpoint, UnmountFlags::empty())
            .map_err(|e| failed("unmount", &mountpoint, e.into()))?;
    }
    Ok(())
}

fn create(fragment: &Path, capacity: u64) -> Result<(), VolumeError> {
    let (image, mountpoint) = (fragment.join("volume.img"), mountpoint_of(fragment));
    remove(fragment)?;
    std::fs::create_dir_all(&mountpoint).map_err(|e| failed("create", &mountpoint, e))?;
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
    // Written last, and durably: whoever finds it finds a finished volume, and a volume without it is made anew.
    let marker = fragment.join("volume.empty");
    let empty = image::available(&mountpoint)?.to_string();
    File::create(&marker)
        .and_then(|mut file| io::Write::write_all(&mut file, empty.as_bytes()).and_then(|()| file.sync_all()))
        .and_then(|()| sync_folder(&marker))
        .map_err(|e| failed("write", &marker, e))
}
