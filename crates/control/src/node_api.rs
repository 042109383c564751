//! What control asks of a node. How a node is reached differs ([`Caller`]); what is asked does not. Calls are
//! idempotent, and repeated while the node restarts; what comes back as an error is final.

mod caller;

use std::path::PathBuf;

use model::FragmentIndex;
use wire::control::{ApiError, StageStatus};
use wire::node::{
    FragmentSpec, FragmentStatus, FsckReport, FsckSpec, LocalSpec, LocalStatus, MountSpec, MountStatus,
    Moved, NodeHealth, PartFiles, PfsMount, ScrubSpec, ScrubStatus, StageSpec,
};

pub(crate) use caller::Caller;

/// The node's API, as `wire::node` describes it.
pub trait NodeApi: Send + Sync {
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

    /// `PUT /v1/fragments/{instance}/moved`.
    ///
    /// # Errors
    /// The node's.
    fn note_moved(
        &self,
        node: &str,
        instance: &str,
        moved: &Moved,
    ) -> impl Future<Output = Result<(), ApiError>> + Send;

    /// `PUT /v1/fragments/{instance}/scrub`; without a specification only `GET`.
    ///
    /// # Errors
    /// The node's.
    fn scrub(
        &self,
        node: &str,
        instance: &str,
        spec: Option<ScrubSpec>,
    ) -> impl Future<Output = Result<ScrubStatus, ApiError>> + Send;

    /// `PUT /v1/fragments/{instance}/paths`.
    ///
    /// # Errors
    /// The node's.
    fn paths(
        &self,
        node: &str,
        instance: &str,
        inos: &[(u32, model::Ino)],
    ) -> impl Future<Output = Result<Vec<Option<String>>, ApiError>> + Send;

    /// `PUT /v1/fragments/{instance}/fsck`.
    ///
    /// # Errors
    /// The node's.
    fn fsck(
        &self,
        node: &str,
        instance: &str,
        spec: FsckSpec,
    ) -> impl Future<Output = Result<FsckReport, ApiError>> + Send;

    /// `GET /v1/fragments/{instance}/files/{part}`.
    ///
    /// # Errors
    /// The node's.
    fn files_on(
        &self,
        node: &str,
        instance: &str,
        part: FragmentIndex,
    ) -> impl Future<Output = Result<PartFiles, ApiError>> + Send;

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
    fn unmount(
        &self,
        node: &str,
        id: &str,
        how: Unmount,
    ) -> impl Future<Output = Result<(), ApiError>> + Send;

    /// `PUT /v1/mounts/{id}/shared`.
    ///
    /// # Errors
    /// The node's.
    fn share_mount(&self, node: &str, id: &str) -> impl Future<Output = Result<(), ApiError>> + Send;

    /// `PUT /v1/stages/{id}`.
    ///
    /// # Errors
    /// The node's.
    fn start_stage(
        &self,
        node: &str,
        spec: &StageSpec,
    ) -> impl Future<Output = Result<StageStatus, ApiError>> + Send;

