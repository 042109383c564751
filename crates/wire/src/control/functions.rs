//! The life-cycle's functions: what each is told, and what it replies.

use std::collections::BTreeMap;
use std::path::PathBuf;

use model::phase::{AccessMode, Redundancy};
use model::{NodeName, Token};
use serde::{Deserialize, Serialize};

use crate::node::VolumeKind;
use crate::owner::Owner;

/// A batch script and what its `%` symbols stand for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Script {
    /// The whole text.
    pub text: String,
    /// Where it was read, for messages.
    pub path: PathBuf,
    /// `%d`: the folder that the job starts in; absolute. Relative paths in directives start here.
    pub workdir: PathBuf,
    /// `%x`: the job's name.
    pub job_name: String,
    /// `%u`: the user's name.
    pub user: String,
}

/// Asks whether a script would be accepted.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct JobProcess {
    /// The script.
    pub script: Script,
    /// The owner whose rights the `stage_in` sources are checked with.
    pub owner: Owner,
    /// The user who submits it, where that is not its owner and is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub submitter: Option<u32>,
}

/// What a script asks for.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct JobSummary {
    /// Bytes that the directives ask for.
    pub requested_bytes: u64,
    /// Bytes after rounding up to whole grains.
    pub capacity_bytes: u64,
    /// Access modes, in the script's order.
    pub access_modes: Vec<AccessMode>,
    /// Number of `stage_in` directives.
    pub stage_ins: usize,
    /// Number of `stage_out` directives.
    pub stage_outs: usize,
    /// Remarks for the user, one line each, as `capacity 10GB rounded up to 9537 grains of 1 MiB`.
    pub notes: Vec<String>,
}

/// A fresh token.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct NewToken {
    /// Digits only, as a workload manager's job id.
    pub token: Token,
}

/// Allocates an instance.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Setup {
    /// Who owns the instance.
    pub owner: Owner,
    /// The script with its directives.
    pub script: Script,
    /// Over how many storage nodes; `None` lets control choose.
    pub fragments: Option<u32>,
    /// `None` chooses `image` where it works, else `directory`.
    pub volume: Option<VolumeKind>,
    /// Who asks, as `SLURM`; shown as the session's creator. [`CLI`] for a person's own command.
    #[serde(default = "cli")]
    pub caller: String,
    /// What the workload manager counted, as `wlm_pool:16GiB`. The script counts; this is only noted in the log.
    #[serde(default)]
    pub capacity: Option<String>,
    /// Where the job may come to run. A guess of the workload manager's: [`PreRun::hosts`] decides.
    #[serde(default)]
    pub hosts: Vec<NodeName>,
}

/// The [`Setup::caller`] of a person's own command.
pub const CLI: &str = "CLI";

/// The [`Setup::caller`] of Slurm.
pub const SLURM: &str = "SLURM";

pub(super) fn cli() -> String {
    CLI.to_owned()
}

/// Allocates an instance that outlives jobs.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CreatePersistent {
    /// Its name, which becomes the session's token. Begins with a letter: numbers are job ids.
    pub name: String,
    /// Who owns it.
    pub owner: Owner,
    /// Bytes asked for.
    pub capacity_bytes: u64,
    /// `None`: the default pool.
    pub pool: Option<String>,
    /// Its namespaces; empty: striped.
    #[serde(default)]
    pub access_modes: Vec<AccessMode>,
    /// Whether every user's jobs may use it (and, by the modes of its files, read and write it); `None`: as the site
    /// has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shared: Option<bool>,
    /// On how many nodes the bytes of its files are to be; `None`: as its pool has it.
    #[serde(default)]
    pub redundancy: Option<Redundancy>,
    /// Who asks, as [`Setup::caller`].
    #[serde(default = "cli")]
    pub caller: String,
}

/// Mounts a persistent buffer on a node without a job, for the user who asks.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct MountPersistent {
    /// Where.
    pub node: NodeName,
}

/// Mounts an instance's namespaces.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct PreRun {
    /// Mount the (single) namespace here instead of at a path below the state folder. The folder must exist.
    pub mountpoint: Option<PathBuf>,
    /// The nodes of the job, by name. Empty: the local node.
    #[serde(default)]
    pub hosts: Vec<NodeName>,
    /// Other mounts of the same namespace are to be possible beside this one: then it keeps nothing for itself.
    #[serde(default)]
    pub shared: bool,
}

/// Unmounts an instance's namespaces.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct PostRun {
    /// Detach at once, even where files are open.
    #[serde(default)]
    pub hurry: bool,
    /// Only what is mounted here; else all.
    #[serde(default)]
    pub mountpoint: Option<PathBuf>,
}

/// Stages out what the script has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DataOut {
    /// The job is known to have failed: a source that is not there is one that it did not come to make.
    #[serde(default)]
    pub job_failed: bool,
}

/// Releases an instance.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Teardown {
    /// Destroy data that was to be staged out and is not.
    #[serde(default)]
    pub hurry: bool,
}

/// What teardown did.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TeardownReply {
    /// `None`: everything is released. Else why the data is kept, in one line.
    pub kept: Option<String>,
    /// The token under which it is kept, as `7-kept-1`; `None` where that is still the old one. A workload manager's
    /// sessions are renamed, so that it can forget them: for it the teardown succeeded.
    #[serde(default)]
    pub renamed: Option<Token>,
}

/// The job's environment.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Paths {
    /// `DW_JOB_STRIPED` and its like, whose values end with a slash; `FOREBAY_NOTE`, where its user is to be told
    /// something.
    pub variables: BTreeMap<String, String>,
}

/// What was really allocated.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RealSize {
    /// Bytes.
    pub capacity: u64,
    /// Always `bytes`.
    pub units: String,
}

/// A buffer whose key was changed (`POST /v1/sessions/{token}/rekey`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rekeyed {
    /// The buffer.
    pub token: Token,
    /// The nodes of its parts, which take only the new key now.
    pub nodes: Vec<NodeName>,
    /// How many mounts were given a credential of it.
    pub mounts: usize,
}
