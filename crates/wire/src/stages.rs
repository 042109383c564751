//! How far a stage is, as its worker tells its node, the node control, and control everybody.

mod pair;

use model::NodeName;
use model::phase::{Direction, StageKind, StageState};
use serde::{Deserialize, Serialize};

use crate::error::ApiError;
use crate::error_code::ErrorCode;

pub use pair::StagePair;

/// One stage of a session; also what a stage worker reports while it copies.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
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
    /// Whether it failed, and only as sources are not there: everything else is copied.
    pub fn lacks_only_sources(&self) -> bool {
        let StageProgress { entries_total, entries_done, entries_failed, sources_missing, .. } =
            self.progress;
        let is_all = match &self.error {
            Some(error) => error.code == ErrorCode::StageSource,
            None => sources_missing == entries_failed && entries_done + entries_failed == entries_total,
        };
        self.state == StageState::Failed && sources_missing > 0 && is_all
    }

    /// Whether there was nothing to copy, as the job failed before it made anything of it.
    pub fn is_unmade(&self) -> bool {
        self.state == StageState::Complete
            && self.progress.sources_missing > 0
            && self.progress.entries_done == 0
    }

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
    pub helpers: Vec<(NodeName, u64)>,
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
    /// Sources that the directive or its list names and that are not there.
    #[serde(default)]
    pub sources_missing: u64,
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
