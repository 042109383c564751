//! `setup`: allocate the job's buffer. The nodes that Slurm may name are a guess; `pre_run` brings the right ones.

use wire::control::{Owner, SessionStatus, Setup};

use super::answer::Answer;
use super::arguments::Arguments;
use super::{array_task, submission};
use api::control::{Control, session_path};

/// What Slurm calls itself.
pub(super) const CALLER: &str = wire::control::SLURM;

pub(super) fn run(arguments: &Arguments, control: &Control) -> Answer {
    allocate(arguments, control).unwrap_or_else(|failure| failure)
}

fn allocate(arguments: &Arguments, control: &Control) -> Result<Answer, Answer> {
    let token = arguments.token()?;
    let own = arguments.need(&arguments.job, "--job")?;
    let of_array = if submission::is_absent(own) { array_task::script_of_array(own, token) } else { None };
    let file = of_array.as_ref().unwrap_or(own);
    if counts_nothing(arguments) && submission::is_absent(file) {
        // What is interactive and has only #BB lines, which Slurm carries out by other calls, has no script.
        return Ok(Answer::Done(String::new()));
    }
    let script = submission::read(file)?;
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

/// Whether Slurm counts no space for a buffer of the job's own: `POOL:0`.
fn counts_nothing(arguments: &Arguments) -> bool {
    let counted = arguments.capacity.as_deref().and_then(|capacity| capacity.rsplit_once(':'));
    counted.is_some_and(|(_, size)| size == "0")
}
