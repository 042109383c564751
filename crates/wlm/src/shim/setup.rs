//! `setup`: allocate the job's buffer. The nodes that Slurm may name are a guess; `pre_run` brings the right ones.

use wire::control::{Owner, SessionStatus, Setup};

use super::answer::Answer;
use super::arguments::Arguments;
use super::submission;
use api::control::{Control, session_path};

/// What Slurm calls itself.
pub(super) const CALLER: &str = wire::control::SLURM;

pub(super) fn run(arguments: &Arguments, control: &Control) -> Answer {
    allocate(arguments, control).unwrap_or_else(|failure| failure)
}

fn allocate(arguments: &Arguments, control: &Control) -> Result<Answer, Answer> {
    let token = arguments.token()?;
    let script = submission::read(arguments.need(&arguments.job, "--job")?)?;
    let setup = Setup {
        owner: Owner {
            uid: *arguments.need(&arguments.user, "--user")?,
            gid: *arguments.need(&arguments.groupid, "--groupid")?,
        },
        script,
        fragments: None,
        volume: None,
        caller: arguments.caller.clone().unwrap_or_else(|| CALLER.to_owned()),
        capacity: arguments.capacity.clone(),
        hosts: match &arguments.nodehostnamefile {
            Some(file) => submission::hosts(file)?,
            None => Vec::new(),
        },
    };
    match control.post::<_, SessionStatus>(&session_path(token, "/setup"), &setup) {
        Ok(_) => Ok(Answer::Done(String::new())),
        Err(error) => Err(Answer::failed(error)),
    }
}
