//! What a drainer says of itself and of single files: JSON for its socket, the rendezvous and its users.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::generation::Stamp;

/// How long a silent drainer counts as alive.
pub const SILENCE_MAX: Duration = Duration::from_secs(60);

/// Why a file is not on the PFS yet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trouble {
    /// Its path below the drained folder.
    pub path: String,
    /// The errno; 0 where there is none.
    pub errno: i32,
    /// What was tried, on which side, and why it did not work.
    pub message: String,
    /// What to do.
    pub advice: String,
}

/// One node's drainer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// The node.
    pub host: String,
    /// The job, or what it is called without one.
    pub session: String,
    /// The process.
    pub pid: u32,
    /// The machine that the process is of, while that is up; empty where nobody said so.
    #[serde(default)]
    pub machine: String,
    /// What is drained.
    pub from: PathBuf,
    /// Which folder that is, whatever path it has: its inode number and when it was made, where that is known.
    #[serde(default)]
    pub folder: Option<(u64, Stamp)>,
    /// Where to.
    pub to: PathBuf,
    /// Files that are to be on the PFS.
    pub enqueued: usize,
    /// Those of them that are being copied, or are there.
    pub dequeued: usize,
    /// Those of them that are there, verified.
    pub done: usize,
    /// Those that could not be copied at the last try.
    pub failed: usize,
    /// Those that somebody has open for writing.
    pub open: usize,
    /// Bytes to copy.
    pub bytes_left: u64,
    /// Bytes copied and verified by this process.
    pub bytes_done: u64,
    /// Bytes to copy and to read back.
    #[serde(default)]
    pub work_left: u64,
    /// Bytes a second that are copied or read back, over the last ten seconds of work; 0 before there is anything to
    /// tell from.
    pub bytes_per_s: u64,
    /// Nothing is copied because somebody said so.
    pub paused: bool,
    /// No new file is copied because the job writes to the flash in a burst.
    #[serde(default)]
    pub gives_way: bool,
    /// It was found to be late, and gives way to nobody any more.
    #[serde(default)]
    pub hurries: bool,
    /// When the job's time ends, seconds since 1970.
    pub deadline: Option<u64>,
    /// The job is over, and all that it closed has been decided about.
    #[serde(default)]
    pub settled: bool,
    /// It has ended as it was told to.
    #[serde(default)]
    pub ended: bool,
    /// It could not start; the first of the troubles says why.
    #[serde(default)]
    pub refused: bool,
    /// What becomes of a file on the PFS that is removed on the node, as `--removed` has it; empty where nobody said
    /// so.
    #[serde(default)]
    pub removed: String,
    /// When this was written, milliseconds since 1970.
    pub updated_ms: u64,
    /// What could not be copied, up to a hundred.
    pub troubles: Vec<Trouble>,
}

impl Status {
    /// Whether everything that it knows of is on the PFS.
    pub fn owes_nothing(&self) -> bool {
        self.enqueued == self.done && self.open == 0 && self.failed == 0
    }

    /// Whether it has ended so: another may take its place.
    pub(crate) fn is_over(&self) -> bool {
        self.ended && self.owes_nothing()
    }

    /// What it would answer, if it has ended after its job owing nothing, or could not start: nobody answers for it.
    pub(crate) fn last_answer(&self) -> Option<Answer> {
        let is_over = self.settled && self.ended && self.owes_nothing();
        let failed = if self.refused { self.troubles.clone() } else { vec![] };
        let answer = || Answer { host: self.host.clone(), landed: self.done, failed, open: vec![] };
        (is_over || self.refused).then(answer)
    }

    /// How long nothing has been heard of it.
    pub fn silence(&self) -> Duration {
        Duration::from_millis(now_ms().saturating_sub(self.updated_ms))
    }

    /// Seconds until everything is on the PFS, at the present rate.
    pub fn seconds_left(&self) -> Option<u64> {
        match (self.work_left, self.bytes_per_s) {
            (0, _) => Some(0),
            (_, 0) => None,
            (left, rate) => Some(left.div_ceil(rate)),
        }
    }
}

/// What became of everything that was closed before a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    /// The node.
    pub host: String,
    /// Files that are on the PFS, verified.
    pub landed: usize,
    /// What is not.
    pub failed: Vec<Trouble>,
    /// What is open for writing.
    pub open: Vec<String>,
}

impl Answer {
    /// Whether nothing is owed.
    pub fn is_whole(&self) -> bool {
        self.failed.is_empty() && self.open.is_empty()
    }
}

/// Milliseconds since 1970.
pub fn now_ms() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
