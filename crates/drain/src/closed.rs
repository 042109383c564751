//! Whether somebody has a file open for writing, or mapped so: the kernel grants a read lease only if nobody has.
#![expect(unsafe_code, reason = "rustix and nix have no leases")]

use std::fs::OpenOptions;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// What is known of a file's writers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Writers {
    /// There are none.
    None,
    /// There are some.
    Some,
    /// The file system has no leases, or the file is somebody else's.
    Unknown,
}

/// Whether the regular file at `path` has writers now.
///
/// The lease is given back at once: somebody who opens the file in between waits for a few microseconds. The kernel
/// then sends SIGIO, which the process must block.
///
/// # Errors
/// The file cannot be opened.
pub(crate) fn writers(path: &Path) -> std::io::Result<Writers> {
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_NOCTTY | libc::O_CLOEXEC;
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    // SAFETY: the descriptor is open, and F_SETLEASE takes an int and touches no memory of ours.
    let taken = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETLEASE, libc::F_RDLCK) };
    if taken == -1 {
        let error = std::io::Error::last_os_error();
        return Ok(match error.raw_os_error() {
            Some(libc::EAGAIN) => Writers::Some,
            _ => Writers::Unknown,
        });
    }
    // Closing the file, which is next, gives the lease back.
    Ok(Writers::None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_writers_from_open_to_close() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let writer = std::fs::File::create(&path).unwrap();
        assert_eq!(writers(&path).unwrap(), Writers::Some);
        drop(writer);
        assert_eq!(writers(&path).unwrap(), Writers::None);
        let reader = std::fs::File::open(&path).unwrap();
        assert_eq!(writers(&path).unwrap(), Writers::None, "readers do not count");
        drop(reader);
    }
}
