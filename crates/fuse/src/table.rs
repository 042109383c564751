//! The kernel's table of what is mounted where, as this process's mount namespace sees it.

use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use rustix::event::{PollFd, PollFlags};

/// Whether a FUSE file system is mounted at `path`. Does not touch `path`: a dead mount would hang or fail.
///
/// # Errors
/// The table cannot be read.
pub fn is_mounted(path: &Path) -> io::Result<bool> {
    Ok(fuse_mountpoints(&std::fs::read(TABLE)?).any(|mountpoint| mountpoint == path))
}

/// Waits until no FUSE file system is mounted at `path`, whoever unmounts it.
///
/// # Errors
/// The table cannot be read.
pub fn wait_until_unmounted(path: &Path) -> io::Result<()> {
    // The kernel tells whoever has the table open of each change (proc_pid_mounts(5)), also of one before the wait began.
    let table = std::fs::File::open(TABLE)?;
    while is_mounted(path)? {
        rustix::io::retry_on_intr(|| rustix::event::poll(&mut [PollFd::new(&table, PollFlags::PRI)], None))?;
    }
    Ok(())
}

const TABLE: &str = "/proc/self/mountinfo";

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
        assert!(!is_mounted(dir.path()).unwrap());
        wait_until_unmounted(dir.path()).unwrap();
    }
}