    /// `PUT /v1/stages/{id}/retry`.
    ///
    /// # Errors
    /// The node's.
    fn retry_stage(
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

    /// `PUT /v1/pfs/mounts`.
    ///
    /// # Errors
    /// The node's.
    fn pfs_mounts(
        &self,
        node: &str,
        paths: &[PathBuf],
    ) -> impl Future<Output = Result<Vec<Option<PfsMount>>, ApiError>> + Send;

    /// `PUT /v1/locals/{id}`.
    ///
    /// # Errors
    /// The node's.
    fn create_local(
        &self,
        node: &str,
        spec: &LocalSpec,
    ) -> impl Future<Output = Result<LocalStatus, ApiError>> + Send;

    /// `GET /v1/locals`.
    ///
    /// # Errors
    /// The node's.
    fn locals(&self, node: &str) -> impl Future<Output = Result<Vec<LocalStatus>, ApiError>> + Send;

    /// `DELETE /v1/locals/{id}`.
    ///
    /// # Errors
    /// The node's.
    fn release_local(
        &self,
        node: &str,
        id: &str,
        how: Release,
    ) -> impl Future<Output = Result<(), ApiError>> + Send;
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
    async fn health(&self, node: &str) -> Result<NodeHealth, ApiError> {
        self.get(node, "/v1/health").await
    }

    async fn create_fragment(&self, node: &str, spec: &FragmentSpec) -> Result<FragmentStatus, ApiError> {
        self.put(node, &format!("/v1/fragments/{}", spec.instance), spec).await
    }

    async fn delete_fragment(&self, node: &str, instance: &str) -> Result<(), ApiError> {
        self.delete(node, &format!("/v1/fragments/{instance}")).await
    }

    async fn note_moved(&self, node: &str, instance: &str, moved: &Moved) -> Result<(), ApiError> {
        let path = format!("/v1/fragments/{instance}/moved");
        self.put(node, &path, moved).await.map(|_: serde_json::Value| ())
    }

    async fn scrub(
        &self,
        node: &str,
        instance: &str,
        spec: Option<ScrubSpec>,
    ) -> Result<ScrubStatus, ApiError> {
        let path = format!("/v1/fragments/{instance}/scrub");
        match spec {
            Some(spec) => self.put(node, &path, &spec).await,
            None => self.get(node, &path).await,
        }
    }

    async fn paths(
        &self,
        node: &str,
        instance: &str,
        inos: &[(u32, model::Ino)],
    ) -> Result<Vec<Option<String>>, ApiError> {
        self.put(node, &format!("/v1/fragments/{instance}/paths"), &inos).await
    }

    async fn fsck(&self, node: &str, instance: &str, spec: FsckSpec) -> Result<FsckReport, ApiError> {
        self.put(node, &format!("/v1/fragments/{instance}/fsck"), &spec).await
    }

    async fn files_on(&self, node: &str, instance: &str, part: FragmentIndex) -> Result<PartFiles, ApiError> {
        self.get(node, &format!("/v1/fragments/{instance}/files/{part}")).await
    }

    async fn mount(&self, node: &str, spec: &MountSpec) -> Result<MountStatus, ApiError> {
        self.put(node, &format!("/v1/mounts/{}", spec.id), spec).await
    }

    async fn unmount(&self, node: &str, id: &str, how: Unmount) -> Result<(), ApiError> {
        self.delete(node, &unmount_path(id, how)).await
    }

    async fn share_mount(&self, node: &str, id: &str) -> Result<(), ApiError> {
        let path = format!("/v1/mounts/{id}/shared");
        self.put(node, &path, &serde_json::json!({})).await.map(|_: serde_json::Value| ())
    }

    async fn start_stage(&self, node: &str, spec: &StageSpec) -> Result<StageStatus, ApiError> {
        self.put(node, &format!("/v1/stages/{}", spec.id), spec).await
    }

    async fn retry_stage(&self, node: &str, spec: &StageSpec) -> Result<StageStatus, ApiError> {
        self.put(node, &format!("/v1/stages/{}/retry", spec.id), spec).await
    }

    async fn stage(&self, node: &str, id: &str) -> Result<StageStatus, ApiError> {
        self.get(node, &format!("/v1/stages/{id}")).await
    }

    async fn delete_stage(&self, node: &str, id: &str) -> Result<(), ApiError> {
        self.delete(node, &format!("/v1/stages/{id}")).await
    }

    async fn pfs_mounts(&self, node: &str, paths: &[PathBuf]) -> Result<Vec<Option<PfsMount>>, ApiError> {
        self.put(node, "/v1/pfs/mounts", &paths).await
    }

    async fn create_local(&self, node: &str, spec: &LocalSpec) -> Result<LocalStatus, ApiError> {
        self.put(node, &format!("/v1/locals/{}", spec.id), spec).await
    }

    async fn locals(&self, node: &str) -> Result<Vec<LocalStatus>, ApiError> {
        self.get(node, "/v1/locals").await
    }

    async fn release_local(&self, node: &str, id: &str, how: Release) -> Result<(), ApiError> {
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
