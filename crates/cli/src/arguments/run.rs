//! `forebay run` as typed.

use std::path::PathBuf;

use clap::Args;
use model::Token;
use model::sbatch::Array;

use super::{Buffer, Volume, token};

/// What is said of a job, be it a script or a command.
#[derive(Clone, Debug, Default, Args)]
pub struct Job {
    /// What `#DW` lines would say.
    #[command(flatten)]
    pub buffer: Buffer,
    /// Split the buffer over N storage processes [default: 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub nodes: Option<u32>,
    /// Where the buffer's bytes live [default: image where it works, else directory]
    #[arg(long)]
    pub volume: Option<Volume>,
    /// Print the summary as one JSON object on the last line of standard output
    #[arg(long)]
    pub json: bool,
    /// Keep the buffer after a complete stage-out
    #[arg(long)]
    pub keep: bool,
}

/// `forebay run`.
#[derive(Debug, Default, Args)]
pub struct Run {
    /// Go on with an interrupted run [default: the newest]
    #[arg(long, value_name = "TOKEN", num_args = 0..=1, value_parser = token::typed, add = token::candidates(),
        conflicts_with_all = ["array", "nodes", "volume", "keep", "capacity", "stage_in", "stage_out"])]
    pub resume: Option<Option<Token>>,
    /// Those of any job.
    #[command(flatten)]
    pub job: Job,
    /// Run the script once for each task of an array, as 0-15 or 1,3,5, one after the other [default: as #SBATCH
    /// --array says]
    #[arg(long, value_name = "LIST", value_parser = array_list)]
    pub array: Option<Array>,
    /// The batch script
    #[arg(required_unless_present = "resume", conflicts_with = "resume")]
    pub script: Option<PathBuf>,
    /// Its arguments; write `--` before them if one begins with a hyphen
    pub arguments: Vec<String>,
}

fn array_list(text: &str) -> Result<Array, &'static str> {
    Array::parse(text).ok_or("write task numbers, as 0-15, 1,3,5 or 0-15:4")
}
