//! The site of a cluster: nodes on many hosts, called over the network. A node that does not answer is waited for a
//! bounded time, and named.

use std::path::{Path, PathBuf};
use std::time::Duration;

use api::CallError;
use daemon::error::{bug, site, user};
use model::{InstanceId, NodeName, Token};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::sync::watch;
use wire::control::{ApiError, ErrorCode};
use wire::node::StorageAddress;

use crate::cluster_nodes::{ClusterNodes, Seen};
use crate::last_words::LastWords;
use crate::node_api::{Caller, NodeApi};
use crate::site::{ClusterSetting, DiskSpace, NodeView, Site};
use crate::state::nodes::Known;

/// Between two tries of a call.
const REPEAT_PAUSE: Duration = Duration::from_millis(250);

/// Every host of the cluster.
pub(crate) struct ClusterSite {
    setting: ClusterSetting,
    nodes: ClusterNodes,
    /// How long a node may be silent before a call to it is given up.
    patience: Duration,
}

impl ClusterSite {
    /// With no nodes yet.
    pub(crate) fn new(setting: ClusterSetting, nodes: ClusterNodes, patience: Duration) -> ClusterSite {
        ClusterSite { setting, nodes, patience }
    }

    /// Repeats an idempotent call while nobody answers, until the node was silent for too long. A call that was taken
    /// is waited for as long as the node shows otherwise that it lives.
    async fn repeat<R, F: Future<Output = Result<R, CallError>>>(
        &self,
        node: &NodeName,
        seen: &watch::Receiver<Seen>,
        mut call: impl FnMut() -> F,
    ) -> Result<R, ApiError> {
        loop {
            let result = tokio::select! {
                result = call() => result,
                () = self.silent(seen.clone()) => {
                    let last = seen.borrow().last_error.clone().unwrap_or_default();
                    return Err(self.absent(node, &last));
                }
            };
            match result {
                Ok(reply) => return Ok(reply),
                Err(CallError::Refused(error)) => return Err(error),
                Err(error @ CallError::Garbled { .. }) => {
                    return Err(bug(ErrorCode::NodeGarbled, format!("node {node}: {}", error.reason())));
                }
                // A node that does not take the call is silent before long, or back.
                Err(error) => {
                    tracing::debug!(?node, error = error.reason(), "a call is repeated");
                    tokio::time::sleep(REPEAT_PAUSE).await;
                }
            }
        }
    }

    /// Completes when the node has not answered for as long as we are patient.
    async fn silent(&self, seen: watch::Receiver<Seen>) {
        loop {
            let (online, answered) = {
                let seen = seen.borrow();
                (seen.online, seen.answered)
            };
            let left = self.patience.saturating_sub(answered.elapsed());
            if left.is_zero() && !online {
                return;
            }
            tokio::time::sleep(left.max(REPEAT_PAUSE)).await;
        }
    }

    fn absent(&self, node: &NodeName, why: &str) -> ApiError {
        let message = format!("node {node} does not answer: {why}");
        let advice = format!("`forebay status` shows when it is back; {}", crate::advice::log_of(self, node));
        site(ErrorCode::NodeAbsent, message, advice)
    }
}

impl Caller for ClusterSite {
    async fn get<R: DeserializeOwned + Send>(&self, node: &NodeName, path: &str) -> Result<R, ApiError> {
        let (client, seen) = self.nodes.find(node)?;
        self.repeat(node, &seen, || client.get(path)).await
    }

    async fn put<R: DeserializeOwned + Send>(
        &self,
        node: &NodeName,
        path: &str,
        body: &(impl Serialize + Sync),
    ) -> Result<R, ApiError> {
        let (client, seen) = self.nodes.find(node)?;
        self.repeat(node, &seen, || client.put(path, body)).await
    }

    async fn delete(&self, node: &NodeName, path: &str) -> Result<(), ApiError> {
        let (client, seen) = self.nodes.find(node)?;
        self.repeat(node, &seen, || client.delete::<Value>(path)).await.map(|_| ())
    }
}

impl Site for ClusterSite {
    fn mount_folder(&self) -> PathBuf {
        self.setting.mount_root.clone()
    }

    fn cluster(&self) -> Option<ClusterSetting> {
        Some(self.setting.clone())
    }

    fn admit(&self, node: Known) -> Result<(), ApiError> {
        self.nodes.admit(node)
    }

    fn lives(&self, name: &NodeName) -> bool {
        let seen = self.nodes.find(name).map(|(_, seen)| seen.borrow().clone());
        // After a start of control none was asked yet.
        seen.is_ok_and(|seen| seen.online || seen.answered.elapsed() < self.patience)
    }

    fn forget(&self, name: &NodeName) {
        self.nodes.forget(name);
    }

    fn disk(&self) -> Result<DiskSpace, ApiError> {
        Err(bug(ErrorCode::NoDisk, "a cluster has no single disk"))
    }

    fn image_bytes_min(&self) -> Option<u64> {
        // A host that cannot have an image refuses, and directories are used.
        Some(crate::local_site::IMAGE_BYTES_MIN)
    }

    fn nodes(&self) -> Vec<NodeView> {
        self.nodes.views()
    }

    fn words(&self) -> Option<&LastWords> {
        Some(self.nodes.words())
    }

    fn is_proven(&self, node: &NodeName, instance: &InstanceId, term: u32) -> bool {
        self.nodes.is_proven(node, instance, term)
    }

    fn check_mountpoint(&self, path: &Path) -> Result<PathBuf, ApiError> {
        let message = format!("mount at {}: on a cluster mounts have a place of their own", path.display());
        Err(user(ErrorCode::BadMountpoint, message, "leave the mount point out"))
    }

    async fn ensure_nodes(&self, names: &[NodeName]) -> Result<Vec<StorageAddress>, ApiError> {
        let mut addresses = Vec::new();
        for name in names {
            let known = self.nodes.find(name)?.1.borrow().health.as_ref().map(|health| health.data.clone());
            // Where a node's data path is does not change: one that restarts just now need not be waited for.
            let address = match known {
                Some(address) => address,
                None => self.health(name).await?.data,
            };
            if address.tcp.is_empty() {
                let message = format!("node {name} has no storage role any more");
                return Err(site(
                    ErrorCode::NoStorage,
                    message,
                    "give it the role back, or remove the buffer",
                ));
            }
            addresses.push(address);
        }
        Ok(addresses)
    }

    async fn stop_nodes(&self) -> Result<(), ApiError> {
        // They are services of their hosts.
        Ok(())
    }

    fn remove_mount_folder(&self, _token: &Token) {
        // Each node removes its own.
    }
}
