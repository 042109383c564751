//! Every environment variable that `forebay` reads. No other file asks for one.
//!
//! (`XDG_STATE_HOME` and `HOME`, which choose the default folder, are read by `disk::state`.)

use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Where a node service listens that is not told another folder.
pub const NODE_SOCKET: &str = "/var/lib/forebay/node/node.sock";

/// `FOREBAY_DIR`: the state folder where `--dir` is not given.
pub fn state_folder() -> Option<PathBuf> {
    std::env::var_os("FOREBAY_DIR").filter(|value| !value.is_empty()).map(PathBuf::from)
}

/// `FOREBAY_TOKEN`, or in a job of Slurm `SLURM_JOB_ID`: the session of the job that this process belongs to.
pub fn job_token() -> Option<String> {
    let set = |name| std::env::var(name).ok().filter(|value: &String| !value.is_empty());
    set("FOREBAY_TOKEN").or_else(|| set("SLURM_JOB_ID"))
}

/// `FOREBAY_NODE_SOCKET`: where the node service of this host listens.
pub fn node_socket() -> PathBuf {
    let named = std::env::var_os("FOREBAY_NODE_SOCKET").filter(|value| !value.is_empty());
    named.map_or_else(|| NODE_SOCKET.into(), PathBuf::from)
}

/// `PATH`: where programs are looked for; the job gets it with a folder of ours in front.
pub fn search_path() -> OsString {
    std::env::var_os("PATH").unwrap_or_else(|| "/usr/local/bin:/usr/bin:/bin".into())
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
    std::env::split_paths(&search_path()).map(|folder| folder.join(name)).find(|path| executable(path))
}

fn executable(path: &Path) -> bool {
    disk::is_file(path).unwrap_or(false) && rustix::fs::access(path, rustix::fs::Access::EXEC_OK).is_ok()
}

fn number(name: &str) -> Option<u32> {
    std::env::var(name).ok()?.parse().ok()
}
