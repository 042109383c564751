//! A node that is given up for lost: what became of its buffers, and what it still has if it comes back.
//!
//! **Invariant:** what is lost is named, by every call that is about it.

use std::path::PathBuf;

use model::{NodeName, Token};
use serde::{Deserialize, Serialize};

use crate::node::PartFiles;

/// How a node is given up.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GiveUp {
    /// Also where nobody knows what the copies of its parts lack: what cannot be proven is lost.
    #[serde(default)]
    pub accept_loss: bool,
}

/// What became of the buffers of a node that is given up (`POST /v1/nodes/{name}/lost`).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lost {
    /// These go on with another node in its place.
    pub moved: Vec<Moved>,
    /// These, too, without what only the lost node had.
    #[serde(default)]
    pub damaged: Vec<Damaged>,
    /// These do not.
    pub at_risk: Vec<AtRisk>,
}

/// A buffer that goes on without what a lost node had.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Damaged {
    /// Its session.
    pub token: Token,
    /// The nodes that hold its fragments now, in order.
    pub nodes: Vec<NodeName>,
    /// Files that had data there.
    #[serde(flatten)]
    pub files: PartFiles,
    /// Names and attributes that an `fsync` confirmed may be missing or old, too: an operator accepted that.
    #[serde(default)]
    pub names_lack: bool,
}

/// A buffer that goes on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Moved {
    /// Its session.
    pub token: Token,
    /// The nodes that hold its fragments now, in order.
    pub nodes: Vec<NodeName>,
}

/// A buffer that lacks what a lost node had.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AtRisk {
    /// Its session.
    pub token: Token,
    /// Why no other node takes the place.
    pub why: String,
}

/// What a node has of a buffer that another has taken the place of: nobody uses it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GivenUp {
    /// The node.
    pub node: NodeName,
    /// Where it is there.
    pub path: PathBuf,
}
