//! A source and its destination.

use std::path::PathBuf;

use model::Ino;
use serde::{Deserialize, Serialize};

/// One source and its destination.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StagePair {
    /// The buffer side: a path below the namespace's root, without a leading slash; may be empty for a directory.
    pub buffer: String,
    /// The PFS side: an absolute path.
    pub pfs: PathBuf,
    /// The file's size, bytes, as far as the caller knows: small ones are staged many at a time.
    #[serde(default)]
    pub size_hint: Option<u64>,
    /// The source's inode number in the buffer, of a stage-out, as far as the caller knows: it is copied also when its
    /// name is gone by then.
    #[serde(default)]
    pub ino: Option<Ino>,
}

impl StagePair {
    /// Of which nothing else is known.
    pub fn new(buffer: impl Into<String>, pfs: impl Into<PathBuf>) -> StagePair {
        StagePair { buffer: buffer.into(), pfs: pfs.into(), size_hint: None, ino: None }
    }
}
