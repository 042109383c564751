//! `forebay with` as typed.

use clap::Args;

use super::run::{Job, Run};

/// `forebay with`.
#[derive(Debug, Args)]
pub struct With {
    /// Those of any job.
    #[command(flatten)]
    pub job: Job,
    /// Keep the buffer on the nodes of the allocation of Slurm (`salloc`, `sbatch`) that this runs in, mounted on each,
    /// as long as the command runs
    #[arg(long)]
    pub on_allocation: bool,
    /// The command and its arguments; it finds the buffer in $DW_JOB_STRIPED
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub command: Vec<String>,
}

impl From<With> for Run {
    fn from(with: With) -> Run {
        Run { job: with.job, arguments: with.command, ..Run::default() }
    }
}
