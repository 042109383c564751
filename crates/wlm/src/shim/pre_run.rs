//! `pre_run`: mount on the job's nodes. Slurm sets no limit of its own here, so control does.

use wire::control::{PreRun, SessionStatus};

use super::answer::Answer;
use super::arguments::Arguments;
use super::{array_task, submission};
use api::control::{Control, session_path};

pub(super) fn run(arguments: &Arguments, control: &Control) -> Answer {
    mount(arguments, control).unwrap_or_else(|failure| failure)
}

fn mount(arguments: &Arguments, control: &Control) -> Result<Answer, Answer> {
    let token = arguments.token()?;
    let hosts = match &arguments.nodehostnamefile {
        Some(file) => submission::hosts(file)?,
        None => array_task::hosts(token)?,
    };
    let request = PreRun { hosts, ..PreRun::default() };
    control.post::<_, SessionStatus>(&session_path(token, "/pre_run"), &request).map_err(Answer::failed)?;
    Ok(Answer::Done(String::new()))
}
