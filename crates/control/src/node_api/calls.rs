//! What is asked of a node as requests over HTTP.

use std::path::PathBuf;

use model::{FragmentIndex, InstanceId, NodeName};
use wire::control::StageStatus;
use wire::data::Credential;
use wire::node::{
    FragmentSpec, FragmentStatus, FsckReport, FsckSpec, LocalSpec, LocalStatus, MountSpec, MountStatus,
    Moved, NodeHealth, PartFiles, PfsMount, ScrubSpec, ScrubStatus, StageSpec,
};

use super::caller::Caller;
use super::{Answer, NodeApi, Release, Unmount};

impl<C: Caller> NodeApi for C {
    async fn health(&self, node: &NodeName) -> Answer<NodeHealth> {
        self.get(node, "/v1/health").await
    }

    async fn create_fragment(&self, node: &NodeName, spec: &FragmentSpec) -> Answer<FragmentStatus> {
        self.put(node, &format!("/v1/fragments/{}", spec.instance), spec).await
    }

    async fn delete_fragment(&self, node: &NodeName, instance: &InstanceId) -> Answer<()> {
        self.delete(node, &format!("/v1/fragments/{instance}")).await
    }

    async fn note_moved(&self, node: &NodeName, instance: &InstanceId, moved: &Moved) -> Answer<()> {
        let path = format!("/v1/fragments/{instance}/moved");
        self.put(node, &path, moved).await.map(|_: serde_json::Value| ())
    }

    async fn scrub(
        &self,
        node: &NodeName,
        instance: &InstanceId,
        spec: Option<ScrubSpec>,
    ) -> Answer<ScrubStatus> {
        let path = format!("/v1/fragments/{instance}/scrub");
        match spec {
            Some(spec) => self.put(node, &path, &spec).await,
            None => self.get(node, &path).await,
        }
    }

    async fn paths(
        &self,
        node: &NodeName,
        instance: &InstanceId,
        inos: &[(u32, model::Ino)],
    ) -> Answer<Vec<Option<String>>> {
        self.put(node, &format!("/v1/fragments/{instance}/paths"), &inos).await
    }

    async fn fsck(&self, node: &NodeName, instance: &InstanceId, spec: FsckSpec) -> Answer<FsckReport> {
        self.put(node, &format!("/v1/fragments/{instance}/fsck"), &spec).await
    }

    async fn files_on(
        &self,
        node: &NodeName,
        instance: &InstanceId,
        part: FragmentIndex,
    ) -> Answer<PartFiles> {
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

    async fn renew_mount(&self, node: &NodeName, id: &str, credential: &Credential) -> Answer<()> {
        let path = format!("/v1/mounts/{id}/credential");
        self.put(node, &path, credential).await.map(|_: serde_json::Value| ())
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
