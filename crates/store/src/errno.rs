//! Errors of the file system as the data protocol tells them.

use std::io;

use rustix::io::Errno;

/// The errno behind an I/O error; EIO where there is none.
pub(crate) fn errno_of(error: &io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::IO)
}
