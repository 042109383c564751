//! What owners of files are told.

use super::*;
use crate::pfs::Pfs;

fn fault(errno: Errno) -> Fault {
    Fault::new(&Pfs::default(), Path::new("/scratch/a"), "open for reading", Cause::Refused(errno))
}

#[test]
fn a_failure_names_operation_path_errno_and_what_to_do() {
    let failure = fault(Errno::ACCESS).failure(Direction::In);
    assert_eq!(failure.message, "open for reading /scratch/a: Permission denied");
    assert_eq!((failure.errno, failure.side), (13, Side::Pfs));
    assert!(failure.advice.contains("permissions"));
}

#[test]
fn what_cannot_pass_is_not_tried_again() {
    for errno in [Errno::IO, Errno::NOSPC, Errno::DQUOT] {
        assert!(fault(errno).may_pass(), "{errno:?}");
    }
    for errno in [Errno::ACCESS, Errno::NOENT, Errno::PERM, Errno::ROFS] {
        assert!(!fault(errno).may_pass(), "{errno:?}");
    }
}
