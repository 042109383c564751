//! Whether somebody else can still write to an object.
//!
//! An object that was handed to a mount's kernel may be written through a mapping long after its last close, and
//! outlives this process. The kernel grants a read lease only on a file that nobody has open for writing.

#![expect(unsafe_code, reason = "rustix has no leases")]

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;

/// Whether nobody has the file at `path` open for writing. The caller sees to it that this process does not, and does
/// not open it meanwhile.
///
/// # Errors
/// The errno of `open` or `fcntl`.
pub fn is_closed(path: &Path) -> io::Result<bool> {
    let file = File::open(path)?;
    match lease(&file, libc::F_RDLCK) {
        // At once: who opens it now must not wait.
        Ok(()) => lease(&file, libc::F_UNLCK).map(|()| true),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
        Err(error) => Err(error),
    }
}

fn lease(file: &File, kind: libc::c_int) -> io::Result<()> {
    // SAFETY: fcntl(2) with F_SETLEASE takes a descriptor and a number.
    let done = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETLEASE, kind) };
    if done == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_closed_when_its_last_writer_is_gone() {
        let file = tempfile::NamedTempFile::new_in("/dev/shm").unwrap();
        let reader = File::open(file.path()).unwrap();
        assert!(!is_closed(file.path()).unwrap());
        let path = file.into_temp_path();
        assert!(is_closed(&path).unwrap());
        drop(reader);
    }
}
