//! `forebay`: buffers for one user on one machine, and what looks after them. Under the name `srun` it starts ranks.
//!
//! It owns words (arguments, progress, summaries, exit statuses) and the job's process; everything that happens to a
//! buffer is asked of the control service.

#![allow(unreachable_pub, reason = "a program: nobody can reach into it")]

#[cfg(test)]
mod advised;
mod arguments;
mod commands;
mod completion;
mod directives;
mod env;
mod exit_code;
mod failure;
#[cfg(test)]
mod fixtures;
mod identity;
mod interpreter;
mod interrupts;
mod job;
mod kept_in;
mod life;
mod output;
mod preflight;
mod process;
mod progress;
mod redirection;
mod render;
mod retries;
mod run_record;
mod script;
mod seen;
mod service;
mod session;
mod summary;

use std::ffi::OsString;
use std::io::Write;
use std::path::Path;

use clap::error::ErrorKind;
use clap::{CommandFactory, Parser};
use clap_complete::CompleteEnv;

use crate::arguments::{Arguments, Command};
use crate::exit_code::ExitCode;
use crate::failure::Failure;

/// What is said of no words at all.
const WITHOUT_COMMAND: ErrorKind = ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand;

fn main() {
    // Answers and ends where a shell asks.
    CompleteEnv::with_factory(Arguments::command).complete();
    let words: Vec<OsString> = std::env::args_os().collect();
    let called = words.first().map(Path::new).and_then(Path::file_name);
    let status = if called.is_some_and(|name| name == "srun") {
        commands::srun::run(words.into_iter().skip(1).collect())
    } else {
        dispatch(words)
    };
    // Not a return: a runtime that is dropped waits for its helper threads, and nothing of ours is left to wait for.
    std::process::exit(i32::from(status));
}

fn dispatch(words: Vec<OsString>) -> u8 {
    let arguments = match Arguments::try_parse_from(words) {
        Ok(arguments) => arguments,
        Err(error) => {
            // Help and version are no errors, though clap returns them as such. Without a command there is help, too.
            let code = if error.use_stderr() { ExitCode::Usage } else { ExitCode::Success };
            match code == ExitCode::Usage && error.kind() != WITHOUT_COMMAND {
                true => {
                    let line = daemon::usage::one_line("forebay", &error.to_string());
                    drop(writeln!(std::io::stderr(), "{line}"));
                }
                false => drop(error.print()),
            }
            return code.number();
        }
    };
    match arguments.command {
        Command::Srun { words } => commands::srun::run(words),
        Command::SrunRank { words } => commands::srun::run_rank(words),
        command => commands::run(command, arguments.dir),
    }
}

/// Runs `command` on this thread.
fn block_on(command: impl Future<Output = Result<u8, Failure>>) -> Result<u8, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(|e| {
        Failure::unavailable(format!("start: {e}"), "look at the limits of this process (`ulimit -a`)")
    })?;
    let result = runtime.block_on(command);
    runtime.shutdown_background();
    result
}
