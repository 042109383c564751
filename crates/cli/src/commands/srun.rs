//! `srun` where Slurm is absent: starts the ranks of a job step on this machine.
//!
//! Several ranks go through `mpiexec` if it is installed, so that MPI programs find each other; else they are plain
//! processes with their rank in the environment. One rank is always a plain process: MPI programs run alone as well,
//! and everything else gains nothing from a launcher.

mod options;
mod ranks;

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::Command;

use options::{Options, Step};

use crate::exit_code::ExitCode;
use crate::failure::Failure;
use crate::output::Output;
use crate::{block_on, env, identity};

/// Runs a job step; the result is the process's exit status: the highest of the ranks'.
pub fn run(words: Vec<OsString>) -> u8 {
    let output = Output::new(false, None);
    let ended = start(words, &output);
    ended.unwrap_or_else(|failure| {
        output.note(&failure.shown().replacen("forebay:", "srun:", 1));
        failure.exit_code().number()
    })
}

fn start(words: Vec<OsString>, output: &Output) -> Result<u8, Failure> {
    let Step { options, skipped, program, arguments } = options::parse(words)?;
    if !skipped.is_empty() {
        output.note(&format!("srun: note: options without meaning here are ignored: {}", skipped.join(" ")));
    }
    let count = options.ranks.or_else(env::default_ranks).unwrap_or(1);
    let launcher = if count > 1 { env::program("mpiexec") } else { None };
    let commands = match launcher {
        Some(mpiexec) => vec![through_mpi(&mpiexec, count, &program, &arguments)?],
        None => (0..count).map(|rank| plain(rank, count, &program, &arguments)).collect(),
    };
    let commands = commands.into_iter().map(|command| in_folder(command, &options)).collect();
    block_on(ranks::run(commands, &program))
}

/// Started by `mpiexec`, once for each rank: gives the rank its names and becomes the program.
pub fn run_rank(words: Vec<OsString>) -> u8 {
    let mut words = words.into_iter();
    let (Some(count), Some(program)) = (words.next(), words.next()) else {
        return ExitCode::Bug.number();
    };
    let rank = env::launched_rank().unwrap_or(0);
    let count = count.to_str().and_then(|count| count.parse().ok()).unwrap_or(1);
    let mut command = Command::new(&program);
    let error = command.args(words).envs(rank_variables(rank, count)).exec();
    let failure = cannot_start(&program, &error);
    Output::new(false, None).note(&failure.shown().replacen("forebay:", "srun:", 1));
    failure.exit_code().number()
}

fn plain(rank: u32, count: u32, program: &OsString, arguments: &[OsString]) -> Command {
    let mut command = Command::new(program);
    command.args(arguments).envs(rank_variables(rank, count));
    if rank > 0 {
        // One reader of the standard input, as under mpiexec.
        command.stdin(std::process::Stdio::null());
    }
    command
}

fn through_mpi(
    mpiexec: &std::path::Path,
    count: u32,
    program: &OsString,
    arguments: &[OsString],
) -> Result<Command, Failure> {
    let forebay = std::env::current_exe()
        .map_err(|e| Failure::unavailable(format!("find forebay: {e}"), "repair the installation"))?;
    let mut command = Command::new(mpiexec);
    command.arg("-n").arg(count.to_string()).arg(forebay);
    command.arg("srun-rank").arg(count.to_string()).arg(program).args(arguments);
    command.envs(launcher_variables(identity::is_root()));
    Ok(command)
}

/// What a rank learns from its environment, by Slurm's names.
fn rank_variables(rank: u32, count: u32) -> [(&'static str, String); 6] {
    [
        ("SLURM_PROCID", rank.to_string()),
        ("SLURM_LOCALID", rank.to_string()),
        ("SLURM_NTASKS", count.to_string()),
        ("SLURM_NPROCS", count.to_string()),
        ("SLURM_NODEID", "0".to_owned()),
        ("SLURM_STEP_NUM_TASKS", count.to_string()),
    ]
}

/// What Open MPI needs to start more ranks than cores, and to start any for root. The names of release 4 and of release
/// 5, whose launcher is PRRTE; other launchers ignore them.
fn launcher_variables(root: bool) -> Vec<(&'static str, &'static str)> {
    let mut variables = vec![
        ("OMPI_MCA_rmaps_base_oversubscribe", "1"),
        ("OMPI_MCA_hwloc_base_binding_policy", "none"),
        ("PRTE_MCA_rmaps_default_mapping_policy", ":oversubscribe"),
        ("PRTE_MCA_hwloc_default_binding_policy", "none"),
    ];
    if root {
        variables.extend([
            ("OMPI_ALLOW_RUN_AS_ROOT", "1"),
            ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"),
            ("PRTE_ALLOW_RUN_AS_ROOT", "1"),
            ("PRTE_ALLOW_RUN_AS_ROOT_CONFIRM", "1"),
        ]);
    }
    variables
}

fn in_folder(mut command: Command, options: &Options) -> Command {
    if let Some(folder) = &options.chdir {
        command.current_dir(folder);
    }
    command
}

/// As a shell does: 127 where there is no such program, 126 where it cannot be run.
fn cannot_start(program: &std::ffi::OsStr, error: &std::io::Error) -> Failure {
    Failure::no_input(format!("start {}: {error}", program.to_string_lossy()), "correct the script")
}
