//! How each of our services begins, whoever started it.
//!
//! A service outlives the command that started it, and must not keep what that one had open: a lock that a shell holds
//! (`flock FILE forebay mount ...`), the end of a pipe that somebody reads to its end, a file on a disk that is to be
//! unmounted.
//!
//! Nor must the limit of that command's files (`ulimit -f`) end it, and all that use a buffer with it.
//!
//! **Invariant:** what a service is given comes as its standard input, output or error; it closes every other
//! descriptor. A file that is too long for it is an error (EFBIG) and no signal.

#![expect(
    unsafe_code,
    reason = "the standard library has no call for descriptors that nobody in the process owns, nor for signals"
)]

use std::io;

use rustix::process::{Resource, getrlimit, setrlimit};

/// The first that is neither standard input, output nor error.
const FIRST_INHERITED: libc::c_uint = 3;

/// Closes what was inherited and begins to log. The first that the `main` of every service calls.
pub fn begin() {
    let closed = close_inherited();
    crate::logging::init();
    if let Err(error) = allow_long_files() {
        tracing::warn!(%error, "a limit of the length of files (RLIMIT_FSIZE) holds for this service");
    }
    if let Err(error) = closed {
        tracing::warn!(%error, "files that whoever started this process had open stay open");
    }
}

/// Raises the limit as far as the system lets it, and takes an error for what is beyond it.
fn allow_long_files() -> io::Result<()> {
    let limit = getrlimit(Resource::Fsize);
    // SAFETY: no handler is installed, so that none runs.
    if unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) } == libc::SIG_ERR {
        return Err(io::Error::last_os_error());
    }
    Ok(setrlimit(Resource::Fsize, rustix::process::Rlimit { current: limit.maximum, ..limit })?)
}

fn close_inherited() -> io::Result<()> {
    // SAFETY: nothing in this process owns a descriptor yet: it is the first that `main` does, and the runtime before
    // it opens standard input, output and error only.
    match unsafe { libc::close_range(FIRST_INHERITED, libc::c_uint::MAX, 0) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
