//! `data_in`: stage in. A missing session is a failure here, and never said in the words that Slurm would take as leave
//! to start the job without its data; but what has no script asked for none.

use serde_json::json;
use wire::control::SessionStatus;

use super::answer::Answer;
use super::arguments::Arguments;
use super::submission;
use api::control::{Control, session_path};

pub(super) fn run(arguments: &Arguments, control: &Control) -> Answer {
    let token = match arguments.token() {
        Ok(token) => token,
        Err(failure) => return failure,
    };
    match control.post::<_, SessionStatus>(&session_path(token, "/data_in"), &json!({})) {
        Ok(_) => Answer::Done(String::new()),
        Err(error) if error.is_no_session() && has_no_script(arguments) => Answer::Done(String::new()),
        Err(error) => Answer::failed(error),
    }
}

fn has_no_script(arguments: &Arguments) -> bool {
    arguments.job.as_deref().is_some_and(submission::is_absent)
}
