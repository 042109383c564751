//! The node service's API: HTTP with JSON bodies, on a unix socket (`node.sock` in the node's folder) and, on a
//! cluster, over TCP with a MUNGE credential in each request. Only the control service calls it. Every `PUT` is
//! idempotent: the same specification again answers as the first did.
//!
//! | request | body | reply |
//! |---|---|---|
//! | `GET /v1/health` | | [`NodeHealth`] |
//! | `PUT /v1/fragments/{instance}` | [`FragmentSpec`] | [`FragmentStatus`]; namespaces may be added to one that is there; where there is none, what [`Missing`] says; `fragment_starting`, `fragment_of_another` |
//! | `DELETE /v1/fragments/{instance}` | | `{}`; also when there is none; one that was `fragment_of_another` stays |
//! | `PUT /v1/fragments/{instance}/scrub` | [`ScrubSpec`] | [`ScrubStatus`], at once |
//! | `GET /v1/fragments/{instance}/scrub` | | [`ScrubStatus`] |
//! | `PUT /v1/fragments/{instance}/paths` | a list of (namespace, inode) | a list of paths, `null` where there is none here |
//! | `PUT /v1/fragments/{instance}/fsck` | [`FsckSpec`] | [`FsckReport`] of the namespaces that have their home here |
//! | `PUT /v1/fragments/{instance}/moved` | [`Moved`] | `{}`; who looks for it finds it there; here it is not served |
//! | `GET /v1/fragments/{instance}/files/{fragment}` | | [`PartFiles`], of the namespaces that have their home here |
//! | `PUT /v1/fragments/{instance}/heard` | a list of [`FragmentStatus::doubts`] | `{}`; control knows of them from now on |
//! | `PUT /v1/mounts/{id}` | [`MountSpec`] | [`MountStatus`], once mounted |
//! | `PUT /v1/mounts/{id}/shared` | `{}` | `{}`, once an exclusive mount knows that others use its namespace too |
//! | `PUT /v1/mounts/{id}/credential` | [`Credential`] | `{}`; for where the former is refused; `no_such_mount` |
//! | `DELETE /v1/mounts/{id}?grace_s=SECONDS` | | `{}`, once unmounted; files that are open may stay so for that time; also when there is none |
//! | `PUT /v1/stages/{id}` | [`StageSpec`] | [`StageStatus`], at once |
//! | `GET /v1/stages/{id}` | | [`StageStatus`] |
//! | `PUT /v1/stages/{id}/control` | [`StageControl`] | [`StageStatus`] |
//! | `DELETE /v1/stages/{id}` | | `{}`; stops the workers, then forgets the stage |
//! | `PUT /v1/pfs/mounts` | a list of paths | a list of [`PfsMount`], `null` where it cannot be told |
//! | `PUT /v1/locals/{id}` | [`LocalSpec`] | [`LocalStatus`], once it can be used |
//! | `GET /v1/locals` | | a list of [`LocalStatus`] |
//! | `DELETE /v1/locals/{id}?discard=BOOL` | | `{}`, at once: it is taken from its user, drained if that was asked for, then discarded; or discarded with all that is in it |
//! | `POST /v1/shutdown` | `{}` | `{}` |
//! | `GET /metrics` | | text, for Prometheus |

mod copies;
mod integrity;
mod keyed;
mod locals;
mod parts;
mod stages;
mod trouble;

use std::path::PathBuf;

use model::directive::{FragmentBehaviour, MountBehaviour};
use model::{FragmentIndex, InstanceId, NodeName, stripe::Layout};
use serde::{Deserialize, Serialize};

use crate::data::Credential;
use crate::owner::Owner;
use crate::stages::StageStatus;

pub use copies::{CopyStatus, MirrorStatus};
pub use integrity::{Damage, FsckReport, FsckSpec, IntegrityStatus, Orphan, ScrubSpec, ScrubStatus, Stray};
pub use locals::{LocalDrain, LocalSpace, LocalSpec, LocalStatus};
pub use parts::{FragmentStatus, PartFiles};
pub use stages::{PfsMount, StageControl, StagePace, StagePolicy, StageSpec, Verify};
pub use trouble::PartTrouble;

