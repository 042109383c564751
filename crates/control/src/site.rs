//! What the life-cycle asks of the machine and its nodes. The daemon has one implementation ([`crate::local_site`]),
//! tests another, in memory.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::time::Instant;

use daemon::error::user;
use model::phase::{AccessMode, Redundancy};
use model::{InstanceId, NodeName, Token};
use serde::{Deserialize, Serialize};
use wire::control::{ApiError, ErrorCode, NodeRole, RegisterNode};
use wire::node::{NodeHealth, StorageAddress};

use crate::last_words::{LastWords, Said};
use crate::node_api::NodeApi;
use crate::state::nodes::Known;

/// What a cluster's control is told in its configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterSetting {
    /// Pools of flash, the default first; at least one.
    pub pools: Vec<PoolSetting>,
    /// The names that nodes may have; empty: any.
    pub nodes: BTreeSet<NodeName>,
    /// Where nodes mount, as jobs are told before they are there.
    pub mount_root: PathBuf,
    /// Where nodes have the private volumes on their own flash: a folder for each user.
    pub local_root: PathBuf,
    /// How many seconds files may stay open at the end of a job before its mounts are ended by force.
    pub fence_grace_s: u64,
    /// The grace period of storage nodes and mounts for each other, seconds: see [`wire::node::GRACE_MS`].
    pub grace_s: u64,
    /// Whether every user's jobs may use a persistent buffer where nobody says.
    pub persistent_shared: bool,
}

/// A pool of flash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolSetting {
    /// Its name.
    pub name: String,
    /// Bytes in a grain.
    pub granularity_bytes: u64,
    /// What its buffers are.
    pub kind: PoolKind,
    /// On how many nodes persistent buffers have their bytes where nobody says: two only where two nodes have room.
    pub persistent_redundancy: Redundancy,
    /// Whose buffers may be there; empty: everybody's.
    pub uids: Vec<RangeInclusive<u32>>,
    /// Whether root has the rights of nobody in what is mounted of its buffers.
    pub root_squash: bool,
    /// What is said of its buffers over a network is encrypted.
    pub encrypt: bool,
}

const ROOT: u32 = 0;

impl PoolSetting {
    /// Refuses a user who is not to have buffers here.
    ///
    /// # Errors
    /// `not_allowed`.
    pub(crate) fn check_user(&self, uid: u32) -> Result<(), ApiError> {
        self.check_not_squashed(uid)?;
        if self.uids.is_empty() || self.uids.iter().any(|range| range.contains(&uid)) {
            return Ok(());
        }
        let message = format!("user {uid} is to have no buffers in pool {}", self.name);
        let advice = "name another pool (pool=), or ask the site for it: `uids` of the pool in control.toml";
        Err(user(ErrorCode::NotAllowed, message, advice))
    }

    /// Refuses root where it is squashed: it could not use what it had, and its stages would have the rights of root.
    ///
    /// # Errors
    /// `not_allowed`.
    pub(crate) fn check_not_squashed(&self, uid: u32) -> Result<(), ApiError> {
        if !self.root_squash || uid != ROOT {
            return Ok(());
        }
        let message = format!("root has and uses no buffers in pool {}: root_squash is set there", self.name);
        Err(user(ErrorCode::NotAllowed, message, "submit it as another user, or name another pool (pool=)"))
    }
}

/// What a pool's buffers are, as `control.toml` and the database have it. What that means is in the kind's file in
/// `pool/`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PoolKind {
    /// Fragments on one disk, under all nodes of one machine.
    Disk,
    /// Fragments on storage nodes.
    #[default]
    Storage,
    /// A private volume on the flash of each of the job's own nodes.
    NodeLocal,
    /// Fragments on the flash of the job's own nodes: what a pool of kind node-local has for striped buffers.
    NodeLocalStriped,
}

kept::own_forms!(PoolKind);

impl PoolKind {
    /// Whether pools are configured so.
    pub(crate) fn is_configured(self) -> bool {
        !matches!(self, PoolKind::Disk | PoolKind::NodeLocalStriped)
    }

    /// What a buffer with these access modes is in a pool of this kind.
    pub(crate) fn of_buffer(self, access_modes: &[AccessMode]) -> PoolKind {
        match self {
            PoolKind::NodeLocal if access_modes != [AccessMode::Private] => PoolKind::NodeLocalStriped,
            kind => kind,
        }
    }
}

