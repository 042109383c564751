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

use std::fs::{File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::fs::FallocateFlags;
use rustix::mount::{MountFlags, UnmountFlags};

use super::space::Space;
use crate::shard::log::sync_folder;

/// mkfs.xfs of xfsprogs 5.19 and later refuses less than 300 MiB; some room beside.
const IMAGE_BYTES_MIN: u64 = 320 << 20;

/// What XFS keeps for itself: its log (64 MiB at least on small systems, up to 1/2048 beyond), headers, free-space trees.
const OVERHEAD_BYTES: u64 = 96 << 20;

/// Room for folders and inodes of objects, beyond the capacity.
const OBJECT_OVERHEAD_BYTES: u64 = 8 << 20;

/// Why a volume cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum VolumeError {
    /// A system call failed.
    #[error("{operation} {path}: {cause}")]
    Io {
        /// What was tried.
        operation: &'static str,
        /// On what.
        path: PathBuf,
        /// Why.
        cause: io::Error,
    },
    /// A tool failed.
    #[error("{tool} for {path}: {output}")]
    Tool {
        /// Its name.
        tool: &'static str,
        /// On what.
        path: PathBuf,
        /// What it said.
        output: String,
    },
}

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
    while mounted(&mountpoint) {
        rustix::mount::unmount(&mountpoint, UnmountFlags::DETACH)
            .map_err(|e| failed("unmount", &mountpoint, e.into()))?;
    }
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
    preallocate(&image, wanted.max(IMAGE_BYTES_MIN))?;
    run("mkfs.xfs", Command::new("mkfs.xfs").args(["-q", "-K", "-L", "forebay"]).arg(&image), &image)?;
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
    let empty = self::available(&mountpoint)?.to_string();
    File::create(&marker)
        .and_then(|mut file| io::Write::write_all(&mut file, empty.as_bytes()).and_then(|()| file.sync_all()))
        .and_then(|()| sync_folder(&marker))
        .map_err(|e| failed("write", &marker, e))
}

fn available(mountpoint: &Path) -> Result<u64, VolumeError> {
    let stat = rustix::fs::statvfs(mountpoint).map_err(|e| failed("measure", mountpoint, e.into()))?;
    Ok(stat.f_bavail * stat.f_frsize)
}

/// Takes the space without writing it: unwritten extents read as zeros.
fn preallocate(path: &Path, bytes: u64) -> Result<(), VolumeError> {
    let file: File = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .open(path)
        .map_err(|e| failed("create", path, e))?;
    rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, bytes)
        .map_err(|e| failed("preallocate the fragment's space in", path, e.into()))
}

fn mount(image: &Path, mountpoint: &Path) -> Result<(), VolumeError> {
    // Direct I/O keeps the data out of the host's page cache; a file system without it (an older tmpfs) takes the other.
    let attach = |direct: &str| {
        let mut command = Command::new("losetup");
        command.args(["--find", "--show", direct]).arg(image);
        run("losetup", &mut command, image)
    };
    let device = attach("--direct-io=on").or_else(|_| attach("--direct-io=off"))?;
    let device = PathBuf::from(device.trim());
    let mounted =
        rustix::mount::mount(&device, mountpoint, c"xfs", MountFlags::NOATIME | MountFlags::NODEV, None)
            .map_err(|e| failed("mount the volume at", mountpoint, e.into()));
    // Detaching a device in use only marks it: the kernel lets it go with the last unmount, also after a crash of ours.
    run("losetup", Command::new("losetup").arg("--detach").arg(&device), &device)?;
    mounted
}

fn run(tool: &'static str, command: &mut Command, path: &Path) -> Result<String, VolumeError> {
    let output = command.output().map_err(|e| failed("run a tool (is xfsprogs installed?) for", path, e))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr).trim().replace('\n', "; ");
        return Err(VolumeError::Tool { tool, path: path.to_owned(), output: said });
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Whether something is mounted at `path` itself.
fn mounted(path: &Path) -> bool {
    let device = |path: &Path| rustix::fs::stat(path).map(|stat| stat.st_dev);
    match (device(path), path.parent().map(device)) {
        (Ok(here), Some(Ok(above))) => here != above,
        _ => false,
    }
}

fn failed(operation: &'static str, path: &Path, cause: io::Error) -> VolumeError {
    VolumeError::Io { operation, path: path.to_owned(), cause }
}
