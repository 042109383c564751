//! An error as it crosses from one process to another.

use serde::{Deserialize, Serialize};

use crate::error_code::ErrorCode;

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

/// An error as every service answers it: what was tried and on what, why it failed, and what to do next.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{message}; {advice}")]
pub struct ApiError {
    /// What kind of error it is.
    pub code: ErrorCode,
    /// Whose fault it is.
    pub blame: Blame,
    /// One line: what was tried, on which file or node, and the errno's text.
    pub message: String,
    /// One line: what to do next.
    pub advice: String,
}
