//! What a node says of its parts of buffers.

use std::path::PathBuf;

use model::{FragmentIndex, Ino, InstanceId};
use serde::{Deserialize, Serialize};

use super::{CopyStatus, IntegrityStatus, MirrorStatus};

/// What a fragment says of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FragmentStatus {
    /// The instance's id.
    pub instance: InstanceId,
    /// Which of its fragments.
    pub index: FragmentIndex,
    /// Bytes that it may hold.
    pub capacity_bytes: u64,
    /// Bytes that it holds.
    pub used_bytes: u64,
    /// Why it cannot be served, if so.
    pub error: Option<String>,
    /// What to do about that.
    pub advice: Option<String>,
    /// It is not known yet whether it can be served.
    #[serde(default)]
    pub starting: bool,
    /// It cannot be served now, and the node tries it again by itself.
    #[serde(default)]
    pub retried: bool,
    /// How the metadata that has its home here is kept on a second node; empty where the instance has one node.
    #[serde(default)]
    pub copies: Vec<CopyStatus>,
    /// How its objects are kept on a second node; empty where they are not.
    #[serde(default)]
    pub mirrors: Vec<MirrorStatus>,
    /// What is known to be wrong with its objects.
    #[serde(default)]
    pub integrity: IntegrityStatus,
    /// Objects that were lost with the node whose place this one took, as (namespace, inode): the first hundred.
    #[serde(default)]
    pub lost: Vec<(u32, Ino)>,
    /// How many there may be beside those.
    #[serde(default)]
    pub lost_more: u64,
    /// Another node has taken its place: where what it has is kept, which nobody uses.
    pub given_up: Option<PathBuf>,
    /// How often another had taken its place before this one did.
    #[serde(default)]
    pub term: u32,
    /// As [`super::FragmentSpec::witnessed`]: what it says of its copies is all that it may have answered without them.
    #[serde(default)]
    pub witnessed: bool,
    /// As [`super::FragmentSpec::key_step`]: which change of the keys was the last that it took. A release that cannot
    /// change them says 0.
    #[serde(default)]
    pub key_step: u64,
}

impl FragmentStatus {
    /// Of which doubts the node waits to hear that control knows of them.
    pub fn doubts(&self) -> Vec<u64> {
        let mirrors = self.mirrors.iter().filter_map(|mirror| mirror.doubt);
        self.copies.iter().filter_map(|copy| copy.doubt).chain(mirrors).collect()
    }
}

/// The files that have data in one part of a buffer, for all that their metadata says.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartFiles {
    /// Their paths in the buffer.
    pub files: Vec<String>,
    /// How many there are beside those.
    pub more: u64,
    /// Somebody who knows of some could not be asked.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unasked: bool,
}
