//! Stages: how far each is, and what is asked for while a buffer lives ("on demand").
//!
//! | request | body | reply |
//! |---|---|---|
//! | `POST /v1/stages` | [`StageDemand`] | [`StageTickets`]: accepted, not done |
//! | `POST /v1/stages/query` | [`StageQuery`] | [`StageCounts`], perhaps after waiting |
//! | `POST /v1/stages/list` | [`StageQuery`] | a list of [`StageStatus`] |
//! | `POST /v1/stages/failed` | [`StageQuery`] | a list of [`FailedStage`] |
//! | `POST /v1/stages/change` | [`StageChange`] | [`StageCounts`] of what was changed |
//! | `POST /v1/stages/concurrency` | [`StageConcurrency`] | `{}` |
//! | `POST /v1/stages/buffer` | [`Place`] | [`BufferStatus`]: the buffer at a place |
//!
//! What is asked for belongs to the buffer: it survives who asked and control's restart, and later jobs of the same
//! buffer see it. Of one path the last request counts.

mod pair;

use std::path::PathBuf;

use model::phase::{AccessMode, Direction, StageKind, StageState};
use serde::{Deserialize, Serialize};

use super::{ApiError, InstanceStatus};

pub use pair::StagePair;

/// One stage of a session; also what a stage worker reports while it copies.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StageStatus {
    /// Its id, as `3.0`: token and position in the script.
    pub id: String,
    /// Which way.
    pub direction: Direction,
    /// What the source names.
    pub kind: StageKind,
    /// Source as the directive has it, symbols replaced.
    pub source: String,
    /// Destination as the directive has it, symbols replaced; for a list, its file again.
    pub destination: String,
    /// State.
    pub state: StageState,
    /// Counters.
    pub progress: StageProgress,
    /// Milliseconds from start to now or to the end.
    pub elapsed_ms: u64,
    /// The first 100 failures.
    pub failures: Vec<FileFailure>,
    /// The failure that ended the stage before any file was tried, as an unreadable source.
    pub error: Option<ApiError>,
    /// What else its owner should know.
    #[serde(default)]
    pub notes: StageNotes,
}

impl StageStatus {
    /// Whether it was asked for while the buffer lived, and is none of the script's.
    pub fn is_on_demand(&self) -> bool {
        self.id.rsplit_once('.').is_some_and(|(_, last)| last.starts_with('d'))
    }
}

/// What the owner of a stage should know besides its progress and its failures.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct StageNotes {
    /// It was told to wait.
    pub paused: bool,
    /// An operation that does not come back, as on a mount whose server is away.
    pub stalled: Option<Stall>,
    /// The first 100 things that could not be kept, and attempts that failed and were repeated.
    pub remarks: Vec<Remark>,
    /// How many there are in all.
    pub remarks_total: u64,
    /// Storage nodes that help, and bytes that each has copied; the rest was copied by the node that the stage is on.
    pub helpers: Vec<(String, u64)>,
}

/// Something about an entry that is no failure.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Remark {
    /// The path, as users know it.
    pub path: String,
    /// What, in words.
    pub text: String,
}

/// An operation of a stage that does not come back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stall {
    /// On which side.
    pub side: Side,
    /// The path, as users know it.
    pub path: String,
    /// What was tried, as `write`.
    pub operation: String,
    /// For how long, milliseconds.
    pub for_ms: u64,
}

/// Counters of one stage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StageProgress {
    /// Entries (files, folders, links, …) found so far; final once `planned`.
    pub entries_total: u64,
    /// Entries that are done and verified.
    pub entries_done: u64,
    /// Bytes in them so far; final once `planned`.
    pub bytes_total: u64,
    /// Bytes copied.
    pub bytes_done: u64,
    /// Bytes read back at the destination and found equal.
    pub bytes_verified: u64,
    /// Bytes that the worker has copied in its present life, also those of attempts that failed; without what an
    /// earlier life had copied.
    #[serde(default)]
    pub bytes_moved: u64,
    /// Bytes of those in `bytes_total` that are to be read back, as the policy says.
    #[serde(default)]
    pub bytes_to_verify: u64,
    /// Time until the end, milliseconds, if it goes on as it did lately; `None`: not known yet, or paused.
    #[serde(default)]
    pub eta_ms: Option<u64>,
    /// Entries that failed.
    pub entries_failed: u64,
    /// Whether the source has been walked to its end.
    pub planned: bool,
}

/// Which side of a stage refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Side {
    /// The parallel file system.
    Pfs,
    /// The buffer.
    Buffer,
}

/// One entry that a stage could not copy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileFailure {
    /// The path on the side that refused.
    pub path: String,
    /// That side.
    pub side: Side,
    /// What was tried, as `open for reading`.
    pub operation: String,
    /// The errno; 0 for a checksum that does not match.
    pub errno: i32,
    /// One line in words, with what was tried and the path.
    pub message: String,
    /// What to do next.
    pub advice: String,
}

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
        token: String,
        /// A persistent buffer that the session uses; `None`: its own.
        persistent: Option<String>,
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
pub struct StageDemand {
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

/// The most pairs of one [`StageDemand`].
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

/// How many stages of a buffer may run at once.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct StageConcurrency {
    /// Which buffer.
    pub place: Place,
    /// At least 1.
    pub concurrency: u32,
}

/// A buffer, as its user sees it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct BufferStatus {
    /// The session that owns it.
    pub token: String,
    /// Which of its namespaces the place is.
    pub access_mode: AccessMode,
    /// The allocation.
    pub instance: InstanceStatus,
}
