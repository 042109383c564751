//! An XFS file system of a given size in a preallocated image behind a loop device: what a fragment's volume and a
//! job's node-local volume have in common.
//!
//! The image takes its space at once but is not written: unwritten extents read as zeros. The kernel keeps the limit.

use std::ffi::CStr;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::fs::{FallocateFlags, Mode, OFlags};
use rustix::io::Errno;
use rustix::mount::{MountFlags, UnmountFlags};

/// mkfs.xfs of xfsprogs 5.19 and later refuses less than 300 MiB; some room beside.
pub const IMAGE_BYTES_MIN: u64 = 320 << 20;

/// What XFS keeps for itself: its log (64 MiB at least on small systems, up to 1/2048 beyond), headers, free-space
/// trees.
pub const OVERHEAD_BYTES: u64 = 96 << 20;

/// How volumes are mounted.
pub const MOUNT_FLAGS: MountFlags = MountFlags::NOATIME.union(MountFlags::NODEV).union(MountFlags::NOSUID);

/// No space is taken for a file beyond its end. XFS does that for files that grow, up to half of what they have, and
/// gives it back when they are closed; but a node keeps objects open, so that a buffer looked full long before it was.
///
/// An image that was brought back from a copy has the original's UUID, and that may be mounted still, in another mount
/// namespace. That no image is mounted twice is seen by its inode, in [`mount`].
const OPTIONS: &CStr = c"allocsize=4k,nouuid";

/// Why a volume cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum VolumeError {
    /// Its file system has shut down, and cannot be mounted anew while somebody uses it.
    #[error(
        "the file system at {path} has shut down after an error of the disk below it, and cannot be mounted anew while \
         programs have files of it open"
    )]
    ShutDown {
        /// Where it is mounted.
        path: PathBuf,
    },
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

/// Makes the image `image` of `bytes` bytes with an empty file system in it, durably.
///
/// # Errors
/// [`VolumeError`]; where something is at `image`, it is untouched.
pub fn create(image: &Path, bytes: u64) -> Result<(), VolumeError> {
    preallocate(image, bytes.max(IMAGE_BYTES_MIN))?;
    format(image)?;
    let synced = File::open(image).and_then(|file| file.sync_all()).and_then(|()| disk::sync_names(image));
    synced.map_err(|e| failed("sync", image, e))
}

/// Makes an empty XFS on a device or in an image, whatever was there.
///
/// # Errors
/// [`VolumeError`].
pub fn format(device: &Path) -> Result<(), VolumeError> {
    let mut command = Command::new("mkfs.xfs");
    tool("mkfs.xfs", command.args(["-q", "-f", "-K", "-L", "forebay"]).arg(device), device).map(drop)
}

/// Bytes that may still be written below `mountpoint`.
///
/// # Errors
/// [`VolumeError::Io`].
pub fn available(mountpoint: &Path) -> Result<u64, VolumeError> {
    let stat = rustix::fs::statvfs(mountpoint).map_err(|e| failed("measure", mountpoint, e.into()))?;
    Ok(stat.f_bavail * stat.f_frsize)
}

/// Makes the file `path` and takes its space without writing it: unwritten extents read as zeros.
///
/// # Errors
/// [`VolumeError::Io`]; where something is at `path`, it is untouched.
pub fn preallocate(path: &Path, bytes: u64) -> Result<(), VolumeError> {
    let file: File =
        OpenOptions::new().write(true).create_new(true).open(path).map_err(|e| failed("create", path, e))?;
    // It is not begun again by itself after a signal, as other calls are.
    rustix::io::retry_on_intr(|| rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, bytes))
        .map_err(|e| failed("preallocate the volume's space in", path, e.into()))
}

/// Mounts `image` at `mountpoint`, by the loop device that it has if it has one: a process in a mount namespace that
/// was cloned meanwhile may still have it mounted, and the kernel mounts no file system from two devices at once.
///
/// # Errors
/// [`VolumeError`].
pub fn mount(image: &Path, mountpoint: &Path) -> Result<(), VolumeError> {
    if let Some(device) = device_of(image)? {
        let mounted = mount_by(image, &device, mountpoint);
        // It may have let go of the image in this moment, with its last mount: then the image needs a device again.
        if mounted.is_ok() || device_of(image)?.is_some() {
            return mounted;
        }
    }
    mount_by(image, &attach(image)?, mountpoint)
}

