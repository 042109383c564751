//! Private volumes on a node's own flash.

use std::path::PathBuf;

use model::Token;
use model::phase::Drain;
use serde::{Deserialize, Serialize};

use crate::owner::Owner;

/// Flash of a node for private volumes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LocalSpace {
    /// Bytes that the volumes hold that are there.
    pub allocated_bytes: u64,
    /// Bytes that one more volume may hold.
    pub free_bytes: u64,
}

/// A private volume on the node's own flash. The node keeps this specification for its own restart.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LocalSpec {
    /// Its id: the job's.
    pub id: String,
    /// Whose it is.
    pub owner: Owner,
    /// That user's name: the volume is mounted at `LOCAL_ROOT/USER`.
    pub user: String,
    /// Bytes that it holds; `None`: as the node is configured.
    pub capacity_bytes: Option<u64>,
    /// What is copied from it to the PFS; `None`: what its user asks for in the job.
    #[serde(default)]
    pub drain: Option<LocalDrain>,
}

impl LocalSpec {
    /// Whether `asked` is a request for this volume again: it says nothing else, but may say less. Two callers for one
    /// job may know different groups of its user.
    pub fn is_asked_by(&self, asked: &LocalSpec) -> bool {
        let same = (&asked.id, asked.owner.uid, &asked.user) == (&self.id, self.owner.uid, &self.user);
        let as_large = asked.capacity_bytes.is_none() || asked.capacity_bytes == self.capacity_bytes;
        same && as_large && (asked.drain.is_none() || asked.drain == self.drain)
    }
}

/// What is copied from a private volume to the PFS.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LocalDrain {
    /// The folder that is drained, below the volume's root, which is where the node makes it; empty: all of the volume.
    pub from: String,
    /// Where to: an absolute path. It is made if only it is missing.
    pub to: PathBuf,
    /// What the drainers of all nodes of the job have in common: the job's id.
    pub session: Token,
    /// When; `None`: after the job.
    pub when: Option<Drain>,
    /// Slurm's number of the job, where it is a job of Slurm's: its time limit counts, and its output has warnings.
    #[serde(default)]
    pub slurm_job: Option<Token>,
}

/// What the node says of a private volume.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LocalStatus {
    /// Its id.
    pub id: String,
    /// Where its user finds it.
    pub path: PathBuf,
    /// Bytes that it holds.
    pub capacity_bytes: u64,
    /// Its job has ended: it is drained, then discarded.
    pub released: bool,
    /// What keeps it, in one line: what could not be drained, and why.
    pub kept: Option<String>,
}
