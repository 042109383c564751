//! `post_run`: unmount. The job's processes may still be there, as after `scancel`; they lose the buffer now. A session
//! that is gone has nothing mounted, and an error would hold the job in its stage-out for ever.

use wire::control::{PostRun, SessionStatus};

use super::answer::Answer;
use super::arguments::Arguments;
use api::control::{Control, session_path};

pub(super) fn run(arguments: &Arguments, control: &Control) -> Answer {
    let token = match arguments.token() {
        Ok(token) => token,
        Err(failure) => return failure,
    };
    match control.post::<_, SessionStatus>(
        &session_path(token, "/post_run"),
        &PostRun { hurry: true, mountpoint: None },
    ) {
        Ok(_) => Answer::Done(String::new()),
        Err(error) if error.is_no_session() => Answer::Done("nothing is mounted for this job".to_owned()),
        Err(error) => Answer::failed(error),
    }
}
