//! `data_out`: stage out. A session that is gone has nothing left to stage: whatever was owed is kept under another
//! name. An error would hold the job in its stage-out for ever; so would a source that the job did not come to make.

use wire::control::{DataOut, SessionStatus, StageStatus};

use super::answer::Answer;
use super::arguments::Arguments;
use super::ended;
use api::control::{Control, session_path};

pub(super) fn run(arguments: &Arguments, control: &Control) -> Answer {
    let token = match arguments.token() {
        Ok(token) => token,
        Err(failure) => return failure,
    };
    let stage_out = |how| control.post::<_, SessionStatus>(&session_path(token, "/data_out"), &how);
    let mut staged = stage_out(DataOut::default());
    if staged.is_err() && lacks_sources(control, token) && ended::was_cut_short(token) {
        staged = stage_out(DataOut { job_failed: true });
    }
    match staged {
        Ok(_) => Answer::Done(String::new()),
        Err(error) if error.is_no_session() => Answer::NoSession,
        Err(error) => Answer::failed(error),
    }
}

/// Whether a stage-out failed for want of its source.
fn lacks_sources(control: &Control, token: &str) -> bool {
    let status = control.get::<SessionStatus>(&session_path(token, ""));
    status.is_ok_and(|status| status.stages.iter().any(StageStatus::lacks_only_sources))
}
