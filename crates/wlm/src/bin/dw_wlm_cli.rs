//! `dw_wlm_cli`: called by a workload manager for each step of a job. See [`wlm::shim`].

use std::io::Write;
use std::process::ExitCode;

use clap::Parser;
use wlm::shim::answer::Answer;
use wlm::shim::arguments::Arguments;

fn main() -> ExitCode {
    let answer = match Arguments::try_parse() {
        Ok(arguments) => wlm::shim::run(&arguments),
        Err(help) if !help.use_stderr() => Answer::Done(help.to_string().trim_end().to_owned()),
        // Only the first line: what follows is help for people.
        Err(error) => Answer::failed(error.to_string().lines().next().unwrap_or_default()),
    };
    let (text, status) = answer.into_output();
    // Nobody is left to be told when this fails: the reader is gone, or the exit status says enough.
    let _ = std::io::stdout().write_all(text.as_bytes());
    ExitCode::from(status)
}
