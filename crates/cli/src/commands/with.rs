//! `forebay with`: a buffer around one command, as `forebay run` gives one to a script.

mod allocation;
mod hosts;
mod launcher;
mod step;

use std::path::{Path, PathBuf};

use super::run::start;
use crate::arguments::{Run, With};
use crate::env;
use crate::failure::Failure;
use crate::interpreter::unstartable;
use crate::output::Output;
use crate::script::{self, Submission};

/// What `forebay run` starts scripts with, and puts first in their `PATH`.
const OURS: &str = "srun";

/// Runs the command; the result is the process's exit status.
///
/// # Errors
/// What keeps it from having a buffer.
pub async fn run(arguments: With, output: &Output, dir: Option<PathBuf>) -> Result<u8, Failure> {
    let (folder, program) = (script::current_folder()?, program(&arguments.command[0])?);
    if arguments.job.buffer.capacity.is_none() {
        return Err(Failure::usage("the option --capacity is missing", "say how much, as --capacity 10GiB"));
    }
    let submission = Submission::of_command(program, &folder, &arguments.job.buffer)?;
    match hosts::Hosts::of(&arguments)? {
        Some(hosts) => allocation::run(&Run::from(arguments), submission, hosts, output, dir).await,
        None => {
            if let Some(nodes) = env::allocated_nodes().filter(|nodes| *nodes > 1) {
                output.note(&format!(
                    "forebay: note: this job has {nodes} nodes, and the buffer is for what runs on this one; with \
                     --on-allocation it is over all of them"
                ));
            }
            start(&Run::from(arguments), &submission, output, dir).await
        }
    }
}

/// Where the command is.
///
/// # Errors
/// It is not there, or is nothing that the kernel starts.
fn program(name: &str) -> Result<PathBuf, Failure> {
    let found = located(name)?;
    // Ours is made when it starts.
    let why = if found.as_os_str() == OURS { None } else { unstartable(&found) };
    why.map_or(Ok(found), |why| {
        Err(Failure::no_input(
            format!("{name} is not a program that can be started: {why}"),
            "name the interpreter before it, as in -- bash FILE, or begin the file with `#!` and the interpreter",
        ))
    })
}

fn located(name: &str) -> Result<PathBuf, Failure> {
    let path = Path::new(name);
    if name.contains('/') {
        return env::is_program(path).then(|| path.to_owned()).ok_or_else(|| {
            Failure::no_input(
                format!("{name} is not a program that can be started"),
                "check its path and its mode",
            )
        });
    }
    let is_ours = (name == OURS).then(|| path.to_owned());
    is_ours.or_else(|| env::program(name)).ok_or_else(|| {
        Failure::no_input(
            format!("there is no program {name} in PATH"),
            "check the spelling, or give its path",
        )
    })
}
