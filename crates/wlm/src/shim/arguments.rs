//! The arguments, as Slurm and the submit filters of Moab sites give them.

use std::path::PathBuf;

use clap::{Parser, ValueEnum};

use super::answer::Answer;

/// What a workload manager calls to give jobs burst buffers.
#[derive(Debug, Parser)]
#[command(name = "dw_wlm_cli", version)]
pub struct Arguments {
    /// What to do
    #[arg(short, long, value_enum)]
    pub function: Function,
    /// The job's id, or a persistent buffer's name
    #[arg(short, long)]
    pub token: Option<String>,
    /// The batch script
    #[arg(long, value_name = "FILE")]
    pub job: Option<PathBuf>,
    /// Who calls, as SLURM
    #[arg(short, long)]
    pub caller: Option<String>,
    /// The owner's user id
    #[arg(short, long, value_name = "UID")]
    pub user: Option<u32>,
    /// The owner's group id
    #[arg(long, value_name = "GID")]
    pub groupid: Option<u32>,
    /// POOL:SIZE
    #[arg(short = 'C', long)]
    pub capacity: Option<String>,
    /// Access mode of a persistent buffer
    #[arg(short, long)]
    pub access: Option<String>,
    /// Type of a persistent buffer
    #[arg(short = 'T', long = "type")]
    pub kind: Option<String>,
    /// A file of the job's nodes, a name on each line
    #[arg(long, value_name = "FILE")]
    pub nodehostnamefile: Option<PathBuf>,
    /// Where to write the job's variables
    #[arg(long, value_name = "FILE")]
    pub pathfile: Option<PathBuf>,
    /// Destroy also what is still to be staged out
    #[arg(long)]
    pub hurry: bool,
}

/// A function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
pub enum Function {
    /// List pools.
    Pools,
    /// List instances.
    ShowInstances,
    /// List sessions.
    ShowSessions,
    /// List configurations.
    ShowConfigurations,
    /// Check a script.
    JobProcess,
    /// Allocate a buffer that outlives jobs.
    CreatePersistent,
    /// Allocate a job's buffer.
    Setup,
    /// Stage in.
    DataIn,
    /// Say how large the buffer really is.
    RealSize,
    /// Write the job's variables.
    Paths,
    /// Mount.
    PreRun,
    /// Unmount.
    PostRun,
    /// Stage out.
    DataOut,
    /// Release.
    Teardown,
}

impl Arguments {
    /// The value of an argument that this function needs.
    ///
    /// # Errors
    /// It is missing.
    pub fn need<'a, T>(&self, value: &'a Option<T>, name: &str) -> Result<&'a T, Answer> {
        value.as_ref().ok_or_else(|| {
            let function = self.function.to_possible_value();
            let function = function.as_ref().map_or("this function", |value| value.get_name());
            Answer::failed(format!("{function} needs {name}"))
        })
    }

    /// `--token`.
    ///
    /// # Errors
    /// It is missing.
    pub fn token(&self) -> Result<&str, Answer> {
        self.need(&self.token, "--token").map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_definition_is_consistent() {
        use clap::CommandFactory;
        Arguments::command().debug_assert();
    }

    /// The command lines that Slurm 22.05 was seen to use, job ids and paths shortened.
    #[test]
    fn every_command_line_of_slurm_is_understood() {
        let lines = [
            "--function pools",
            "--function show_instances",
            "--function show_sessions",
            "--function show_configurations",
            "--function job_process --job /s/job.7/script",
            "--function create_persistent -c CLI -t mybuf -u 2001 -C wlm_pool:1073741824 -a striped -T scratch",
            "--function setup --token 7 --caller SLURM --user 2001 --groupid 2001 --capacity wlm_pool:112MiB \
             --job /s/job.7/script --nodehostnamefile /s/job.7/client_nids",
            "--function data_in --token 7 --job /proc/91/fd/12",
            "--function real_size --token 7",
            "--function paths --job /s/job.7/script --token 7 --pathfile /s/job.7/path",
            "--function pre_run --token 7 --job /s/job.7/script --nodehostnamefile /s/job.7/client_nids",
            "--function post_run --token 7 --job /s/job.7/script",
            "--function data_out --token 7 --job /s/job.7/script",
            "--function teardown --token 7 --job /s/job.7/script --hurry",
        ];
        for line in lines {
            let words = std::iter::once("dw_wlm_cli").chain(line.split_whitespace());
            Arguments::try_parse_from(words).unwrap_or_else(|error| panic!("{line}: {error}"));
        }
    }
}
