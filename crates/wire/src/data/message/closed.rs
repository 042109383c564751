//! What is said of handles that are closed.

use model::Ino;
use serde::{Deserialize, Serialize};

use crate::data::types::Time;

/// A handle that is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClosedHandle {
    /// On which file.
    pub ino: Ino,
    /// Whether it could write.
    pub write: bool,
    /// What the client wrote through it.
    pub written: Option<Written>,
}

/// What no file's epoch is.
pub const NO_EPOCH: u64 = u64::MAX;

/// What a client wrote through the handles that it closes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Written {
    /// End of the furthest byte written, bytes from the file's start.
    pub end: u64,
    /// The storage nodes' time of the last write.
    pub mtime: Time,
    /// The file's epoch that `end` was counted at; [`NO_EPOCH`] where the size would not say how much space
    /// the file takes, so that it must be measured.
    pub epoch: u64,
    /// The file's count of times that were set, that `mtime` came after.
    pub times: u64,
}
