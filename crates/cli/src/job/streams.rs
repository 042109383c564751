//! Where the standard streams of a job are: `sbatch --input`, `--output` and `--error`; without them they are ours.

use std::fs::File;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use model::file_pattern::Values;
use model::sbatch::{self, Streams};
use tokio::process::Command;

use crate::failure::Failure;
use crate::run_record::RunRecord;
use crate::{identity, redirection};

/// Says where the job's output will be, if not with ours.
///
/// # Errors
/// The folder of a file is not there. Slurm would end the job at its start, when its buffer is full.
pub fn places(record: &RunRecord) -> Result<Vec<String>, Failure> {
    let streams = sbatch::parse(&record.script.text).streams;
    let mut notes = Vec::new();
    for (pattern, option, what) in
        [(&streams.output, "--output", "output"), (&streams.error, "--error", "error output")]
    {
        let Some(path) = path(pattern.as_deref(), record) else { continue };
        let folder = path.parent().unwrap_or(Path::new("/"));
        if !disk::is_folder(folder).map_err(|error| Failure::local("look up", folder, &error))? {
            return Err(Failure::no_input(
                format!("the folder {} of #SBATCH {option} is not there", folder.display()),
                "make it, or correct the script",
            ));
        }
        notes.push(format!("the job's {what} goes to {}", path.display()));
    }
    Ok(notes)
}

/// Gives `command` its streams.
///
/// # Errors
/// A file cannot be opened.
pub(super) fn give(command: &mut Command, record: &RunRecord, streams: &Streams) -> Result<(), Failure> {
    if let Some(path) = path(streams.input.as_deref(), record) {
        command.stdin(redirection::from(&path, "#SBATCH --input")?);
    } else if std::io::stdin().is_terminal() {
        // A terminal stops a process outside its foreground group that reads from it: the job would hang. Slurm's
        // batch jobs have no terminal to read from either.
        command.stdin(Stdio::null());
    }
    let open = |path: &PathBuf, option: &str| redirection::to(path, streams.append, option);
    let [output_path, error_path] =
        [&streams.output, &streams.error].map(|pattern| path(pattern.as_deref(), record));
    let output = output_path.as_ref().map(|path| open(path, "#SBATCH --output")).transpose()?;
    let error = match &error_path {
        Some(path) if error_path != output_path => Some(open(path, "#SBATCH --error")?),
        // Both in one file, as with `sbatch`.
        _ => output.as_ref().map(File::try_clone).transpose().map_err(|error| {
            Failure::unavailable(format!("open the job's output twice: {error}"), "look at `ulimit -n`")
        })?,
    };
    if let Some(file) = output {
        command.stdout(file);
    }
    if let Some(file) = error {
        command.stderr(file);
    }
    Ok(())
}

fn path(pattern: Option<&str>, record: &RunRecord) -> Option<PathBuf> {
    let values = Values {
        job_id: record.token.to_string(),
        array_job_id: record.array_task.as_ref().map(|array| array.job_id.to_string()),
        array_task_id: record.array_task.as_ref().map(|array| array.task),
        step: None,
        rank: 0,
        host: identity::host(),
        user: record.script.user.clone(),
        job_name: record.script.job_name.clone(),
    };
    Some(record.script.workdir.join(values.expand(pattern?)))
}
