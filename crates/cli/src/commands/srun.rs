//! `srun` where Slurm is absent: starts the ranks of a job step on this machine.
//!
//! Several ranks go through `mpiexec` if it is installed, so that MPI programs find each other; else they are plain
//! processes with their rank in the environment. One rank is always a plain process: MPI programs run alone as well,
//! and everything else gains nothing from a launcher.

mod options;
mod ranks;
mod streams;

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use model::sbatch::Export;
use serde::{Deserialize, Serialize};

use options::{Options, Step};
use streams::Redirections;

use crate::arguments::srun as help;
use crate::exit_code::ExitCode;
use crate::failure::Failure;
use crate::output::Output;
use crate::run_record::next_step;
use crate::{block_on, env, identity};

/// What every step is passed on: it would not find its programs, its user's files or its buffer.
const ALWAYS: [&str; 5] = ["PATH", "HOME", "USER", "SHELL", "LOGNAME"];

/// The same, by how their names begin: also what tells MPI launchers to start processes here.
const PREFIXES: [&str; 5] = ["FOREBAY_", "DW_", "HYDRA_BOOTSTRAP", "OMPI_", "PRTE_"];

/// Runs a job step; the result is the process's exit status: the highest of the ranks'.
pub fn run(words: Vec<OsString>) -> u8 {
    let output = Output::new(false, None);
    if words.first().and_then(|word| word.to_str()).is_some_and(|word| help::OPTIONS.contains(&word)) {
        output.say(help::TEXT);
        return ExitCode::Success.number();
    }
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
    let count = options.ranks(env::default_ranks());
    let step = Started {
        count,
        cpus_per_rank: options.cpus_per_rank,
        streams: Redirections::new(&options.streams, count, number()),
    };
    let shared = step.streams.shared()?;
    let launcher = if count > 1 { env::program("mpiexec") } else { None };
    let mut commands = match launcher {
        Some(mpiexec) => vec![through_mpi(&mpiexec, &step, &program, &arguments)?],
        None => (0..count).map(|rank| plain(rank, &step, &program, &arguments)).collect(),
    };
    let plain_ranks = commands.len() > 1 || count == 1;
    for (rank, command) in (0..).zip(&mut commands) {
        let folder = Path::new(options.chdir.as_deref().unwrap_or_default());
        if options.chdir.is_some() {
            command.current_dir(folder);
        }
        pass_on(command, &options);
        shared.give(command)?;
        if plain_ranks {
            step.streams.give_own(command, rank, folder)?;
        }
    }
    block_on(ranks::run(commands, &program))
}

/// A step, as each of its ranks is told of it.
#[derive(Debug, Serialize, Deserialize)]
struct Started {
    count: u32,
    cpus_per_rank: Option<u32>,
    streams: Redirections,
}

/// The step's number in the job that we run in.
fn number() -> u32 {
    let Some((folder, token)) = env::own_job() else { return 0 };
    // A job that has filled the disk has steps all the same, with another number that no step had.
    next_step(&folder, &token).unwrap_or_else(|_| std::process::id())
}

/// Started by `mpiexec`, once for each rank: gives the rank its names and becomes the program.
pub fn run_rank(words: Vec<OsString>) -> u8 {
    let mut words = words.into_iter();
    let step = words.next().and_then(|word| serde_json::from_slice::<Started>(word.as_bytes()).ok());
    let (Some(step), Some(program)) = (step, words.next()) else {
        return ExitCode::Bug.number();
    };
    let rank = env::launched_rank().unwrap_or(0);
    let mut command = Command::new(&program);
    command.args(words).envs(step.variables(rank));
    let failure = match step.streams.give_own(&mut command, rank, Path::new("")) {
        Ok(()) => cannot_start(&program, &command.exec()),
        Err(failure) => failure,
    };
    Output::new(false, None).note(&failure.shown().replacen("forebay:", "srun:", 1));
    failure.exit_code().number()
}

fn plain(rank: u32, step: &Started, program: &OsString, arguments: &[OsString]) -> Command {
    let mut command = Command::new(program);
    command.args(arguments).envs(step.variables(rank));
    if rank > 0 {
        // One reader of the standard input, as under mpiexec.
        command.stdin(std::process::Stdio::null());
    }
    command
}

fn through_mpi(
    mpiexec: &Path,
    step: &Started,
    program: &OsString,
    arguments: &[OsString],
) -> Result<Command, Failure> {
    let forebay = std::env::current_exe()
        .map_err(|e| Failure::unavailable(format!("find forebay: {e}"), "repair the installation"))?;
    let step_word = serde_json::to_string(step).expect("a step has only string keys");
    let mut command = Command::new(mpiexec);
    command.arg("-n").arg(step.count.to_string()).arg(forebay);
    command.arg("srun-rank").arg(step_word).arg(program).args(arguments);
    command.envs(launcher_variables(identity::is_root()));
    Ok(command)
}

/// Leaves out of the environment what `--export` does not pass on: neither what starts programs nor what is Forebay's.
fn pass_on(command: &mut Command, options: &Options) {
    let Some(export) = options.export.clone().or_else(|| env::export().as_deref().map(Export::parse)) else {
        return;
    };
    let left_out = |name: &str| {
        !(export.passes(name)
            || ALWAYS.contains(&name)
            || PREFIXES.iter().any(|prefix| name.starts_with(prefix)))
    };
    for (name, _) in env::all().filter(|(name, _)| left_out(&name.to_string_lossy())) {
        command.env_remove(name);
    }
    command.envs(export.values().iter().map(|(name, value)| (name, value)));
}

impl Started {
    /// What a rank learns from its environment, by Slurm's names.
    fn variables(&self, rank: u32) -> Vec<(&'static str, String)> {
        let count = self.count.to_string();
        let mut variables = vec![
            ("SLURM_PROCID", rank.to_string()),
            ("SLURM_LOCALID", rank.to_string()),
            ("SLURM_NTASKS", count.clone()),
            ("SLURM_NPROCS", count.clone()),
            ("SLURM_TASKS_PER_NODE", count.clone()),
            ("SLURM_NODEID", "0".to_owned()),
            ("SLURM_STEP_NUM_TASKS", count.clone()),
            ("SLURM_STEP_NUM_NODES", "1".to_owned()),
            ("SLURM_STEP_TASKS_PER_NODE", count),
        ];
        variables.extend(self.cpus_per_rank.map(|cpus| ("SLURM_CPUS_PER_TASK", cpus.to_string())));
        variables
    }
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

/// As a shell does: 127 where there is no such program, 126 where it cannot be run.
fn cannot_start(program: &std::ffi::OsStr, error: &std::io::Error) -> Failure {
    Failure::no_input(
        format!("start {}: {error}", program.to_string_lossy()),
        "correct the name of the program",
    )
}
