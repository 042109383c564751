//! The job's script as a process: its environment, its process group, its end.

mod environment;
pub mod streams;

use std::ffi::{OsStr, OsString};
use std::os::unix::fs::symlink;
use std::path::PathBuf;

use model::sbatch;
use tokio::process::{Child, Command};
use wire::control::Paths;

use crate::failure::Failure;
use crate::interpreter::Interpreter;
use crate::run_record::{Records, RunRecord};

/// Starts the script of `record` in a process group of its own.
///
/// # Errors
/// Its interpreter is not there, or the machine refuses.
pub fn start(record: &RunRecord, paths: &Paths, records: &Records) -> Result<Child, Failure> {
    let script = &record.script;
    let words = words(record, records)?;
    let sbatch = sbatch::parse(&script.text);
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]).current_dir(&script.workdir).process_group(0);
    if record.hosts.is_empty() {
        let programs = programs_folder(records)?;
        environment::pass_on(&mut command, sbatch.export.as_ref());
        command.envs(environment::variables(record, &sbatch, paths, records.folder(), &programs));
    } else {
        // Over several hosts what starts its steps is their workload manager's own, and knows its job.
        command.envs(environment::of_buffer(record, paths, records.folder()));
    }
    streams::give(&mut command, record, &sbatch.streams)?;
    command.spawn().map_err(|error| unstarted(record, &words[0], &error))
}

fn unstarted(record: &RunRecord, program: &OsStr, error: &std::io::Error) -> Failure {
    let program = program.display();
    if record.is_command {
        let message = format!("start {program}: {error}");
        return Failure::no_input(message, "check that it is a program for this machine");
    }
    Failure::script(
        format!("start {program} for {}: {error}", record.script.path.display()),
        "correct the script's first line or its working folder",
    )
}

/// What is started: a command as it was typed, or the script's interpreter, the script and its arguments.
fn words(record: &RunRecord, records: &Records) -> Result<Vec<OsString>, Failure> {
    let arguments = record.arguments.iter().map(OsString::from);
    if record.is_command {
        return Ok(arguments.collect());
    }
    let interpreter = Interpreter::of(&record.script.path, &record.script.text)?;
    let text = text_to_run(record, records)?;
    let first = [OsString::from(interpreter.program)].into_iter();
    Ok(first.chain(interpreter.argument.map(OsString::from)).chain([text.into()]).chain(arguments).collect())
}

/// The original, so that `$0` means what it says, unless it was changed since: then a copy of what was submitted.
fn text_to_run(record: &RunRecord, records: &Records) -> Result<PathBuf, Failure> {
    let script = &record.script;
    if record.script_is_unchanged() {
        return Ok(script.path.clone());
    }
    let copy = records.folder().join(format!("{}.script", record.token));
    std::fs::write(&copy, &script.text).map_err(|e| Failure::local("write", &copy, &e))?;
    Ok(copy)
}

/// A folder with our `srun`, which comes first in the job's `PATH`: there is no Slurm job that another could speak of.
fn programs_folder(records: &Records) -> Result<PathBuf, Failure> {
    let folder = records.folder().join("bin");
    let failed = |e: std::io::Error| Failure::local("make srun in", &folder, &e);
    std::fs::create_dir_all(&folder).map_err(failed)?;
    let forebay = std::env::current_exe().map_err(failed)?;
    let link = folder.join("srun");
    if std::fs::read_link(&link).is_ok_and(|target| target == forebay) {
        return Ok(folder);
    }
    // Replaced whole: another job may look for it at this moment.
    let temporary = folder.join(format!("srun.{}", std::process::id()));
    let _ = std::fs::remove_file(&temporary);
    symlink(&forebay, &temporary).and_then(|()| std::fs::rename(&temporary, &link)).map_err(failed)?;
    Ok(folder)
}

#[cfg(test)]
mod tests {
    use model::Token;

    use super::*;
    use crate::fixtures;

    #[test]
    fn a_script_that_was_changed_since_runs_as_it_was_submitted() {
        let folder = tempfile::tempdir().unwrap();
        let records = Records::open(folder.path()).unwrap();
        let path = folder.path().join("job.sh");
        let script = fixtures::session().script;
        let mut record = RunRecord::new(Token::literal("7"), script, "/home/u".into());
        record.script.path = path.clone();
        std::fs::write(&path, &record.script.text).unwrap();
        assert_eq!(text_to_run(&record, &records).unwrap(), path);
        std::fs::write(&path, "#!/bin/sh\nexit 1\n").unwrap();
        let copy = text_to_run(&record, &records).unwrap();
        assert_eq!(std::fs::read_to_string(copy).unwrap(), record.script.text);
    }
}
