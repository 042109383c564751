//! The kernel's mount table: is something mounted here, and away with it.

use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::mount::{UnmountFlags, unmount};

/// What the supervision of mounts asks of the kernel. Tests have their own.
pub trait MountTable: Send + Sync + 'static {
    /// Whether a file system of ours is mounted at `path`. Does not touch `path`: a dead FUSE mount would hang or fail.
    ///
    /// # Errors
    /// The table cannot be read.
    fn is_mounted(&self, path: &Path) -> io::Result<bool>;

    /// Takes the topmost mount at `path` out of the tree at once, also where files are open.
    ///
    /// # Errors
    /// It is still there.
    fn detach(&self, path: &Path) -> io::Result<()>;
}

/// The mount table of this process's mount namespace.
#[derive(Clone, Copy, Debug)]
pub struct KernelTable;

impl MountTable for KernelTable {
    fn is_mounted(&self, path: &Path) -> io::Result<bool> {
        Ok(fuse_mountpoints(&std::fs::read("/proc/self/mountinfo")?).any(|mountpoint| mountpoint == path))
    }

    fn detach(&self, path: &Path) -> io::Result<()> {
        if rustix::process::geteuid().is_root() {
            return Ok(unmount(path, UnmountFlags::DETACH | UnmountFlags::NOFOLLOW)?);
        }
        let output = Command::new("fusermount3").args(["-u", "-z", "--"]).arg(path).output()?;
        if output.status.success() {
            return Ok(());
        }
        Err(io::Error::other(String::from_utf8_lossy(&output.stderr).trim().to_owned()))
    }
}

/// The mount points of FUSE file systems in the text of `/proc/PID/mountinfo` (proc_pid_mountinfo(5)): field 5 is the
/// mount point, the field after the lone `-` the file system's type.
fn fuse_mountpoints(mountinfo: &[u8]) -> impl Iterator<Item = PathBuf> + '_ {
    mountinfo.split(|&b| b == b'\n').filter_map(|line| {
        let mut fields = line.split(|&b| b == b' ');
        let mountpoint = fields.nth(4)?;
        let kind = fields.skip_while(|field| *field != b"-").nth(1)?;
        (kind == b"fuse" || kind.starts_with(b"fuse.")).then(|| unescape(mountpoint))
    })
}

/// Undoes the kernel's `\ooo` for space, tab, line feed and backslash.
fn unescape(field: &[u8]) -> PathBuf {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((&first, after)) = rest.split_first() {
        match octal(rest) {
            Some(byte) => {
                bytes.push(byte);
                rest = &rest[4..];
            }
            None => {
                bytes.push(first);
                rest = after;
            }
        }
    }
    OsString::from_vec(bytes).into()
}

/// The byte that a leading `\ooo` stands for.
fn octal(text: &[u8]) -> Option<u8> {
    let digits = text.strip_prefix(b"\\")?.get(..3)?;
    u8::from_str_radix(std::str::from_utf8(digits).ok()?, 8).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_fuse_mounts_count_and_escapes_are_undone() {
        let table = b"22 1 0:20 / /proc rw,nosuid shared:5 - proc proc rw\n\
            36 22 0:45 / /home/a\\040b/mnt rw,nosuid shared:1 master:2 - fuse.forebay forebay rw,user_id=0\n\
            37 22 0:46 / /m\\134n rw - fuse x rw\n\
            38 22 0:47 / /c rw - fusectl fusectl rw\n";
        let found: Vec<PathBuf> = fuse_mountpoints(table).collect();
        assert_eq!(found, [Path::new("/home/a b/mnt"), Path::new("/m\\n")]);
    }

    #[test]
    fn an_ordinary_folder_is_not_mounted() {
        let dir = tempfile::tempdir().unwrap();
        assert!(!KernelTable.is_mounted(dir.path()).unwrap());
    }
}
