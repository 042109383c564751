//! How each of our services begins, whoever started it.
//!
//! A service outlives the command that started it, and must not keep what that one had open: a lock that a shell holds
//! (`flock FILE forebay mount ...`), the end of a pipe that somebody reads to its end, a file on a disk that is to be
//! unmounted.
//!
//! **Invariant:** what a service is given comes as its standard input, output or error; it closes every other
//! descriptor.

#![expect(
    unsafe_code,
    reason = "the standard library has no call for descriptors that nobody in the process owns"
)]

use std::io;

/// The first that is neither standard input, output nor error.
const FIRST_INHERITED: libc::c_uint = 3;

/// Closes what was inherited and begins to log. The first that the `main` of every service calls.
pub fn begin() {
    let closed = close_inherited();
    crate::logging::init();
    if let Err(error) = closed {
        tracing::warn!(%error, "files that whoever started this process had open stay open");
    }
}

fn close_inherited() -> io::Result<()> {
    // SAFETY: nothing in this process owns a descriptor yet: it is the first that `main` does, and the runtime before
    // it opens standard input, output and error only.
    match unsafe { libc::close_range(FIRST_INHERITED, libc::c_uint::MAX, 0) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
