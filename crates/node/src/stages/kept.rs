//! What a stage's folder says of it: its specification, and how it ended.
//!
//! **Invariant:** a specification that cannot be understood, as a newer Forebay's, is never written over.

use std::io;
use std::path::Path;

use daemon::error::site;
use model::phase::StageState;
use wire::control::{ApiError, ErrorCode, StageStatus};
use wire::node::StageSpec;

use crate::keep;

/// Sees that nothing is in the way of a stage in `folder`: there is none, or one that can be understood.
///
/// # Errors
/// `not_taken_up`.
pub(super) fn check(id: &str, folder: &Path) -> Result<(), ApiError> {
    keep::find_for::<StageSpec>(&format!("stage {id}"), folder).map(drop)
}

/// Keeps the specification of a stage in its folder, which is made if it is not there.
///
/// # Errors
/// The disk's.
pub(super) fn write(spec: &StageSpec, folder: &Path) -> io::Result<()> {
    std::fs::create_dir_all(folder)?;
    keep::write(&folder.join(keep::SPEC), spec)
}

/// Whether the report of a stage that nobody runs says that it failed.
///
/// # Errors
/// It cannot be read or understood.
pub(super) fn has_failed(report: &Path) -> Result<bool, ApiError> {
    let kept = keep::read::<StageStatus>(report).map_err(|error| {
        let advice = "mend that file, then repeat the command; where it cannot be mended, remove it: the stage is \
                      then run again";
        site(ErrorCode::StageState, error.to_string(), advice)
    })?;
    Ok(kept.is_some_and(|status| status.state == StageState::Failed))
}

/// Whether a stage is asked for again: what is mounted for it may not have been known before, and each time that it is
/// asked for its credential and its ticket are new ones.
pub(super) fn is_same(old: &StageSpec, new: &StageSpec) -> bool {
    let mut new = StageSpec { pfs_mounts: old.pfs_mounts.clone(), ticket: old.ticket.clone(), ..new.clone() };
    new.target.credential.clone_from(&old.target.credential);
    *old == new
}
