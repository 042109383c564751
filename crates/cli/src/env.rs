//! Every environment variable that `forebay` reads. No other file asks for one.
//!
//! (`XDG_STATE_HOME` and `HOME`, which choose the default folder, are read by `disk::state`.)

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use model::file_pattern::Values;

/// Where programs are looked for where nobody says it.
pub const DEFAULT_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// Where a node service listens that is not told another folder.
pub const NODE_SOCKET: &str = "/var/lib/forebay/node/node.sock";

/// `FOREBAY_DIR`: the state folder where `--dir` is not given.
pub fn state_folder() -> Option<PathBuf> {
    std::env::var_os("FOREBAY_DIR").filter(|value| !value.is_empty()).map(PathBuf::from)
}

/// `FOREBAY_TOKEN`, or in a job of Slurm `SLURM_JOB_ID`: the session of the job that this process belongs to.
/// Which of them has it comes with it.
pub fn job_token() -> Option<(&'static str, String)> {
    let set = |name| {
        let value = std::env::var(name).ok().filter(|value: &String| !value.is_empty())?;
        Some((name, value))
    };
    set("FOREBAY_TOKEN").or_else(|| set("SLURM_JOB_ID"))
}

/// `FOREBAY_DIR` and `FOREBAY_TOKEN`: the job of a `forebay run` that this process belongs to.
pub fn own_job() -> Option<(PathBuf, String)> {
    state_folder().zip(std::env::var("FOREBAY_TOKEN").ok())
}

/// `SLURM_JOB_NODELIST`, of a job of Slurm's; `forebay run` gives its scripts one that is none.
pub fn allocation() -> Option<String> {
    let set = |name| std::env::var(name).ok().filter(|value: &String| !value.is_empty());
    set("SLURM_JOB_ID").and_then(|_| set("SLURM_JOB_NODELIST")).filter(|_| own_job().is_none())
}

/// `SLURM_JOB_NUM_NODES`: how many hosts the job of Slurm's has that we run in.
pub fn allocated_nodes() -> Option<usize> {
    allocation().and_then(|_| std::env::var("SLURM_JOB_NUM_NODES").ok()?.parse().ok())
}

/// `SLURMD_NODENAME`: what Slurm calls the host that we run on.
pub fn slurm_node() -> Option<String> {
    std::env::var("SLURMD_NODENAME").ok().filter(|name| !name.is_empty())
}

/// `TMPDIR`: where each host keeps what is there for a while only.
pub fn temporary_folder() -> PathBuf {
    let named = std::env::var_os("TMPDIR").filter(|value| !value.is_empty());
    named.map_or_else(|| "/tmp".into(), PathBuf::from)
}

/// `FOREBAY_NODE_SOCKET`: where the node service of this host listens.
pub fn node_socket() -> PathBuf {
    let named = std::env::var_os("FOREBAY_NODE_SOCKET").filter(|value| !value.is_empty());
    named.map_or_else(|| NODE_SOCKET.into(), PathBuf::from)
}

/// `PATH`: where programs are looked for; the job gets it with a folder of ours in front.
pub fn search_path() -> OsString {
    std::env::var_os("PATH").unwrap_or_else(|| DEFAULT_PATH.into())
}

/// Every variable that we have.
pub fn all() -> impl Iterator<Item = (OsString, OsString)> {
    std::env::vars_os()
}

/// `SLURM_EXPORT_ENV`: what steps are passed where they do not say it.
pub fn export() -> Option<String> {
    std::env::var("SLURM_EXPORT_ENV").ok()
}

/// What the symbols in names of files stand for in the job that we run in; without its step.
pub fn pattern_values() -> Values {
    let text = |name: &str| std::env::var(name).unwrap_or_default();
    Values {
        job_id: text("SLURM_JOB_ID"),
        array_job_id: std::env::var("SLURM_ARRAY_JOB_ID").ok(),
        array_task_id: number("SLURM_ARRAY_TASK_ID"),
        host: text("SLURMD_NODENAME"),
        user: text("SLURM_JOB_USER"),
        job_name: text("SLURM_JOB_NAME"),
        ..Values::default()
    }
}

/// `SLURM_NTASKS`: the number of ranks of an `srun` without `-n`.
pub fn default_ranks() -> Option<u32> {
    number("SLURM_NTASKS")
}

/// The rank that an MPI launcher gave this process: `PMI_RANK` (MPICH, Intel MPI), `OMPI_COMM_WORLD_RANK` (Open MPI) or
/// `PMIX_RANK` (any PMIx launcher).
pub fn launched_rank() -> Option<u32> {
    ["PMI_RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK"].into_iter().find_map(number)
}

/// The first executable file of this name in `PATH`.
pub fn program(name: &str) -> Option<PathBuf> {
    std::env::split_paths(&search_path()).map(|folder| folder.join(name)).find(|path| is_program(path))
}

/// Whether we may start this file.
pub fn is_program(path: &Path) -> bool {
    disk::is_file(path).unwrap_or(false) && rustix::fs::access(path, rustix::fs::Access::EXEC_OK).is_ok()
}

fn number(name: &str) -> Option<u32> {
    std::env::var(name).ok()?.parse().ok()
}
