//! An XFS file system of a given size in a preallocated image behind a loop device: what a fragment's volume and a job's
//! node-local volume have in common.
//!
//! The image takes its space at once but is not written: unwritten extents read as zeros. The kernel keeps the limit.

use std::fs::{File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::fs::FallocateFlags;
use rustix::mount::{MountFlags, UnmountFlags};

/// mkfs.xfs of xfsprogs 5.19 and later refuses less than 300 MiB; some room beside.
pub const IMAGE_BYTES_MIN: u64 = 320 << 20;

/// What XFS keeps for itself: its log (64 MiB at least on small systems, up to 1/2048 beyond), headers, free-space trees.
pub const OVERHEAD_BYTES: u64 = 96 << 20;

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

/// Makes the image `image` of `bytes` bytes with an empty file system in it.
///
/// # Errors
/// [`VolumeError`].
pub fn create(image: &Path, bytes: u64) -> Result<(), VolumeError> {
    preallocate(image, bytes.max(IMAGE_BYTES_MIN))?;
    run("mkfs.xfs", Command::new("mkfs.xfs").args(["-q", "-K", "-L", "forebay"]).arg(image), image).map(drop)
}

/// Bytes that may still be written below `mountpoint`.
///
/// # Errors
/// [`VolumeError::Io`].
pub fn available(mountpoint: &Path) -> Result<u64, VolumeError> {
    let stat = rustix::fs::statvfs(mountpoint).map_err(|e| failed("measure", mountpoint, e.into()))?;
    Ok(stat.f_bavail * stat.f_frsize)
}

/// Takes the space without writing it: unwritten extents read as zeros.
///
/// # Errors
/// [`VolumeError::Io`].
pub fn preallocate(path: &Path, bytes: u64) -> Result<(), VolumeError> {
    let file: File = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .open(path)
        .map_err(|e| failed("create", path, e))?;
    rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, bytes)
        .map_err(|e| failed("preallocate the volume's space in", path, e.into()))
}

/// Mounts `image` at `mountpoint`.
///
/// # Errors
/// [`VolumeError`].
pub fn mount(image: &Path, mountpoint: &Path) -> Result<(), VolumeError> {
    // Direct I/O keeps the data out of the host's page cache; a file system without it (an older tmpfs) takes the other.
    let attach = |direct: &str| {
        let mut command = Command::new("losetup");
        command.args(["--find", "--show", direct]).arg(image);
        run("losetup", &mut command, image)
    };
    let device = attach("--direct-io=on").or_else(|_| attach("--direct-io=off"))?;
    let device = PathBuf::from(device.trim());
    let mounted = rustix::mount::mount(
        &device,
        mountpoint,
        c"xfs",
        MountFlags::NOATIME | MountFlags::NODEV | MountFlags::NOSUID,
        None,
    )
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

/// Unmounts whatever is mounted at `mountpoint`; what is open there stays so until it is closed.
///
/// # Errors
/// [`VolumeError::Io`].
pub fn detach(mountpoint: &Path) -> Result<(), VolumeError> {
    while mounted(mountpoint) {
        rustix::mount::unmount(mountpoint, UnmountFlags::DETACH)
            .map_err(|e| failed("unmount", mountpoint, e.into()))?;
    }
    Ok(())
}

/// Whether something is mounted at `path` itself.
pub fn mounted(path: &Path) -> bool {
    let device = |path: &Path| rustix::fs::stat(path).map(|stat| stat.st_dev);
    match (device(path), path.parent().map(device)) {
        (Ok(here), Some(Ok(above))) => here != above,
        _ => false,
    }
}

/// An error of a system call.
pub fn failed(operation: &'static str, path: &Path, cause: io::Error) -> VolumeError {
    VolumeError::Io { operation, path: path.to_owned(), cause }
}
