//! Why a metadata log cannot be used. What a person can do about it is in `fragment::advice`.

use std::io;
use std::path::PathBuf;

use super::format::VERSION;

/// Why a log cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// The file system refused.
    #[error("{operation} metadata log {path}: {cause}")]
    Io {
        /// What was tried.
        operation: &'static str,
        /// On which file.
        path: PathBuf,
        /// Why.
        cause: io::Error,
    },
    /// An entry in the middle is damaged.
    #[error(
        "metadata log {path} is damaged at byte {offset}: the entry does not match its checksum, but later ones do"
    )]
    Damaged {
        /// Which file.
        path: PathBuf,
        /// Where.
        offset: usize,
    },
    /// It ends too early.
    #[error(
        "metadata log {path} ends at byte {offset} with entry {found}, but was synced up to entry {synced}: its end \
         was lost"
    )]
    Cut {
        /// Which file.
        path: PathBuf,
        /// Where it ends.
        offset: usize,
        /// How many entries it has had.
        found: u64,
        /// How many it had when it was synced.
        synced: u64,
    },
    /// A newer Forebay wrote it: it is whole, and nothing may take its place.
    #[error("cannot understand metadata log {path}: {why}")]
    Newer {
        /// Which file.
        path: PathBuf,
        /// What tells so.
        why: String,
    },
    /// The file is something else, or its head is damaged.
    #[error("{path} is not a metadata log of version 1 to {VERSION}")]
    Foreign {
        /// Which file.
        path: PathBuf,
    },
}

pub(in crate::shard) fn io_error(operation: &'static str, path: PathBuf, cause: io::Error) -> LogError {
    LogError::Io { operation, path, cause }
}
