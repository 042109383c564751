//! The control service's API: HTTP with JSON bodies, on a unix socket (`control.sock` in the state folder) and, on a
//! cluster, over TCP with a MUNGE credential in each request.
//!
//! Who may ask for what: the operator (root, the service's own user, `admin_users`) for everything; a workload manager
//! (`wlm_users`) for everything in an owner's name; an owner for what is his. Sessions of others are not shown.
//!
//! Every life-cycle function is `POST /v1/sessions/{token}/FUNCTION`, is idempotent, is serialised per token, and goes
//! on when the caller goes away: a second caller of the same function joins the first. The reply comes when the
//! function is done; progress meanwhile is `GET /v1/sessions/{token}`.
//!
//! | request | body | reply |
//! |---|---|---|
//! | `POST /v1/job_process` | [`JobProcess`] | [`JobSummary`] |
//! | `POST /v1/tokens` | `{}` | [`NewToken`] |
//! | `POST /v1/sessions/{token}/setup` | [`Setup`] | [`SessionStatus`] |
//! | `POST /v1/sessions/{token}/data_in` | `{}` | [`SessionStatus`] |
//! | `GET  /v1/sessions/{token}/paths` | | [`Paths`] |
//! | `POST /v1/sessions/{token}/pre_run` | [`PreRun`] | [`SessionStatus`] |
//! | `POST /v1/sessions/{token}/post_run` | [`PostRun`] | [`SessionStatus`] |
//! | `POST /v1/sessions/{token}/data_out` | `{}` | [`SessionStatus`] |
//! | `POST /v1/sessions/{token}/teardown` | [`Teardown`] | [`TeardownReply`] |
//! | `GET  /v1/sessions/{token}/real_size` | | [`RealSize`] |
//! | `POST /v1/sessions/{token}/cancel` | `{}` | [`SessionStatus`]: stops a running `data_in` or `data_out` |
//! | `POST /v1/sessions/{token}/scrub` | [`crate::node::ScrubSpec`] | [`crate::node::ScrubStatus`], at once: of all nodes together |
//! | `GET  /v1/sessions/{token}/scrub` | | [`crate::node::ScrubStatus`] |
//! | `POST /v1/sessions/{token}/fsck` | [`crate::node::FsckSpec`] | [`crate::node::FsckReport`] |
//! | `GET  /v1/sessions/{token}` | | [`SessionStatus`] |
//! | `GET  /v1/status` | | [`Status`] |
//! | `POST /v1/persistent` | [`CreatePersistent`] | [`SessionStatus`], whose token is the name |
//! | `GET  /v1/objects` | | [`Objects`] |
//! | `GET  /v1/pools` | | a list of [`PoolStatus`], the default pool first |
//! | `POST /v1/nodes` | [`RegisterNode`] | [`Registered`]: a node says that it is there |
//! | `POST /v1/nodes/{name}/drain` | [`Drain`] | [`NodeStatus`] |
//! | `POST /v1/nodes/{name}/resume` | `{}` | [`NodeStatus`] |
//! | `DELETE /v1/nodes/{name}` | | `{}`: forgets a node that is offline and holds nothing |
//! | `POST /v1/shutdown` | `{}` | [`ShutdownReply`]: stops nodes and control if nothing is mounted or running |
//! | `POST /v1/stages…` | | stages on demand: see `control/stages.rs` |
//! | `GET  /metrics` | | text, for Prometheus |

mod lost;
mod objects;
mod stages;

use std::collections::BTreeMap;
use std::path::PathBuf;

use model::phase::{AccessMode, Function, Phase, Redundancy};
use serde::{Deserialize, Serialize};

use crate::node::{CopyStatus, MirrorStatus, PartTrouble};

pub use lost::{AtRisk, Damaged, GivenUp, Lost, Moved};
pub use objects::{
    ActivationObject, ConfigurationObject, FragmentObject, Goal, InstanceObject, ObjectState, Objects,
    RegistrationObject, SessionObject,
};
pub use stages::{
    BufferStatus, Change, FailedStage, FileFailure, PAIRS_MAX, Place, Remark, Side, StageChange,
    StageConcurrency, StageCounts, StageDemand, StageDue, StageNotes, StagePair, StageProgress, StageQuery,
    StageScope, StageStatus, StageTickets, Stall,
};

/// Whose fault an error is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Blame {
    /// The request, the script, or the files that it names.
    User,
    /// The machine or its set-up: a full disk, a missing device, a dead node.
    Site,
    /// A bug of ours.
    Forebay,
}

