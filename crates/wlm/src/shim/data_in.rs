//! `data_in`: stage in. A missing session is a failure here, and never said in the words that Slurm would take as leave
//! to start the job without its data.

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
    match control.post::<_, SessionStatus>(&session_path(token, "/data_in"), &json!({})) {
        Ok(_) => Answer::Done(String::new()),
        Err(error) => Answer::failed(error),
    }
}
