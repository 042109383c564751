//! The site of the embedded mode: this machine, its state folder, and nodes that control runs itself.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use api::CallError;
use daemon::error::{bug, site, user};
use model::{NodeName, Token};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use wire::control::{ApiError, ErrorCode};
use wire::node::StorageAddress;

use crate::last_words::LastWords;
use crate::local_nodes::LocalNodes;
use crate::node_api::{Caller, NodeApi};
use crate::site::{ClusterSetting, DiskSpace, NodeView, Site};
use crate::state::nodes::Known;

/// How long a call to a node is repeated while it does not answer: it is being started again meanwhile.
const REPEAT_WITHIN: Duration = Duration::from_secs(120);

/// Between two tries.
const REPEAT_PAUSE: Duration = Duration::from_millis(250);

/// The smallest fragment that gets an image: mkfs.xfs makes no file system below 300 MB, and one of little more is
/// mostly its log.
pub(crate) const IMAGE_BYTES_MIN: u64 = 512 << 20;

/// Where system administration programs live besides `PATH`.
const SYSTEM_FOLDERS: [&str; 4] = ["/usr/sbin", "/sbin", "/usr/bin", "/bin"];

/// This machine.
pub(crate) struct LocalSite {
    folder: PathBuf,
    nodes: LocalNodes,
}

impl LocalSite {
    /// Over the state folder `folder`.
    pub(crate) fn new(folder: PathBuf, nodes: LocalNodes) -> LocalSite {
        LocalSite { folder, nodes }
    }
}

impl Caller for LocalSite {
    async fn get<R: DeserializeOwned + Send>(&self, node: &NodeName, path: &str) -> Result<R, ApiError> {
        let client = self.nodes.client(node);
        repeat((node, self.nodes.log(node)), || client.get(path)).await
    }

    async fn put<R: DeserializeOwned + Send>(
        &self,
        node: &NodeName,
        path: &str,
        body: &(impl Serialize + Sync),
    ) -> Result<R, ApiError> {
        let client = self.nodes.client(node);
        repeat((node, self.nodes.log(node)), || client.put(path, body)).await
    }

    async fn delete(&self, node: &NodeName, path: &str) -> Result<(), ApiError> {
        let client = self.nodes.client(node);
        repeat((node, self.nodes.log(node)), || client.delete::<Value>(path)).await.map(|_| ())
    }
}

/// Repeats an idempotent call while nobody answers.
async fn repeat<R, F: Future<Output = Result<R, CallError>>>(
    (node, log): (&NodeName, PathBuf),
    mut call: impl FnMut() -> F,
) -> Result<R, ApiError> {
    let deadline = Instant::now() + REPEAT_WITHIN;
    loop {
        match call().await {
            Ok(reply) => return Ok(reply),
            Err(CallError::Refused(error)) => return Err(error),
            Err(error @ CallError::Garbled { .. }) => {
                return Err(bug(ErrorCode::NodeGarbled, format!("node {node}: {}", error.reason())));
            }
            Err(error) if Instant::now() > deadline => {
                let message = format!("node {node} does not answer: {}", error.reason());
                return Err(site(
                    ErrorCode::NodeAbsent,
                    message,
                    format!("look into {}, then try again", log.display()),
                ));
            }
            Err(_) => tokio::time::sleep(REPEAT_PAUSE).await,
        }
    }
}

impl Site for LocalSite {
    fn mount_folder(&self) -> PathBuf {
        self.folder.join("mnt")
    }

    fn cluster(&self) -> Option<ClusterSetting> {
        None
    }

    fn admit(&self, node: Known) -> Result<(), ApiError> {
        let message =
            format!("node {} cannot join: this service has a machine of its own", node.registration.name);
        Err(user(ErrorCode::NoCluster, message, "start control with --config to lead a cluster"))
    }

    fn forget(&self, _name: &NodeName) {}

    fn disk(&self) -> Result<DiskSpace, ApiError> {
        let stat = rustix::fs::statvfs(&self.folder).map_err(|errno| {
            let message = format!("ask the disk of {} for its space: {errno}", self.folder.display());
            site(ErrorCode::NoDisk, message, "check the state folder")
        })?;
        Ok(DiskSpace { available_bytes: stat.f_bavail.saturating_mul(stat.f_frsize) })
    }

    fn image_bytes_min(&self) -> Option<u64> {
        let possible = rustix::process::geteuid().is_root()
            && disk::exists(Path::new("/dev/loop-control")).unwrap_or(false)
            && program_exists("mkfs.xfs")
            && program_exists("losetup");
        possible.then_some(IMAGE_BYTES_MIN)
    }

    fn nodes(&self) -> Vec<NodeView> {
        self.nodes.views()
    }

    fn words(&self) -> Option<&LastWords> {
        Some(self.nodes.words())
    }

    fn check_mountpoint(&self, path: &Path) -> Result<PathBuf, ApiError> {
        let refuse = |why: String| {
            user(
                ErrorCode::BadMountpoint,
                format!("mount at {}: {why}", path.display()),
                "name an existing folder",
            )
        };
        let real = path.canonicalize().map_err(|e| refuse(e.to_string()))?;
        match disk::is_folder(&real) {
            Ok(true) => Ok(real),
            Ok(false) => Err(refuse("it is not a folder".to_owned())),
            Err(error) => Err(refuse(error.to_string())),
        }
    }

    async fn ensure_nodes(&self, names: &[NodeName]) -> Result<Vec<StorageAddress>, ApiError> {
        self.nodes.ensure(names).await?;
        let mut addresses = Vec::new();
        for name in names {
            // Not as it was seen last: one that has lost its folder, and was started again, has another port.
            addresses.push(self.health(name).await?.data);
        }
        Ok(addresses)
    }

    async fn stop_nodes(&self) -> Result<(), ApiError> {
        self.nodes.stop().await
    }

    fn remove_mount_folder(&self, token: &Token) {
        // Missing if the user named the place; not empty only if somebody put something there, which stays.
        let _ = std::fs::remove_dir(self.mount_folder().join(token));
    }
}

fn program_exists(name: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(SYSTEM_FOLDERS.iter().map(PathBuf::from));
    folders.into_iter().any(|folder| disk::is_file(&folder.join(name)).unwrap_or(false))
}