/// An error as every door shows it: what was tried and on what, why it failed, and what to do next.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{message}; {advice}")]
pub struct ApiError {
    /// A stable name of the kind of error, as `no_such_session`.
    pub code: String,
    /// Whose fault it is.
    pub blame: Blame,
    /// One line: what was tried, on which file or node, and the errno's text.
    pub message: String,
    /// One line: what to do next.
    pub advice: String,
}

/// A POSIX identity.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Owner {
    /// Numeric user id.
    pub uid: u32,
    /// Numeric group id.
    pub gid: u32,
}

/// A batch script and what its `%` symbols stand for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
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
    pub token: String,
}

/// Where a fragment's bytes live.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum VolumeKind {
    /// A folder whose bytes the store counts. Needs no privilege.
    Directory,
    /// An XFS file system of the right size in a preallocated image, on a loop device. Needs root; lets the kernel
    /// pass files through at raw speed.
    Image,
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
    pub hosts: Vec<String>,
}

/// The [`Setup::caller`] of a person's own command.
pub const CLI: &str = "CLI";

/// The [`Setup::caller`] of Slurm.
pub const SLURM: &str = "SLURM";

fn cli() -> String {
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
    /// Whether every user's jobs may use it (and, by the modes of its files, read and write it).
    #[serde(default)]
    pub shared: bool,
    /// On how many nodes the bytes of its files are to be; `None`: as its pool has it.
    #[serde(default)]
    pub redundancy: Option<Redundancy>,
    /// Who asks, as [`Setup::caller`].
    #[serde(default = "cli")]
    pub caller: String,
}

/// Mounts an instance's namespaces.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct PreRun {
    /// Mount the (single) namespace here instead of at a path below the state folder. The folder must exist.
    pub mountpoint: Option<PathBuf>,
    /// The nodes of the job, by name. Empty: the local node.
    #[serde(default)]
    pub hosts: Vec<String>,
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
    pub renamed: Option<String>,
}

/// The job's environment.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Paths {
    /// `DW_JOB_STRIPED` and its like; every value ends with a slash.
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

/// Everything an operator sees.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Status {
    /// Pools of flash.
    pub pools: Vec<PoolStatus>,
    /// Storage and compute nodes.
    pub nodes: Vec<NodeStatus>,
    /// Sessions that are not torn down.
    pub sessions: Vec<SessionStatus>,
}

/// One pool.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PoolStatus {
    /// Its name.
    pub name: String,
    /// Bytes in one grain.
    pub granularity_bytes: u64,
    /// Grains in all.
    pub quantity: u64,
    /// Grains that can be allocated now. Grains of nodes that are offline or drained cannot.
    pub free: u64,
}

/// One node.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct NodeStatus {
    /// Its name.
    pub name: String,
    /// Whether it answers.
    pub online: bool,
    /// Why not, or the last thing that went wrong.
    pub last_error: Option<String>,
    /// What it does.
    #[serde(default)]
    pub roles: Vec<NodeRole>,
    /// The pool that its flash belongs to; `None` where it stores nothing.
    #[serde(default)]
    pub pool: Option<String>,
    /// Why it gets no new fragments and mounts; `None`: it does.
    #[serde(default)]
    pub drained: Option<String>,
    /// Where its API is reached, as `10.0.0.7:7071` or the path of a socket.
    #[serde(default)]
    pub address: String,
    /// Bytes of flash that it may give to instances.
    #[serde(default)]
    pub capacity_bytes: u64,
    /// Bytes of these that are allocated.
    #[serde(default)]
    pub allocated_bytes: u64,
    /// Fragments on it.
    #[serde(default)]
    pub fragments: u32,
    /// Namespaces mounted on it.
    #[serde(default)]
    pub activations: u32,
}

/// What a node does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NodeRole {
    /// Holds fragments, and copies stages.
    Storage,
    /// Mounts namespaces for jobs.
    Compute,
}

/// A node says that it is there: at its start, and again from time to time, so that control may be restarted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RegisterNode {
    /// Its name: the workload manager's name of that host.
    pub name: String,
    /// What it does.
    pub roles: Vec<NodeRole>,
    /// Where its API is reached: `host:port`, or the absolute path of a unix socket on control's machine.
    pub address: String,
    /// The pool of its flash.
    pub pool: Option<String>,
    /// Bytes of flash that it may give to instances; 0 without the storage role.
    pub capacity_bytes: u64,
    /// Where it mounts namespaces: a folder for each token.
    pub mount_root: PathBuf,
    /// The Forebay version that it runs.
    pub version: String,
}

/// What control replies to a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Registered {
    /// After how many seconds the node should say so again.
    pub again_s: u64,
}

/// Takes a node out of use for what comes next; what is on it stays.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Drain {
    /// Shown in every status.
    pub reason: String,
}