/// What is known of one node.
#[derive(Clone, Debug, Default)]
pub struct NodeView {
    /// Its name.
    pub name: NodeName,
    /// Whether it answered last.
    pub online: bool,
    /// Why not, or the last thing that went wrong.
    pub last_error: Option<String>,
    /// What it said last, perhaps before it went offline.
    pub health: Option<NodeHealth>,
    /// When it was asked for that.
    pub asked: Option<Instant>,
    /// Instances whose parts were made after it was asked.
    pub too_new: Vec<InstanceId>,
    /// What it said of itself when it registered; `None`: control runs it by itself.
    pub registration: Option<RegisterNode>,
    /// Why it gets nothing new; `None`: it does.
    pub drained: Option<String>,
    /// Where its service logs: a path, or the command that shows it; empty: not known.
    pub log: String,
}

/// By what is judged whether the fragment that a node has of an instance may be given up.
#[derive(Clone, Debug, Default)]
pub struct LastWord {
    /// Whether the node answered last.
    pub online: bool,
    /// What it said when it last served the fragment; `None`: that is not known.
    pub served: Option<Said>,
}

impl NodeView {
    /// Whether it has the role. Nodes that control runs have both.
    pub fn has(&self, role: NodeRole) -> bool {
        self.registration.as_ref().is_none_or(|node| node.roles.contains(&role))
    }
}

/// The disk behind the pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskSpace {
    /// Bytes that can be written now.
    pub available_bytes: u64,
}

/// The machine and its nodes.
pub trait Site: NodeApi + 'static {
    /// Where namespaces are mounted on the machine of control: a folder for each token.
    fn mount_folder(&self) -> PathBuf;

    /// The cluster; `None`: all is on this machine.
    fn cluster(&self) -> Option<ClusterSetting>;

    /// Takes a node up that registered, or that changed.
    ///
    /// # Errors
    /// It cannot be called.
    fn admit(&self, node: Known) -> Result<(), ApiError>;

    /// Whether a node has answered lately.
    fn lives(&self, name: &NodeName) -> bool {
        self.nodes().iter().any(|view| view.name == *name && view.online)
    }

    /// Stops watching a node.
    fn forget(&self, name: &NodeName);

    /// The disk behind the pool.
    ///
    /// # Errors
    /// It cannot be asked.
    fn disk(&self) -> Result<DiskSpace, ApiError>;

    /// The smallest fragment that may live in an image of its own, bytes; `None`: none may.
    fn image_bytes_min(&self) -> Option<u64>;

    /// Nodes as they were seen last.
    fn nodes(&self) -> Vec<NodeView>;

    /// What nodes said last; `None`: nobody keeps that.
    fn words(&self) -> Option<&LastWords> {
        None
    }

    /// Gives up what a node has of an instance: from here on it may answer nothing that is on no other node, until
    /// [`Site::keep`]. Replies by what that is to be judged.
    fn give_up(&self, node: &NodeName, instance: &InstanceId) -> LastWord {
        let Some(words) = self.words() else { return LastWord::default() };
        let served = words.give_up(node, instance);
        LastWord { online: self.nodes().iter().any(|view| view.name == *node && view.online), served }
    }

    /// Whether the node has said, of what it has of an instance in this term, that all is on other nodes as well. It is
    /// asked soon where it has not.
    fn is_proven(&self, node: &NodeName, instance: &InstanceId, term: u32) -> bool {
        self.words().is_none_or(|words| words.is_proven(node, instance, term))
    }

    /// The node has its place in the instance, as before or again.
    fn keep(&self, node: &NodeName, instance: &InstanceId) {
        self.words().into_iter().for_each(|words| words.keep(node, instance));
    }

    /// Checks that a mount point that a user names is a folder; replies its path without symbolic links.
    ///
    /// # Errors
    /// It is not.
    fn check_mountpoint(&self, path: &Path) -> Result<PathBuf, ApiError>;

    /// Waits until the storage nodes `names` answer (starts those that control runs); replies where each one's data
    /// path listens, in order.
    ///
    /// # Errors
    /// A node does not come up.
    fn ensure_nodes(
        &self,
        names: &[NodeName],
    ) -> impl Future<Output = Result<Vec<StorageAddress>, ApiError>> + Send;

    /// Stops every node.
    ///
    /// # Errors
    /// One does not end.
    fn stop_nodes(&self) -> impl Future<Output = Result<(), ApiError>> + Send;

    /// Removes the empty folder that a token's mount points were in.
    fn remove_mount_folder(&self, token: &Token);
}
