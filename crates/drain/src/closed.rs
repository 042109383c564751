//! Whether somebody has a file open for writing, or mapped so: the kernel grants a read lease only if nobody has.
#![expect(unsafe_code, reason = "rustix and nix have no leases")]

use std::fs::File;
use std::os::fd::{AsFd, AsRawFd};

use disk::below::Place;
use nix::sys::statfs::{self, FsType};
use rustix::fs::{Mode, OFlags, openat};

/// NFS; SMB 1; SMB 2 and 3: as in statfs(2).
const OF_SERVERS: [FsType; 3] = [FsType(0x6969), FsType(0xff53_4d42), FsType(0xfe53_4d42)];

/// tmpfs; ramfs; overlayfs, which does not say what it is over.
const IN_MEMORY: [FsType; 3] = [FsType(0x0102_1994), FsType(0x8584_58f6), FsType(0x794c_7630)];

/// What is known of a file's writers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Writers {
    /// There are none.
    None,
    /// There are some.
    Some,
    /// The file system has no leases, or none that tell of writers, or the file is somebody else's.
    Unknown,
}

/// Whether the regular file there has writers now.
///
/// The lease is given back at once: somebody who opens the file in between waits for a few microseconds. The kernel
/// then sends SIGIO, which the process must block.
///
/// # Errors
/// The file cannot be opened.
pub(crate) fn writers(place: &Place) -> std::io::Result<Writers> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = File::from(openat(&place.folder, &place.name, flags, Mode::empty())?);
    // SAFETY: the descriptor is open, and F_SETLEASE takes an int and touches no memory of ours.
    let taken = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETLEASE, libc::F_RDLCK) };
    if taken == -1 {
        let error = std::io::Error::last_os_error();
        return Ok(match error.raw_os_error() {
            Some(libc::EAGAIN) if !has_other_leases(&file) => Writers::Some,
            _ => Writers::Unknown,
        });
    }
    // Closing the file, which is next, gives the lease back.
    Ok(Writers::None)
}

/// Whether a lease there is what a server has handed out: EAGAIN means that it has not (`nfs4_setlease`,
/// `cifs_setlease`), and all may be closed. Every other file system asks the kernel's own counter of writers.
fn has_other_leases(file: &File) -> bool {
    statfs::fstatfs(file).is_ok_and(|found| OF_SERVERS.contains(&found.filesystem_type()))
}

/// Whether a file there gets another time of change when it is written to through a map: where files are in the
/// kernel's memory alone, nobody sees the pages change. Whoever cannot tell takes it for such.
pub(crate) fn stamps_maps(folder: impl AsFd) -> bool {
    statfs::fstatfs(folder.as_fd()).is_ok_and(|found| !IN_MEMORY.contains(&found.filesystem_type()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_writers_from_open_to_close() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let place = disk::below::Root::at(folder.path()).reach(&path).unwrap();
        let writer = std::fs::File::create(&path).unwrap();
        assert_eq!(writers(&place).unwrap(), Writers::Some);
        drop(writer);
        assert_eq!(writers(&place).unwrap(), Writers::None);
        let reader = std::fs::File::open(&path).unwrap();
        assert_eq!(writers(&place).unwrap(), Writers::None, "readers do not count");
        drop(reader);
    }
}
