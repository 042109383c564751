//! Entries, paths and faults as they travel between a coordinator and its movers.

use std::borrow::Cow;
use std::ffi::OsString;
use std::ops::Range;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use wire::mover::{self, Known};

use crate::fault::{Cause, Fault};
use crate::tree::Found;

/// For the coordinator.
pub(crate) fn sent(fault: &Fault) -> mover::Fault {
    let cause = match fault.cause {
        Cause::Refused(errno) => mover::Cause::Refused(errno.raw_os_error()),
        Cause::Differs { expected, found } => mover::Cause::Differs { expected, found },
        Cause::WrongSize { expected, found } => mover::Cause::WrongSize { expected, found },
        Cause::Changed => mover::Cause::Changed,
        // What a file has lost the coordinator sees again, and says of which node. Movers look up no sources, choose
        // none, make no links and choose no names.
        Cause::Unverified { .. }
        | Cause::LostWrites { .. }
        | Cause::Removed
        | Cause::Abandoned
        | Cause::Stopped
        | Cause::FirstNameFailed { .. }
        | Cause::TwoSources { .. } => mover::Cause::Stopped,
    };
    mover::Fault { side: fault.side, path: fault.path.clone(), operation: fault.operation.to_string(), cause }
}

/// From a mover. What is wrong with a block may pass with the next attempt at the file; what was refused was tried
/// again there.
pub(crate) fn fault(sent: mover::Fault) -> Fault {
    let (cause, exhausted) = match sent.cause {
        mover::Cause::Refused(errno) => (Cause::Refused(Errno::from_raw_os_error(errno)), true),
        mover::Cause::Differs { expected, found } => (Cause::Differs { expected, found }, false),
        mover::Cause::WrongSize { expected, found } => (Cause::WrongSize { expected, found }, false),
        mover::Cause::Changed => (Cause::Changed, false),
        mover::Cause::Stopped => (Cause::Stopped, true),
    };
    Fault { side: sent.side, path: sent.path, operation: Cow::Owned(sent.operation), cause, exhausted }
}

/// What a mover recognises an entry by.
pub(crate) fn known(entry: &Found) -> Known {
    Known { path: bytes(&entry.path), attr: entry.attr }
}

pub(crate) fn bytes(path: &Path) -> Vec<u8> {
    path.as_os_str().as_bytes().to_vec()
}

pub(crate) fn path(bytes: Vec<u8>) -> PathBuf {
    OsString::from_vec(bytes).into()
}

/// Runs of blocks.
pub(crate) fn runs(sent: &[(u64, u64)]) -> Vec<Range<usize>> {
    let number = |block: u64| usize::try_from(block).expect("Forebay runs on 64-bit machines");
    sent.iter().map(|(start, end)| number(*start)..number(*end)).collect()
}