/// The loop device that `image` is attached to, in whatever mount namespace: told by the image's inode, not its name.
fn device_of(image: &Path) -> Result<Option<PathBuf>, VolumeError> {
    let mut command = Command::new("losetup");
    command.args(["--noheadings", "--raw", "--output", "NAME", "--associated"]).arg(image);
    let said = tool("losetup", &mut command, image)?;
    Ok(said.lines().next().map(|name| PathBuf::from(name.trim())))
}

fn attach(image: &Path) -> Result<PathBuf, VolumeError> {
    // Direct I/O keeps the data out of the host's page cache; a file system without it (an older tmpfs) takes the
    // other.
    let attach = |direct: &str| {
        let mut command = Command::new("losetup");
        command.args(["--find", "--show", direct]).arg(image);
        tool("losetup", &mut command, image)
    };
    let device = attach("--direct-io=on").or_else(|_| attach("--direct-io=off"))?;
    Ok(PathBuf::from(device.trim()))
}

/// Mounts `image` by the device that it is attached to.
fn mount_by(image: &Path, device: &Path, mountpoint: &Path) -> Result<(), VolumeError> {
    let mounted = mount_device(device, mountpoint);
    // Detaching a device in use only marks it: the kernel lets it go with the last unmount, also after a crash of ours.
    let detached = tool("losetup", Command::new("losetup").arg("--detach").arg(device), image);
    mounted.and(detached.map(drop))
}

/// Mounts the XFS on `device` at `mountpoint`.
///
/// # Errors
/// [`VolumeError`].
pub fn mount_device(device: &Path, mountpoint: &Path) -> Result<(), VolumeError> {
    rustix::mount::mount(device, mountpoint, c"xfs", MOUNT_FLAGS, Some(OPTIONS))
        .map_err(|e| failed("mount the volume at", mountpoint, e.into()))
}

/// Runs a tool that works on `path`, and gives what it prints.
///
/// # Errors
/// [`VolumeError::Tool`], with what it says.
pub fn tool(tool: &'static str, command: &mut Command, path: &Path) -> Result<String, VolumeError> {
    let broken = |output: String| VolumeError::Tool { tool, path: path.to_owned(), output };
    let output =
        command.output().map_err(|e| broken(format!("it cannot be run ({e}): install its package")))?;
    if !output.status.success() {
        return Err(broken(String::from_utf8_lossy(&output.stderr).trim().replace('\n', "; ")));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Makes all that was written below `mountpoint` survive a power loss.
///
/// # Errors
/// [`VolumeError::Io`].
pub fn sync(mountpoint: &Path) -> Result<(), VolumeError> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::open(mountpoint, flags, Mode::empty())
        .and_then(rustix::fs::syncfs)
        .map_err(|e| failed("write back the volume at", mountpoint, e.into()))
}

/// Unmounts whatever is mounted at `mountpoint`; what is open there stays so until it is closed.
///
/// # Errors
/// [`VolumeError::Io`].
pub fn detach(mountpoint: &Path) -> Result<(), VolumeError> {
    while mounted(mountpoint)? {
        rustix::mount::unmount(mountpoint, UnmountFlags::DETACH)
            .map_err(|e| failed("unmount", mountpoint, e.into()))?;
    }
    Ok(())
}

/// Whether something is mounted at `path` itself, be it a part of the file system above it. Nothing is where `path` is
/// not.
///
/// # Errors
/// [`VolumeError::Io`]: it cannot be told.
pub fn mounted(path: &Path) -> Result<bool, VolumeError> {
    let unknown = |error| failed("tell whether a volume is mounted at", path, error);
    let Some(here) = disk::if_there(mount_of(path)).map_err(unknown)? else { return Ok(false) };
    let Some(parent) = path.parent() else { return Ok(true) };
    Ok(here != mount_of(parent).map_err(unknown)?)
}

/// Whether the file system at `path` has shut down: XFS does that after an error of the disk below it, and answers
/// everything with EIO until it is mounted anew.
pub fn is_shut_down(path: &Path) -> bool {
    matches!(rustix::fs::stat(path), Err(Errno::IO))
}

/// The kernel's line about the mount that `path` is on.
fn mount_of(path: &Path) -> io::Result<String> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let file = rustix::fs::open(path, flags, Mode::empty())?;
    let text = std::fs::read_to_string(format!("/proc/self/fdinfo/{}", file.as_raw_fd()))?;
    let line = text.lines().find(|line| line.starts_with("mnt_id:"));
    Ok(line.ok_or(io::ErrorKind::Unsupported)?.to_owned())
}

/// An error of a system call.
pub fn failed(operation: &'static str, path: &Path, cause: io::Error) -> VolumeError {
    VolumeError::Io { operation, path: path.to_owned(), cause }
}