/// How long a client keeps trying a storage node that does not answer, and a home shard keeps what a client that is
/// gone had open and locked, milliseconds: where no other is configured. A process that died is back in seconds; two
/// minutes also cover the recovery of a large fragment.
pub const GRACE_MS: u64 = 120_000;

/// How to reach a storage node's data path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StorageAddress {
    /// The node's name, for messages.
    pub node: NodeName,
    /// TCP, as `127.0.0.1:40001`.
    pub tcp: String,
    /// The unix socket, for processes on the same machine.
    pub unix: Option<PathBuf>,
}

/// What a node says of itself.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct NodeHealth {
    /// Its name.
    pub name: NodeName,
    /// Its process.
    pub pid: u32,
    /// Where its data path listens.
    pub data: StorageAddress,
    /// Fragments that it serves.
    pub fragments: Vec<FragmentStatus>,
    /// Mounts that it supervises.
    pub mounts: Vec<MountStatus>,
    /// Stages that it coordinates.
    pub stages: Vec<StageStatus>,
    /// Flash for private volumes; `None`: it gives none.
    #[serde(default)]
    pub local: Option<LocalSpace>,
    /// What its release knows that an earlier one did not, as [`ROOT_SQUASH`].
    #[serde(default)]
    pub knows: Vec<String>,
}

/// Mounts in which root has the rights of nobody.
pub const ROOT_SQUASH: &str = "root_squash";
/// Keys of buffers whose connections are encrypted.
pub const ENCRYPT: &str = "encrypt";

/// Where a fragment's bytes live.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum VolumeKind {
    /// A folder whose bytes the store counts. Needs no privilege.
    #[default]
    Directory,
    /// An XFS file system of the right size in a preallocated image, on a loop device. Needs root; lets the kernel
    /// pass files through at raw speed.
    Image,
}

/// A fragment to serve. The node keeps this specification for its own restart.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FragmentSpec {
    /// The instance's id.
    pub instance: InstanceId,
    /// Which of the instance's fragments this is.
    pub index: FragmentIndex,
    /// Bytes that this fragment may hold.
    pub capacity_bytes: u64,
    /// Where they live.
    pub volume: VolumeKind,
    /// The instance's key, 64 hexadecimal digits: whoever has it may use the instance's data path.
    pub key: String,
    /// Another one that is taken as well while the key is being changed, see [`keys`](crate::data::keys). Empty: none.
    #[serde(default)]
    pub other_key: String,
    /// How often the keys were changed: what is asked for in an earlier step changes none.
    #[serde(default)]
    pub key_step: u64,
    /// Tells whether control gave a stage, 64 hexadecimal digits: see [`ticket`](crate::ticket). Empty, as before there
    /// was one: no other node's stages are helped here.
    #[serde(default)]
    pub stage_verifier: String,
    /// Every fragment's node, in order; this one's too.
    pub peers: Vec<StorageAddress>,
    /// The namespaces in the instance.
    pub namespaces: Vec<NamespaceSpec>,
    /// The grace period, milliseconds: see [`GRACE_MS`].
    #[serde(default = "default_grace_ms")]
    pub grace_ms: u64,
    /// What its buffer promises.
    #[serde(flatten)]
    pub behaviour: FragmentBehaviour,
    /// What is done where there is none.
    #[serde(default)]
    pub missing: Missing,
    /// Control may have another take its place: it goes on without its copies only when control knows that.
    #[serde(default)]
    pub witnessed: bool,
    /// How often another node has taken its place: nodes refuse whoever speaks for it in a lower term than they know.
    #[serde(default)]
    pub term: u32,
}

/// The first fragment of no instance, of nothing in a folder: what is said of one is said instead.
impl Default for FragmentSpec {
    fn default() -> FragmentSpec {
        FragmentSpec {
            instance: InstanceId::default(),
            index: FragmentIndex(0),
            capacity_bytes: 0,
            volume: VolumeKind::Directory,
            key: String::new(),
            other_key: String::new(),
            key_step: 0,
            stage_verifier: String::new(),
            peers: Vec::new(),
            namespaces: Vec::new(),
            grace_ms: GRACE_MS,
            behaviour: FragmentBehaviour::default(),
            missing: Missing::default(),
            witnessed: false,
            term: 0,
        }
    }
}

