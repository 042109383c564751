//! What the life-cycle asks of the machine and its nodes. The daemon has one implementation ([`crate::local_site`]),
//! tests another, in memory.

use std::path::{Path, PathBuf};

use wire::control::{ApiError, StageStatus, VolumeKind};
use wire::node::{
    FragmentSpec, FragmentStatus, MountSpec, MountStatus, NodeHealth, StageSpec, StorageAddress,
};

/// What is known of one node.
#[derive(Clone, Debug, Default)]
pub struct NodeView {
    /// Its name.
    pub name: String,
    /// Whether it answered last.
    pub online: bool,
    /// Why not, or the last thing that went wrong.
    pub last_error: Option<String>,
    /// What it said last, perhaps before it went offline.
    pub health: Option<NodeHealth>,
}

/// The disk behind the pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskSpace {
    /// Bytes that can be written now.
    pub available_bytes: u64,
}

/// The machine and its nodes. Calls to a node are repeated while it restarts; what comes back as an error is final.
pub trait Site: Send + Sync + 'static {
    /// Where namespaces are mounted unless the caller names a place: a folder for each token.
    fn mount_folder(&self) -> PathBuf;

    /// The disk behind the pool.
    ///
    /// # Errors
    /// It cannot be asked.
    fn disk(&self) -> Result<DiskSpace, ApiError>;

    /// Whether a fragment of `fragment_bytes` can live in an image of its own.
    fn images_work(&self, fragment_bytes: u64) -> bool;

    /// Nodes as they were seen last.
    fn nodes(&self) -> Vec<NodeView>;

    /// Checks that a mount point that a user names is a folder; replies its path without symbolic links.
    ///
    /// # Errors
    /// It is not.
    fn check_mountpoint(&self, path: &Path) -> Result<PathBuf, ApiError>;

    /// Runs at least `count` nodes, `n0`, `n1`, …; replies where each one's data path listens.
    ///
    /// # Errors
    /// A node does not come up.
    fn ensure_nodes(&self, count: u32) -> impl Future<Output = Result<Vec<StorageAddress>, ApiError>> + Send;

    /// Stops every node.
    ///
    /// # Errors
    /// One does not end.
    fn stop_nodes(&self) -> impl Future<Output = Result<(), ApiError>> + Send;

    /// A node's own words, now.
    ///
    /// # Errors
    /// The node's, or it stays away.
    fn health(&self, node: &str) -> impl Future<Output = Result<NodeHealth, ApiError>> + Send;

    /// `PUT /v1/fragments/{instance}`.
    ///
    /// # Errors
    /// The node's, or it stays away; so for all that follow.
    fn create_fragment(
        &self,
        node: &str,
        spec: &FragmentSpec,
    ) -> impl Future<Output = Result<FragmentStatus, ApiError>> + Send;

    /// `DELETE /v1/fragments/{instance}`.
    ///
    /// # Errors
    /// The node's.
    fn delete_fragment(
        &self,
        node: &str,
        instance: &str,
    ) -> impl Future<Output = Result<(), ApiError>> + Send;

    /// `PUT /v1/mounts/{id}`.
    ///
    /// # Errors
    /// The node's.
    fn mount(
        &self,
        node: &str,
        spec: &MountSpec,
    ) -> impl Future<Output = Result<MountStatus, ApiError>> + Send;

    /// `DELETE /v1/mounts/{id}`.
    ///
    /// # Errors
    /// The node's.
    fn unmount(&self, node: &str, id: &str, hurry: bool)
    -> impl Future<Output = Result<(), ApiError>> + Send;

    /// `PUT /v1/stages/{id}`.
    ///
    /// # Errors
    /// The node's.
    fn start_stage(
        &self,
        node: &str,
        spec: &StageSpec,
    ) -> impl Future<Output = Result<StageStatus, ApiError>> + Send;

    /// `GET /v1/stages/{id}`.
    ///
    /// # Errors
    /// The node's; `no_such_stage` where it does not know it.
    fn stage(&self, node: &str, id: &str) -> impl Future<Output = Result<StageStatus, ApiError>> + Send;

    /// `DELETE /v1/stages/{id}`.
    ///
    /// # Errors
    /// The node's.
    fn delete_stage(&self, node: &str, id: &str) -> impl Future<Output = Result<(), ApiError>> + Send;

    /// Removes the empty folder that a token's mount points were in.
    fn remove_mount_folder(&self, token: &str);
}

/// The default of [`Site::images_work`]'s caller as a wire type.
pub fn volume_for(site: &impl Site, wanted: Option<VolumeKind>, fragment_bytes: u64) -> VolumeKind {
    wanted.unwrap_or(if site.images_work(fragment_bytes) { VolumeKind::Image } else { VolumeKind::Directory })
}
