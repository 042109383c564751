//! Stages as a node is told of them.

use std::path::PathBuf;

use model::Ino;
use model::phase::{Direction, StageKind};
use serde::{Deserialize, Serialize};

use super::NamespaceTarget;
use crate::owner::Owner;
use crate::stages::StagePair;

/// A stage to run. The node keeps this specification for its own restart.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StageSpec {
    /// Its id, as `3.0`.
    pub id: String,
    /// Which way.
    pub direction: Direction,
    /// What the source names.
    pub kind: StageKind,
    /// The PFS side: an absolute path. For a list, the list file.
    pub pfs_path: PathBuf,
    /// The buffer side: a path below the namespace's root, without a leading slash, may end with a slash, may be empty.
    /// Unused for a list.
    pub buffer_path: String,
    /// How the buffer is written in directives and list files, as `$DW_JOB_STRIPED`.
    pub buffer_name: String,
    /// Source and destination as the directive has them, for reports.
    pub source: String,
    /// See `source`.
    pub destination: String,
    /// The namespace.
    pub target: NamespaceTarget,
    /// Whose rights on the PFS apply.
    pub owner: Owner,
    /// A list that control has itself: these files are staged, and `pfs_path` and `buffer_path` are unused. Empty: it
    /// is not.
    #[serde(default)]
    pub pairs: Vec<StagePair>,
    /// The inode in the buffer that a stage-out was asked for: what is copied where nothing has its name any more.
    #[serde(default)]
    pub source_ino: Option<Ino>,
    /// What the PFS side was on when the stage was accepted, each mount once: nothing is copied while one is away.
    #[serde(default)]
    pub pfs_mounts: Vec<PfsMount>,
    /// How it is done.
    #[serde(default)]
    pub policy: StagePolicy,
    /// Proves to the buffer's other nodes that control gave this stage to whoever shows it: see
    /// [`ticket`](crate::ticket). Empty: they do not help.
    #[serde(default)]
    pub ticket: String,
}

/// The mount that a path of the PFS was on when something was to be copied from it or there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PfsMount {
    /// The path.
    pub path: PathBuf,
    /// Where the file system was mounted.
    pub mountpoint: PathBuf,
    /// Its type, as `lustre`.
    pub kind: String,
}

/// What may be chosen about a stage.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct StagePolicy {
    /// What is read back and compared.
    pub verify: Verify,
    /// Where on the PFS to write the manifest: a line of JSON for each entry. It must not be below a folder that the
    /// stage copies.
    pub manifest: Option<PathBuf>,
    /// Bytes a second that it may read from or write to the PFS; `None`: as many as can be.
    pub bandwidth_bytes_per_s: Option<u64>,
    /// The job still runs: the source is walked again and again, and files that are closed are copied. Such a stage
    /// never ends; a specification that differs in this alone takes its place and its journal.
    pub while_running: bool,
}

/// What a stage reads back from its target and compares with what it wrote. Sizes are compared in any case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verify {
    /// Files up to 256 MiB as `Full`, larger ones as `Sampled`.
    #[default]
    BySize,
    /// Every byte.
    Full,
    /// Of each file the first 16 MiB, the last, and an eighth of what is between.
    Sampled,
    /// Nothing.
    Off,
}

/// What may be changed about a stage that is under way. The node keeps it for its own restart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct StageControl {
    /// Nothing is copied until this is false again.
    pub paused: bool,
    /// In place of [`StagePolicy::bandwidth_bytes_per_s`] from now on, where it is some.
    pub bandwidth_bytes_per_s: Option<u64>,
}

/// What a node tells the processes that copy on it, workers and movers, a line of JSON each time that it changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct StagePace {
    /// Nothing is copied until this is false again.
    pub paused: bool,
    /// Bytes a second that the stage may move on the PFS, by all nodes together; `None`: as many as can be.
    pub bandwidth_bytes_per_s: Option<u64>,
    /// Bytes a second that this process may move there itself.
    pub node_bandwidth_bytes_per_s: Option<u64>,
}
