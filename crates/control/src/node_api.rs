//! What control asks of a node. How a node is reached differs ([`Caller`]); what is asked does not. Calls are
//! idempotent, and repeated while the node restarts; what comes back as an error is final.

mod caller;
mod calls;

use std::path::PathBuf;

use model::{FragmentIndex, InstanceId, NodeName};
use wire::control::{ApiError, StageStatus};
use wire::data::Credential;
use wire::node::{
    FragmentSpec, FragmentStatus, FsckReport, FsckSpec, LocalSpec, LocalStatus, MountSpec, MountStatus,
    Moved, NodeHealth, PartFiles, PfsMount, ScrubSpec, ScrubStatus, StageSpec,
};

pub(crate) use caller::Caller;

/// What a node answers, or why it does not.
pub(crate) type Answer<T> = Result<T, ApiError>;

/// The node's API, as `wire::node` describes it.
pub trait NodeApi: Send + Sync {
    /// A node's own words, now.
    ///
    /// # Errors
    /// The node's, or it stays away.
    fn health(&self, node: &NodeName) -> impl Future<Output = Answer<NodeHealth>> + Send;

    /// `PUT /v1/fragments/{instance}`.
    ///
    /// # Errors
    /// The node's, or it stays away; so for all that follow.
    fn create_fragment(
        &self,
        node: &NodeName,
        spec: &FragmentSpec,
    ) -> impl Future<Output = Answer<FragmentStatus>> + Send;

    /// `DELETE /v1/fragments/{instance}`.
    ///
    /// # Errors
    /// The node's.
    fn delete_fragment(
        &self,
        node: &NodeName,
        instance: &InstanceId,
    ) -> impl Future<Output = Answer<()>> + Send;

    /// `PUT /v1/fragments/{instance}/moved`.
    ///
    /// # Errors
    /// The node's.
    fn note_moved(
        &self,
        node: &NodeName,
        instance: &InstanceId,
        moved: &Moved,
    ) -> impl Future<Output = Answer<()>> + Send;

    /// `PUT /v1/fragments/{instance}/scrub`; without a specification only `GET`.
    ///
    /// # Errors
    /// The node's.
    fn scrub(
        &self,
        node: &NodeName,
        instance: &InstanceId,
        spec: Option<ScrubSpec>,
    ) -> impl Future<Output = Answer<ScrubStatus>> + Send;

    /// `PUT /v1/fragments/{instance}/paths`.
    ///
    /// # Errors
    /// The node's.
    fn paths(
        &self,
        node: &NodeName,
        instance: &InstanceId,
        inos: &[(u32, model::Ino)],
    ) -> impl Future<Output = Answer<Vec<Option<String>>>> + Send;

    /// `PUT /v1/fragments/{instance}/fsck`.
    ///
    /// # Errors
    /// The node's.
    fn fsck(
        &self,
        node: &NodeName,
        instance: &InstanceId,
        spec: FsckSpec,
    ) -> impl Future<Output = Answer<FsckReport>> + Send;

    /// `GET /v1/fragments/{instance}/files/{part}`.
    ///
    /// # Errors
    /// The node's.
    fn files_on(
        &self,
        node: &NodeName,
        instance: &InstanceId,
        part: FragmentIndex,
    ) -> impl Future<Output = Answer<PartFiles>> + Send;

    /// `PUT /v1/mounts/{id}`.
    ///
    /// # Errors
    /// The node's.
    fn mount(&self, node: &NodeName, spec: &MountSpec) -> impl Future<Output = Answer<MountStatus>> + Send;

    /// `DELETE /v1/mounts/{id}`.
    ///
    /// # Errors
    /// The node's.
    fn unmount(&self, node: &NodeName, id: &str, how: Unmount) -> impl Future<Output = Answer<()>> + Send;

    /// `PUT /v1/mounts/{id}/shared`.
    ///
    /// # Errors
    /// The node's.
    fn share_mount(&self, node: &NodeName, id: &str) -> impl Future<Output = Answer<()>> + Send;

    /// `PUT /v1/mounts/{id}/credential`.
    ///
    /// # Errors
    /// The node's; `no_such_mount` where it does not know it.
    fn renew_mount(
        &self,
        node: &NodeName,
        id: &str,
        credential: &Credential,
    ) -> impl Future<Output = Answer<()>> + Send;

    /// `PUT /v1/stages/{id}`.
    ///
    /// # Errors
    /// The node's.
    fn start_stage(
        &self,
        node: &NodeName,
        spec: &StageSpec,
    ) -> impl Future<Output = Answer<StageStatus>> + Send;

    /// `PUT /v1/stages/{id}/retry`.
    ///
    /// # Errors
    /// The node's.
    fn retry_stage(
        &self,
        node: &NodeName,
        spec: &StageSpec,
    ) -> impl Future<Output = Answer<StageStatus>> + Send;

    /// `GET /v1/stages/{id}`.
    ///
    /// # Errors
    /// The node's; `no_such_stage` where it does not know it.
    fn stage(&self, node: &NodeName, id: &str) -> impl Future<Output = Answer<StageStatus>> + Send;

    /// `DELETE /v1/stages/{id}`.
    ///
    /// # Errors
    /// The node's.
    fn delete_stage(&self, node: &NodeName, id: &str) -> impl Future<Output = Answer<()>> + Send;

    /// `PUT /v1/pfs/mounts`.
    ///
    /// # Errors
    /// The node's.
    fn pfs_mounts(
        &self,
        node: &NodeName,
        paths: &[PathBuf],
    ) -> impl Future<Output = Answer<Vec<Option<PfsMount>>>> + Send;

    /// `PUT /v1/locals/{id}`.
    ///
    /// # Errors
    /// The node's.
    fn create_local(
        &self,
        node: &NodeName,
        spec: &LocalSpec,
    ) -> impl Future<Output = Answer<LocalStatus>> + Send;

    /// `GET /v1/locals`.
    ///
    /// # Errors
    /// The node's.
    fn locals(&self, node: &NodeName) -> impl Future<Output = Answer<Vec<LocalStatus>>> + Send;

    /// `DELETE /v1/locals/{id}`.
    ///
    /// # Errors
    /// The node's.
    fn release_local(
        &self,
        node: &NodeName,
        id: &str,
        how: Release,
    ) -> impl Future<Output = Answer<()>> + Send;
}

/// What becomes of a private volume that its job has left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Release {
    /// What is owed to the PFS is drained, then it is discarded.
    Drained,
    /// It is discarded as it is.
    GivenUp,
}

/// How long files may stay open under a mount that is taken away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unmount {
    /// So many seconds.
    WithinSeconds(u64),
    /// No longer.
    AtOnce,
}
