//! The `#SBATCH` options of a script, as far as they may be wrong.

use std::path::{Path, PathBuf};

use model::sbatch::{self, Sbatch};

use crate::exit_code::ExitCode;
use crate::failure::Failure;

/// Refuses what `sbatch` refuses.
pub(super) fn refuse_wrong(path: &Path, sbatch: &Sbatch) -> Result<(), Failure> {
    let line = |wrong: &sbatch::Wrong| {
        let (option, value, wanted) = (&wrong.option, &wrong.value, wrong.wanted);
        format!("{}: #SBATCH {option}: `{value}` is not {wanted}", path.display())
    };
    if sbatch.wrong.is_empty() {
        return Ok(());
    }
    Err(Failure::Lines { exit: ExitCode::Script, lines: sbatch.wrong.iter().map(line).collect() })
}

/// Refuses what a workload manager reads and we do not.
pub(super) fn refuse_requests(path: &Path, sbatch: &Sbatch) -> Result<(), Failure> {
    match sbatch.burst_buffer.first() {
        None => Ok(()),
        Some(sbatch::Request { option, .. }) => Err(Failure::ForSbatch {
            message: format!("{}: the #SBATCH option {option} is not yet understood", path.display()),
            advice: "write what it asks for as #DW lines",
        }),
    }
}

/// Refuses what has several components: only a workload manager has several groups of nodes.
pub(super) fn refuse_components(path: &Path, components: usize) -> Result<(), Failure> {
    match components {
        0 | 1 => Ok(()),
        _ => Err(Failure::ForSbatch {
            message: format!("{}: #SBATCH hetjob: a heterogeneous job needs Slurm", path.display()),
            advice: "submit it with sbatch",
        }),
    }
}

/// The folder that the job starts in.
pub(super) fn working_folder(sbatch: &Sbatch, submit_folder: &Path) -> Result<PathBuf, Failure> {
    let folder = submit_folder.join(sbatch.chdir.as_deref().unwrap_or_default());
    let is_there = disk::is_folder(&folder).map_err(|error| Failure::local("look up", &folder, &error))?;
    if is_there {
        // `join` of nothing adds a slash, which `%d` must not end with.
        return Ok(folder.components().collect());
    }
    Err(Failure::no_input(
        format!("the working folder {} of #SBATCH --chdir is not there", folder.display()),
        "make it, or correct the script",
    ))
}
