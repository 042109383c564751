//! What control asks of a node. How a node is reached differs ([`Caller`]); what is asked does not. Calls are
//! idempotent, and repeated while the node restarts; what comes back as an error is final.

mod caller;

use std::path::PathBuf;

use model::{FragmentIndex, NodeName};
use wire::control::{ApiError, StageStatus};
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
    fn delete_fragment(&self, node: &NodeName, instance: &str) -> impl Future<Output = Answer<()>> + Send;

    /// `PUT /v1/fragments/{instance}/moved`.
    ///
    /// # Errors
    /// The node's.
    fn note_moved(
        &self,
        node: &NodeName,
        instance: &str,
        moved: &Moved,
    ) -> impl Future<Output = Answer<()>> + Send;

    /// `PUT /v1/fragments/{instance}/scrub`; without a specification only `GET`.
    ///
    /// # Errors
    /// The node's.
    fn scrub(
        &self,
        node: &NodeName,
        instance: &str,
        spec: Option<ScrubSpec>,
    ) -> impl Future<Output = Answer<ScrubStatus>> + Send;

    /// `PUT /v1/fragments/{instance}/paths`.
    ///
    /// # Errors
    /// The node's.
    fn paths(
        &self,
        node: &NodeName,
        instance: &str,
        inos: &[(u32, model::Ino)],
    ) -> impl Future<Output = Answer<Vec<Option<String>>>> + Send;

    /// `PUT /v1/fragments/{instance}/fsck`.
    ///
    /// # Errors
    /// The node's.
    fn fsck(
        &self,
        node: &NodeName,
        instance: &str,
        spec: FsckSpec,
    ) -> impl Future<Output = Answer<FsckReport>> + Send;

    /// `GET /v1/fragments/{instance}/files/{part}`.
    ///
    /// # Errors
    /// The node's.
    fn files_on(
        &self,
        node: &NodeName,
        instance: &str,
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

impl<C: Caller> NodeApi for C {
    async fn health(&self, node: &NodeName) -> Answer<NodeHealth> {
        self.get(node, "/v1/health").await
    }

    async fn create_fragment(&self, node: &NodeName, spec: &FragmentSpec) -> Answer<FragmentStatus> {
        self.put(node, &format!("/v1/fragments/{}", spec.instance), spec).await
    }

    async fn delete_fragment(&self, node: &NodeName, instance: &str) -> Answer<()> {
        self.delete(node, &format!("/v1/fragments/{instance}")).await
    }

    async fn note_moved(&self, node: &NodeName, instance: &str, moved: &Moved) -> Answer<()> {
        let path = format!("/v1/fragments/{instance}/moved");
        self.put(node, &path, moved).await.map(|_: serde_json::Value| ())
    }

    async fn scrub(&self, node: &NodeName, instance: &str, spec: Option<ScrubSpec>) -> Answer<ScrubStatus> {
        let path = format!("/v1/fragments/{instance}/scrub");
        match spec {
            Some(spec) => self.put(node, &path, &spec).await,
            None => self.get(node, &path).await,
        }
    }

    async fn paths(
        &self,
        node: &NodeName,
        instance: &str,
        inos: &[(u32, model::Ino)],
    ) -> Answer<Vec<Option<String>>> {
        self.put(node, &format!("/v1/fragments/{instance}/paths"), &inos).await
    }

    async fn fsck(&self, node: &NodeName, instance: &str, spec: FsckSpec) -> Answer<FsckReport> {
        self.put(node, &format!("/v1/fragments/{instance}/fsck"), &spec).await
    }

    async fn files_on(&self, node: &NodeName, instance: &str, part: FragmentIndex) -> Answer<PartFiles> {
        self.get(node, &format!("/v1/fragments/{instance}/files/{part}")).await
    }

    async fn mount(&self, node: &NodeName, spec: &MountSpec) -> Answer<MountStatus> {
        self.put(node, &format!("/v1/mounts/{}", spec.id), spec).await
    }

    async fn unmount(&self, node: &NodeName, id: &str, how: Unmount) -> Answer<()> {
        self.delete(node, &unmount_path(id, how)).await
    }

    async fn share_mount(&self, node: &NodeName, id: &str) -> Answer<()> {
        let path = format!("/v1/mounts/{id}/shared");
        self.put(node, &path, &serde_json::json!({})).await.map(|_: serde_json::Value| ())
    }

    async fn start_stage(&self, node: &NodeName, spec: &StageSpec) -> Answer<StageStatus> {
        self.put(node, &format!("/v1/stages/{}", spec.id), spec).await
    }

    async fn retry_stage(&self, node: &NodeName, spec: &StageSpec) -> Answer<StageStatus> {
        self.put(node, &format!("/v1/stages/{}/retry", spec.id), spec).await
    }

    async fn stage(&self, node: &NodeName, id: &str) -> Answer<StageStatus> {
        self.get(node, &format!("/v1/stages/{id}")).await
    }

    async fn delete_stage(&self, node: &NodeName, id: &str) -> Answer<()> {
        self.delete(node, &format!("/v1/stages/{id}")).await
    }

    async fn pfs_mounts(&self, node: &NodeName, paths: &[PathBuf]) -> Answer<Vec<Option<PfsMount>>> {
        self.put(node, "/v1/pfs/mounts", &paths).await
    }

    async fn create_local(&self, node: &NodeName, spec: &LocalSpec) -> Answer<LocalStatus> {
        self.put(node, &format!("/v1/locals/{}", spec.id), spec).await
    }

    async fn locals(&self, node: &NodeName) -> Answer<Vec<LocalStatus>> {
        self.get(node, "/v1/locals").await
    }

    async fn release_local(&self, node: &NodeName, id: &str, how: Release) -> Answer<()> {
        self.delete(node, &format!("/v1/locals/{id}?discard={}", how == Release::GivenUp)).await
    }
}

/// The request that takes a mount away.
fn unmount_path(id: &str, how: Unmount) -> String {
    let grace_s = match how {
        Unmount::WithinSeconds(grace_s) => grace_s,
        Unmount::AtOnce => 0,
    };
    format!("/v1/mounts/{id}?grace_s={grace_s}")
}
