//! What a fragment says of the second copies that another node keeps: of the metadata that has its home there, and of
//! its objects.
//!
//! **Invariant:** what is said to be whole is on both nodes, as far as it was answered.

use model::NodeName;
use serde::{Deserialize, Serialize};

/// The mirror of the objects that one fragment has of a namespace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MirrorStatus {
    /// Which namespace.
    pub namespace: u32,
    /// The fragment's node.
    pub node: NodeName,
    /// The node that keeps the mirror.
    pub mirror: NodeName,
    /// Whether all that was answered is on both nodes.
    pub whole: bool,
    /// The mirror's node has noted which objects it lacks, if any, of all that was answered.
    #[serde(default)]
    pub named: bool,
    /// Objects that are still to be copied; `None`: not known yet.
    pub behind: Option<u64>,
    /// Why there is one copy only, if that is known.
    pub error: Option<String>,
    /// The node may soon answer what is not on both nodes, and waits to hear that control knows this number.
    #[serde(default)]
    pub doubt: Option<u64>,
    /// Places that the fragment's node has found damaged since it was started, in what it has and in the mirror that it
    /// keeps, and has repaired from the other copy.
    #[serde(default)]
    pub repaired: u64,
    /// For how long the mirror is being made, milliseconds, where nothing was answered without it and it is not late;
    /// `None`: it has all, or what it lacks is on one node only.
    #[serde(default)]
    pub making_ms: Option<u64>,
}

/// The second copy of the metadata of one namespace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CopyStatus {
    /// Which namespace.
    pub namespace: u32,
    /// The node that the home shard is on.
    pub home: NodeName,
    /// The node that keeps the copy.
    pub node: NodeName,
    /// Whether there are two copies: all that an `fsync` confirmed is on both nodes.
    pub whole: bool,
    /// All that an `fsync` confirmed is in the copy, also while the other node is away.
    #[serde(default)]
    pub confirmed: bool,
    /// The other node could not be waited for: changes are confirmed with one copy until it has everything again.
    #[serde(default)]
    pub alone: bool,
    /// The home was lost, and its log was taken from a copy that may have lacked what was confirmed: an operator
    /// accepted that.
    #[serde(default)]
    pub accepted: bool,
    /// Bytes of the log that the copy does not have yet.
    pub behind_bytes: u64,
    /// Why there is one only, if that is known.
    pub error: Option<String>,
    /// The home may soon confirm what is on one node, and waits to hear that control knows this number.
    #[serde(default)]
    pub doubt: Option<u64>,
}
