//! How far a session has come. A session only moves forward; a failed step leaves it where it was.
//!
//! ```text
//! Registered -setup-> Ready -data_in-> StagedIn -pre_run-> Mounted -post_run-> Unmounted
//!                                                                  -data_out-> StagedOut -teardown-> TornDown
//! ```

use serde::{Deserialize, Serialize};

/// The last life-cycle function that a session completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// The token is known; nothing is allocated.
    Registered,
    /// `setup` allocated every fragment.
    Ready,
    /// `data_in` completed every `stage_in` directive.
    StagedIn,
    /// `pre_run` mounted the namespaces; the job may run.
    Mounted,
    /// `post_run` fenced the clients and unmounted.
    Unmounted,
    /// `data_out` completed every `stage_out` directive.
    StagedOut,
    /// `teardown` released everything.
    TornDown,
}

/// A life-cycle function, by the name that workload managers use for it (`dw_wlm_cli --function NAME`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Function {
    /// Validate a script; allocates nothing.
    JobProcess,
    /// Allocate the instance.
    Setup,
    /// Stage in.
    DataIn,
    /// Name the mount points to the job's environment.
    Paths,
    /// Mount on the job's nodes.
    PreRun,
    /// Fence and unmount.
    PostRun,
    /// Stage out.
    DataOut,
    /// Release everything.
    Teardown,
    /// Report what was really allocated.
    RealSize,
}

/// Which way a stage copies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// From the PFS into the buffer.
    #[default]
    In,
    /// From the buffer to the PFS.
    Out,
}

/// What a stage's source names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StageKind {
    /// One file.
    #[default]
    File,
    /// The contents of one directory, recursively.
    Directory,
    /// A text file of `source destination` lines.
    List,
    /// One file or the contents of one directory: what is found when it is staged.
    Any,
}

/// The state of one stage, as DataWarp's users know them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StageState {
    /// Accepted, not started.
    #[default]
    Pending,
    /// Copying.
    Active,
    /// Waits for the end of the job.
    Deferred,
    /// Every byte is at the destination and verified.
    Complete,
    /// Something is not at the destination; the source is untouched and the stage can be retried.
    Failed,
}

impl StageState {
    /// Its word, as DataWarp's users know it.
    pub fn word(self) -> &'static str {
        match self {
            StageState::Pending => "pending",
            StageState::Active => "active",
            StageState::Deferred => "deferred",
            StageState::Complete => "complete",
            StageState::Failed => "failed",
        }
    }
}

/// When a node sees what another wrote.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Coherence {
    /// At once, as POSIX wants it.
    #[default]
    Posix,
    /// Once the writer has called fsync, closed the file or given up a lock on it.
    Commit,
}

/// On how many nodes the bytes of a buffer's files are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Redundancy {
    /// On one.
    #[default]
    None,
    /// On two: each part of the buffer is on the node of the next part as well.
    Mirror,
}

/// When what a job writes into its buffer is copied to the destinations of its `stage_out` directives, besides after
/// its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Drain {
    /// Each file when it is closed, while the job runs.
    OnClose,
}

/// How a namespace is shared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AccessMode {
    /// One namespace, visible to every compute node, files striped over all storage nodes.
    Striped,
    /// A namespace for each compute node, a file on one storage node.
    Private,
}