/// What a node does where it does not have the fragment that it is asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Missing {
    /// It refuses, by name: there was one, which may be back, as when a disk is mounted again.
    #[default]
    Refused,
    /// It makes one: there never was one.
    Made,
    /// It makes one that takes the place of one that is lost: what that had is taken from the other nodes, before it is
    /// served.
    Restored,
    /// The same, but nobody knows what the mirror lacks, and an operator accepts that: all objects are taken as lost.
    NamesRestored,
    /// The same, and the copy of the metadata log may lack what was confirmed: it is taken as it is.
    NamesAccepted,
}

impl Missing {
    /// Whether it takes the place of one that is lost.
    pub fn is_replacing(self) -> bool {
        matches!(self, Missing::Restored | Missing::NamesRestored | Missing::NamesAccepted)
    }
}

impl FragmentSpec {
    /// Bytes that it takes on its node: with the mirror of another fragment twice its own.
    pub fn disk_bytes(&self) -> u64 {
        self.capacity_bytes.saturating_mul(if self.behaviour.mirrored { 2 } else { 1 })
    }

    /// Whether this fragment's node has the mirror of that fragment's objects.
    pub fn keeps_mirror_of(&self, primary: FragmentIndex) -> bool {
        let count = u32::try_from(self.peers.len()).unwrap_or(u32::MAX);
        let is_of_ring = count > 1 && primary.get() < count;
        self.behaviour.mirrored && is_of_ring && primary.further(1, count) == self.index
    }
}

fn default_grace_ms() -> u64 {
    GRACE_MS
}

/// Another node has a fragment in place of one that is lost.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Moved {
    /// Which fragment of the instance.
    pub fragment: FragmentIndex,
    /// Where it is now.
    pub address: StorageAddress,
}

/// One file tree.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NamespaceSpec {
    /// Its number in the instance.
    pub id: u32,
    /// How its files are spread.
    pub layout: Layout,
    /// The fragment whose node is the home shard of its metadata.
    pub home: FragmentIndex,
    /// Owner of the root folder.
    pub owner: Owner,
    /// Permission bits of the root folder.
    pub mode: u32,
}

/// Everything a client needs to use a namespace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NamespaceTarget {
    /// The instance's id.
    pub instance: InstanceId,
    /// The namespace's number in it.
    pub namespace: u32,
    /// Who uses it. `None` in the specification of a stage: whoever copies has it from the node that it runs on.
    #[serde(default)]
    pub credential: Option<Credential>,
    /// How files are spread.
    pub layout: Layout,
    /// The fragment that is the home shard.
    pub home: FragmentIndex,
    /// Every fragment's node, in order.
    pub nodes: Vec<StorageAddress>,
    /// How long a client keeps trying a storage node that does not answer, milliseconds (see [`GRACE_MS`]). After that
    /// EIO.
    pub grace_ms: u64,
}

/// A mount to supervise. The node keeps this specification for its own restart.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MountSpec {
    /// Its id, as `3-striped`.
    pub id: String,
    /// Where. The node makes the folder if it is missing and then removes it when it unmounts.
    pub mountpoint: PathBuf,
    /// What.
    pub target: NamespaceTarget,
    /// No other client uses the namespace meanwhile: names and attributes may be cached without asking again. Until it
    /// is told otherwise (`PUT …/shared`).
    pub exclusive: bool,
    /// What the buffer promises.
    #[serde(flatten)]
    pub behaviour: MountBehaviour,
}

/// What a mount's supervisor says of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MountStatus {
    /// Its id.
    pub id: String,
    /// Where.
    pub mountpoint: PathBuf,
    /// Whether it is mounted now.
    pub mounted: bool,
    /// The mount's process.
    pub pid: Option<u32>,
    /// How often it was lost and made anew.
    pub interruptions: u32,
    /// Why it is not mounted.
    pub error: Option<String>,
}
