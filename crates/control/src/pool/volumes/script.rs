//! What scripts cannot have of private volumes.

use daemon::error::user;
use model::phase::{Direction, StageKind};
use wire::control::{ApiError, ErrorCode};

use crate::script::Plan;

/// Refuses what they cannot do.
///
/// # Errors
/// The script asks for it.
pub(super) fn check(plan: &Plan) -> Result<(), ApiError> {
    let mut outs = 0;
    for stage in plan.stages.iter().filter(|stage| stage.buffer.is_own()) {
        let refuse = |why: &str, advice: &str| {
            Err(user(ErrorCode::PrivateStage, format!("{}: {why}", stage.source()), advice))
        };
        match (stage.direction, stage.kind) {
            (Direction::In, _) => {
                return refuse("nothing is staged into private volumes", "copy within the job");
            }
            (Direction::Out, StageKind::Directory) => outs += 1,
            (Direction::Out, _) => {
                return refuse("private volumes are drained by folders", "write type=directory");
            }
        }
        if outs > 1 {
            return refuse(
                "a private volume is drained to one place",
                "write one stage_out of the common folder",
            );
        }
    }
    if outs == 0 && plan.own.as_ref().is_some_and(|own| own.behaviour.drain.is_some()) {
        let message = "drain=on-close without a stage_out does not say where to";
        let advice = "add #DW stage_out type=directory source=$DW_JOB_PRIVATE/ destination=/a/folder, or leave drain= \
                      out and set PERSIST_DIR and PFS_DIR in the script";
        return Err(user(ErrorCode::NoDestination, message, advice));
    }
    Ok(())
}
