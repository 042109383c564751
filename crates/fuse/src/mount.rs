//! Mounting and unmounting: by the system call as root, through `fusermount3` as anybody else.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::mount::{MountFlags, UnmountFlags};
use rustix::process::{getegid, geteuid};

use crate::device::Device;

/// How a file system is mounted. Always `nosuid`, `nodev`, `noatime`, and with the kernel checking permissions.
#[derive(Clone, Copy, Debug)]
pub struct Options<'a> {
    /// What stands for the device in the mount table. No comma.
    pub name: &'a str,
    /// The type is `fuse.` and this.
    pub kind: &'a str,
    /// Other users may enter. For an ordinary user only where `/etc/fuse.conf` says so.
    pub allow_other: bool,
    /// Bytes in one read.
    pub max_read: u32,
}

/// Mounts at `mountpoint`, a folder. The device then has the kernel's first request.
///
/// # Errors
/// What the system call, or `fusermount3`, says.
pub fn mount(mountpoint: &Path, options: &Options<'_>) -> io::Result<Device> {
    if geteuid().is_root() { mount_as_root(mountpoint, options) } else { mount_as_user(mountpoint, options) }
}

/// Takes what is mounted at `mountpoint` out of the tree at once. The mount itself ends with the last file that is open
/// in it and its last copy in another mount namespace; or before that, when its device is closed.
///
/// # Errors
/// What the system call, or `fusermount3`, says.
pub fn unmount(mountpoint: &Path) -> io::Result<()> {
    if geteuid().is_root() {
        return Ok(rustix::mount::unmount(mountpoint, UnmountFlags::DETACH | UnmountFlags::NOFOLLOW)?);
    }
    let mut command = Command::new("fusermount3");
    command.args(["-u", "-z", "--"]).arg(mountpoint);
    succeed(command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn()?)
}

fn mount_as_root(mountpoint: &Path, options: &Options<'_>) -> io::Result<Device> {
    let device = Device::open()?;
    let data = format!(
        "fd={},rootmode={:o},user_id={},group_id={},{}",
        device.as_fd().as_raw_fd(),
        std::fs::metadata(mountpoint)?.mode(),
        geteuid().as_raw(),
        getegid().as_raw(),
        kernel_options(options),
    );
    let data = CString::new(data)?;
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOATIME;
    let kind = format!("fuse.{}", options.kind);
    rustix::mount::mount(options.name, mountpoint, kind, flags, data.as_c_str())?;
    Ok(device)
}

fn kernel_options(options: &Options<'_>) -> String {
    let allow_other = if options.allow_other { ",allow_other" } else { "" };
    format!("default_permissions,max_read={}{allow_other}", options.max_read)
}

/// `fusermount3` opens the device, mounts, and sends the device through the socket that it finds as its standard input.
fn mount_as_user(mountpoint: &Path, options: &Options<'_>) -> io::Result<Device> {
    let (ours, theirs) = UnixStream::pair()?;
    let list = format!(
        "fsname={},subtype={},nosuid,nodev,noatime,{}",
        options.name,
        options.kind,
        kernel_options(options)
    );
    let child = Command::new("fusermount3")
        .args(["-o", &list, "--"])
        .arg(mountpoint)
        .env("_FUSE_COMMFD", "0")
        .stdin(OwnedFd::from(theirs))
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| io::Error::new(error.kind(), format!("start fusermount3: {error}")))?;
    // It closes its end when it fails; the reason is on its standard error.
    let device = Device::receive(&ours);
    succeed(child)?;
    device
}

/// Waits for `fusermount3`.
fn succeed(child: std::process::Child) -> io::Result<()> {
    let output = child.wait_with_output()?;
    if output.status.success() {
        return Ok(());
    }
    Err(io::Error::other(String::from_utf8_lossy(&output.stderr).trim().to_owned()))
}
