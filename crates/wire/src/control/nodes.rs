//! The nodes of a cluster: what they say to control, and what control says of them.

use std::path::PathBuf;

use model::{InstanceId, NodeName};
use serde::{Deserialize, Serialize};

/// One node.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct NodeStatus {
    /// Its name.
    pub name: NodeName,
    /// Whether it answers.
    pub online: bool,
    /// Why not, or the last thing that went wrong.
    pub last_error: Option<String>,
    /// What it does.
    #[serde(default)]
    pub roles: Vec<NodeRole>,
    /// The pool that its flash belongs to; `None` where it stores nothing.
    #[serde(default)]
    pub pool: Option<String>,
    /// Why it gets no new fragments and mounts; `None`: it does.
    #[serde(default)]
    pub drained: Option<String>,
    /// Where its API is reached, as `10.0.0.7:7071` or the path of a socket.
    #[serde(default)]
    pub address: String,
    /// Bytes of flash that it may give to instances.
    #[serde(default)]
    pub capacity_bytes: u64,
    /// Bytes of these that are allocated.
    #[serde(default)]
    pub allocated_bytes: u64,
    /// Fragments on it.
    #[serde(default)]
    pub fragments: u32,
    /// Namespaces mounted on it.
    #[serde(default)]
    pub activations: u32,
}

/// What a node does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NodeRole {
    /// Holds fragments, and copies stages.
    Storage,
    /// Mounts namespaces for jobs.
    Compute,
}

/// A node says that it is there: at its start, and again from time to time, so that control may be restarted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RegisterNode {
    /// Its name: the workload manager's name of that host.
    pub name: NodeName,
    /// What it does.
    pub roles: Vec<NodeRole>,
    /// Where its API is reached: `host:port`, or the absolute path of a unix socket on control's machine.
    pub address: String,
    /// The pool of its flash.
    pub pool: Option<String>,
    /// Bytes of flash that it may give to instances; 0 without the storage role.
    pub capacity_bytes: u64,
    /// Where it mounts namespaces: a folder for each token.
    pub mount_root: PathBuf,
    /// The Forebay version that it runs.
    pub version: String,
}

/// What control replies to a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Registered {
    /// After how many seconds the node should say so again.
    pub again_s: u64,
    /// What control knows of the parts of buffers that the node has, or had; `None`: a release that does not say.
    #[serde(default)]
    pub parts: Option<Vec<KnownPart>>,
}

/// A part of a buffer on a node, as control knows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KnownPart {
    /// The instance's id.
    pub instance: InstanceId,
    /// How often its keys were changed: see [`keys`](crate::data::keys).
    pub key_step: u64,
    /// The node was given up: another has the part, or nobody.
    pub given_up: bool,
}

/// Takes a node out of use for what comes next; what is on it stays.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Drain {
    /// Shown in every status.
    pub reason: String,
}

/// Whether the services stopped.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ShutdownReply {
    /// `None`: they stop now. Else what keeps them, in one line.
    pub busy: Option<String>,
}