/// One session.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SessionStatus {
    /// The job id or name.
    pub token: String,
    /// Who owns it.
    pub owner: Owner,
    /// The script that it came from (path, working folder, job name; the text too, so that a job can be resumed).
    pub script: Script,
    /// Seconds since 1970 at which the token was registered.
    pub created_unix: u64,
    /// How far it has come.
    pub phase: Phase,
    /// The function that runs now.
    pub busy: Option<Function>,
    /// The last function that failed, and why; cleared when that function succeeds.
    pub failed: Option<(Function, ApiError)>,
    /// The allocation, once set up.
    pub instance: Option<InstanceStatus>,
    /// Mounted namespaces.
    pub activations: Vec<ActivationStatus>,
    /// Stages in the order of the script: every `stage_in`, then every `stage_out`; then those on demand, at most a
    /// thousand of them.
    pub stages: Vec<StageStatus>,
    /// How long each completed function took, milliseconds, in order of completion.
    pub timings_ms: Vec<(Function, u64)>,
    /// Why teardown kept the data, if it did.
    pub kept: Option<String>,
    /// Remarks for the user, as in [`JobSummary::notes`].
    pub notes: Vec<String>,
    /// Who made it, as [`Setup::caller`].
    #[serde(default = "cli")]
    pub caller: String,
    /// Set for a persistent buffer.
    #[serde(default)]
    pub persistent: Option<PersistentStatus>,
    /// The persistent buffers that it uses.
    #[serde(default)]
    pub uses: Vec<String>,
    /// The token that it had before it was set aside, as its data was still owed; `None`: it was not.
    #[serde(default)]
    pub quarantined: Option<String>,
    /// Bytes in the buffer that a stage-out may still have to save: at most these.
    #[serde(default)]
    pub bytes_dirty: u64,
    /// Bytes that the stages under way still have to copy, as far as they are found.
    #[serde(default)]
    pub bytes_left: u64,
}

/// What a persistent buffer has besides.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PersistentStatus {
    /// Whether every user's jobs may use it.
    pub shared: bool,
    /// The sessions that use it now.
    pub users: Vec<String>,
}

/// One allocation.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct InstanceStatus {
    /// Its id, as `i3`.
    pub id: String,
    /// Bytes asked for.
    pub requested_bytes: u64,
    /// Bytes allocated: whole grains, the same on every fragment.
    pub capacity_bytes: u64,
    /// Bytes in use, as the storage nodes last reported.
    pub used_bytes: u64,
    /// The storage nodes that hold its fragments, in order.
    pub nodes: Vec<String>,
    /// Where the fragments' bytes live.
    pub volume: VolumeKind,
    /// Its access modes.
    pub access_modes: Vec<AccessMode>,
    /// The pool that it is allocated from.
    #[serde(default)]
    pub pool: String,
    /// Whether all its fragments are served; `None`: some of their nodes have not said.
    #[serde(default)]
    pub intact: Option<bool>,
    /// Those that are not, as the nodes last reported.
    #[serde(default)]
    pub unserved: Vec<PartTrouble>,
    /// The second copies of its namespaces' metadata, as the nodes last reported; empty where it is on one node.
    #[serde(default)]
    pub copies: Vec<CopyStatus>,
    /// On how many nodes the bytes of its files are.
    #[serde(default)]
    pub redundancy: Redundancy,
    /// Bytes that it takes from its pool: what is kept on two nodes counts twice.
    #[serde(default)]
    pub allocated_bytes: u64,
    /// Where they are on two: how that stands on each of its nodes, as the nodes last reported.
    #[serde(default)]
    pub mirrors: Vec<MirrorStatus>,
    /// Parts of which some bytes are damaged, or may be, as the nodes last reported.
    #[serde(default)]
    pub damaged: Vec<PartTrouble>,
    /// What nodes still have that were given up for lost, and are back.
    #[serde(default)]
    pub given_up: Vec<GivenUp>,
}

/// One mount of one namespace.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ActivationStatus {
    /// The compute node.
    pub node: String,
    /// How the namespace is shared.
    pub access_mode: AccessMode,
    /// Where it is mounted; no trailing slash.
    pub mountpoint: PathBuf,
    /// Whether it is mounted now.
    pub mounted: bool,
    /// How often the mount was lost (its process died) and made anew: files that were open then are lost to the job.
    pub interruptions: u32,
    /// The persistent buffer that is mounted; `None`: the session's own.
    #[serde(default)]
    pub persistent: Option<String>,
}

/// Whether the services stopped.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ShutdownReply {
    /// `None`: they stop now. Else what keeps them, in one line.
    pub busy: Option<String>,
}
