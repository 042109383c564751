//! Why a journal cannot be used, and what to do about it.

use std::io;
use std::path::PathBuf;

use daemon::error::{chain, site};
use disk::format::{self, UPGRADE};
use wire::control::{ApiError, ErrorCode};

/// Why a journal cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{operation} stage journal {}", path.display())]
pub struct JournalError {
    /// What was tried.
    pub(super) operation: &'static str,
    /// The journal.
    pub(super) path: PathBuf,
    /// Why it did not work.
    pub(super) source: io::Error,
}

impl JournalError {
    /// For a stage that ends with it.
    pub fn stage_error(&self) -> ApiError {
        site(ErrorCode::StageJournal, chain(self), self.advice("retry the stage"))
    }

    /// What to do, and `then`.
    pub fn advice(&self, then: &str) -> String {
        match self.source.kind() {
            _ if format::is_newer(&self.source) => format!("{UPGRADE}, then {then}"),
            io::ErrorKind::InvalidData => format!(
                "put the journal back as it was; where nobody has it, see that the file systems of the source and the \
                 destination are mounted, and remove it; then {then}: what only the journal knew is copied again"
            ),
            _ => format!("look at the disk that the journal is on, free space there, then {then}"),
        }
    }
}

/// A line, counted from 1, is none that was written.
pub(super) fn damaged(line: usize, why: &serde_json::Error) -> io::Error {
    let message = format!("line {line} is damaged: it is not a record of a journal ({why})");
    io::Error::new(io::ErrorKind::InvalidData, message)
}
