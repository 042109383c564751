//! What control shows: pools, sessions, their buffers and mounts.

use std::path::PathBuf;

use model::phase::{AccessMode, Function, Phase, Redundancy};
use model::{InstanceId, NodeName, Token};
use serde::{Deserialize, Serialize};

use super::functions::{CLI, Script, cli};
use super::lost::GivenUp;
use super::nodes::NodeStatus;
use crate::error::ApiError;
use crate::node::{CopyStatus, MirrorStatus, PartTrouble, VolumeKind};
use crate::owner::Owner;
use crate::stages::StageStatus;

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

/// One session.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SessionStatus {
    /// The job id or name.
    pub token: Token,
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
    /// Remarks for the user, as in [`super::JobSummary::notes`].
    pub notes: Vec<String>,
    /// Who made it, as [`super::Setup::caller`].
    #[serde(default = "cli")]
    pub caller: String,
    /// Set for a persistent buffer.
    #[serde(default)]
    pub persistent: Option<PersistentStatus>,
    /// The persistent buffers that it uses.
    #[serde(default)]
    pub uses: Vec<Token>,
    /// The token that it had before it was quarantined, as its data was still owed; `None`: it was not.
    #[serde(default)]
    pub quarantined: Option<Token>,
    /// Bytes in the buffer that a stage-out may still have to save: at most these.
    #[serde(default)]
    pub bytes_dirty: u64,
    /// Bytes that the stages under way still have to copy, as far as they are found.
    #[serde(default)]
    pub bytes_left: u64,
}

impl SessionStatus {
    /// Whether a workload manager has it for a job, whose end is its end.
    pub fn is_of_job(&self) -> bool {
        self.caller != CLI && self.persistent.is_none() && self.quarantined.is_none()
    }

    /// Whether it is a persistent buffer that a user has mounted without a job.
    pub fn is_by_hand(&self) -> bool {
        self.caller == CLI && self.persistent.is_none() && self.instance.is_none() && !self.uses.is_empty()
    }
}

/// What a persistent buffer has besides.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PersistentStatus {
    /// Whether every user's jobs may use it.
    pub shared: bool,
    /// The sessions that use it now.
    pub users: Vec<Token>,
}

/// One allocation.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct InstanceStatus {
    /// Its id, as `i3`.
    pub id: InstanceId,
    /// Bytes asked for.
    pub requested_bytes: u64,
    /// Bytes allocated: whole grains, the same on every fragment.
    pub capacity_bytes: u64,
    /// Bytes in use, as the storage nodes last reported.
    pub used_bytes: u64,
    /// The storage nodes that hold its fragments, in order.
    pub nodes: Vec<NodeName>,
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
    /// Parts that lost writes which no fsync had confirmed, with no program told, as the home last reported.
    #[serde(default)]
    pub lost_writes: Vec<PartTrouble>,
    /// What nodes still have that were given up for lost, and are back.
    #[serde(default)]
    pub given_up: Vec<GivenUp>,
    /// The command that finishes a change of its key: one is not finished, and the former key still opens it.
    #[serde(default)]
    pub finish_key: Option<String>,
}

/// One mount of one namespace.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ActivationStatus {
    /// The compute node.
    pub node: NodeName,
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
    pub persistent: Option<Token>,
}
