//! `data_out`: stage out. A session that is gone has nothing left to stage: whatever was owed is kept under another
//! name. An error would hold the job in its stage-out for ever.

use serde_json::json;
use wire::control::SessionStatus;

use super::answer::Answer;
use super::arguments::Arguments;
use api::control::{Control, session_path};

pub(super) fn run(arguments: &Arguments, control: &Control) -> Answer {
    let token = match arguments.token() {
        Ok(token) => token,
        Err(failure) => return failure,
    };
    match control.post::<_, SessionStatus>(&session_path(token, "/data_out"), &json!({})) {
        Ok(_) => Answer::Done(String::new()),
        Err(error) if error.is_no_session() => Answer::NoSession,
        Err(error) => Answer::failed(error),
    }
}
