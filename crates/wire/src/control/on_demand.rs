//! Stages on demand: what is asked for while a buffer lives.
//!
//! | request | body | reply |
//! |---|---|---|
//! | `POST /v1/stages` | [`StageRequest`] | [`StageTickets`]: accepted, not done |
//! | `POST /v1/stages/query` | [`StageQuery`] | [`StageCounts`], perhaps after waiting |
//! | `POST /v1/stages/list` | [`StageQuery`] | a list of [`crate::stages::StageStatus`], the next of them |
//! | `POST /v1/stages/failed` | [`StageQuery`] | a list of [`FailedStage`], at most 10,000 |
//! | `POST /v1/stages/change` | [`StageChange`] | [`StageCounts`] of what was changed |
//! | `POST /v1/stages/concurrency` | [`StageConcurrency`] | `{}` |
//! | `POST /v1/stages/buffer` | [`Place`] | [`BufferStatus`]: the buffer at a place |
//!
//! What is asked for belongs to the buffer: it survives who asked and control's restart, and later jobs of the same
//! buffer see it. Of one path the last request counts.

use std::path::PathBuf;

use model::Token;
use model::phase::{AccessMode, Direction, StageKind};
use serde::{Deserialize, Serialize};

use super::status::InstanceStatus;
use crate::stages::StagePair;

/// One namespace of one buffer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Place {
    /// What is mounted somewhere: how programs in a job know it.
    Mount {
        /// The instance, as the mount table names it: `i3`.
        instance: String,
        /// Where; no trailing slash.
        mountpoint: PathBuf,
    },
    /// By the session's token.
    Session {
        /// The token.
        token: Token,
        /// A persistent buffer that the session uses; `None`: its own.
        persistent: Option<Token>,
        /// Which namespace.
        access_mode: AccessMode,
    },
}

/// When a stage-out is due.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StageDue {
    /// As soon as its turn comes.
    #[default]
    Now,
    /// When the job ends.
    AtJobEnd,
}

/// Asks for stages. All of them are accepted, or none.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct StageRequest {
    /// Which buffer.
    pub place: Place,
    /// Which way.
    pub direction: Direction,
    /// What each pair names: a file or a directory. Lists are many pairs.
    pub kind: StageKind,
    /// When.
    #[serde(default)]
    pub due: StageDue,
    /// At most [`PAIRS_MAX`].
    pub pairs: Vec<StagePair>,
}

/// The most pairs of one [`StageRequest`].
pub const PAIRS_MAX: usize = 65_536;

/// The stages that were accepted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StageTickets {
    /// Their ids, as `7.d12`, one for each pair.
    pub ids: Vec<String>,
}

/// Which stages of a buffer are meant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StageScope {
    /// Of these files; a file below a staged directory counts with that.
    Files(Vec<String>),
    /// Of this directory and of everything below it.
    Directory(String),
    /// By their ids.
    Ids(Vec<String>),
    /// All of the buffer.
    All,
}

/// Asks how stages are.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct StageQuery {
    /// Which buffer.
    pub place: Place,
    /// Which stages.
    pub scope: StageScope,
    /// Reply only when none of them is pending or active, but after so many milliseconds at the latest.
    #[serde(default)]
    pub wait_ms: u64,
    /// Of a list: only the stages after the one with this id. A list ends where a reply is empty.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
}

/// Files of stages, counted by state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StageCounts {
    /// At their destination and verified.
    pub complete: u64,
    /// Waiting or being copied.
    pub pending: u64,
    /// Waiting for the job's end.
    pub deferred: u64,
    /// Failed.
    pub failed: u64,
    /// The errno of the first failure; 0 where there is none, or it has none.
    pub errno: i32,
}

impl StageCounts {
    /// Whether there is nothing at all.
    pub fn is_empty(&self) -> bool {
        self.complete + self.pending + self.deferred + self.failed == 0
    }

    /// Adds those of other stages, which come later.
    pub fn add(&mut self, other: StageCounts) {
        self.complete += other.complete;
        self.pending += other.pending;
        self.deferred += other.deferred;
        self.failed += other.failed;
        if self.errno == 0 {
            self.errno = other.errno;
        }
    }
}

/// What is to become of stages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// Forget those that wait for the job's end.
    Revoke,
    /// Start now those that wait for the job's end.
    Activate,
    /// Stop and forget, whatever their state but complete.
    Terminate,
    /// Start those that failed again.
    Retry,
}

/// Changes stages.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct StageChange {
    /// Which buffer.
    pub place: Place,
    /// Which stages.
    pub scope: StageScope,
    /// How.
    pub change: Change,
}

/// A file that a stage could not copy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailedStage {
    /// Its path in the buffer, below the root.
    pub path: String,
    /// Which way it was to go.
    pub direction: Direction,
    /// The errno; 0 where it has none.
    pub errno: i32,
    /// Why, in one line.
    pub message: String,
    /// What to do next.
    pub advice: String,
}

/// How many stages of each user may run at once in a buffer. Only its owner may say that.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct StageConcurrency {
    /// Which buffer.
    pub place: Place,
    /// 1 to 64.
    pub concurrency: u32,
}

/// A buffer, as its user sees it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct BufferStatus {
    /// The session that owns it.
    pub token: Token,
    /// Which of its namespaces the place is.
    pub access_mode: AccessMode,
    /// The allocation.
    pub instance: InstanceStatus,
}
