//! Errors of the file system as the data protocol tells them.

use std::io;

use rustix::io::Errno;
use wire::data::Reply;

/// The errno behind an I/O error; EIO where there is none.
pub(crate) fn errno_of(error: &io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::IO)
}

/// The answer that a namespace gives where something failed. Of an EIO it is said here that it was given: what gave up
/// may have been silent, and a program hears it as the loss of its data.
pub(crate) fn failed(errno: Errno) -> Reply {
    if errno == Errno::IO {
        tracing::error!("a namespace answers a client's request with EIO");
    }
    Reply::Failed(errno.raw_os_error())
}
