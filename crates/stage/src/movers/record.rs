//! Faults as they travel from a mover to its coordinator.

use std::borrow::Cow;

use rustix::io::Errno;
use wire::mover;

use crate::fault::{Cause, Fault};

/// For the coordinator.
pub(super) fn sent(fault: &Fault) -> mover::Fault {
    let cause = match fault.cause {
        Cause::Refused(errno) => mover::Cause::Refused(errno.raw_os_error()),
        Cause::Differs { expected, found } => mover::Cause::Differs { expected, found },
        Cause::WrongSize { expected, found } => mover::Cause::WrongSize { expected, found },
        Cause::Changed => mover::Cause::Changed,
        // Movers make no links.
        Cause::Stopped | Cause::FirstNameFailed { .. } => mover::Cause::Stopped,
    };
    mover::Fault { side: fault.side, path: fault.path.clone(), operation: fault.operation.to_string(), cause }
}

/// From a mover. What is wrong with a block may pass with the next attempt at the file; what was refused was tried
/// again there.
pub(super) fn fault(sent: mover::Fault) -> Fault {
    let (cause, exhausted) = match sent.cause {
        mover::Cause::Refused(errno) => (Cause::Refused(Errno::from_raw_os_error(errno)), true),
        mover::Cause::Differs { expected, found } => (Cause::Differs { expected, found }, false),
        mover::Cause::WrongSize { expected, found } => (Cause::WrongSize { expected, found }, false),
        mover::Cause::Changed => (Cause::Changed, false),
        mover::Cause::Stopped => (Cause::Stopped, true),
    };
    Fault { side: sent.side, path: sent.path, operation: Cow::Owned(sent.operation), cause, exhausted }
}
