//! The node as a whole: its roles, its start and its end.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use daemon::error::user;
use daemon::http::{BindError, OpenTo};
use daemon::lock::{FolderLock, LockError};
use tokio::sync::Notify;
use wire::control::ApiError;
use wire::node::{NodeHealth, StorageAddress};

use crate::folder::NodeFolder;
use crate::mount_table::KernelTable;
use crate::mounts::{self, Mounts};
use crate::requests;
use crate::stages::{self, Stages};
use crate::storage::{Storage, StorageError};

/// What a node does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Role {
    /// Holds fragments.
    Storage,
    /// Mounts namespaces and copies stages.
    Compute,
}

/// How to run a node.
#[derive(Clone, Debug)]
pub struct Config {
    /// Its folder; must exist.
    pub folder: PathBuf,
    /// Its name.
    pub name: String,
    /// What it does.
    pub roles: Vec<Role>,
}

/// Why a node does not run.
#[derive(Debug, thiserror::Error)]
pub enum NodeError {
    /// Another node uses the folder.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// The socket for control.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// The storage role.
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// What an earlier life kept of mounts and stages, or the programs for them.
    #[error("start the compute role")]
    Compute(#[source] io::Error),
    /// The service broke.
    #[error("serve requests")]
    Serve(#[source] io::Error),
}

/// A node.
pub struct Node {
    name: String,
    storage: Option<Storage>,
    compute: Option<Compute>,
    /// Told by `POST /v1/shutdown`.
    pub(crate) stopping: Notify,
}

/// The compute role.
pub(crate) struct Compute {
    pub mounts: Mounts<KernelTable>,
    pub stages: Stages,
}

/// Runs a node until `stop` completes or control asks it to end.
///
/// # Errors
/// See [`NodeError`].
pub async fn run(config: Config, stop: impl Future<Output = ()> + Send + 'static) -> Result<(), NodeError> {
    let folder = NodeFolder(config.folder.clone());
    let _lock: FolderLock = daemon::lock::exclusive(&folder.lock())?;
    let node = Arc::new(Node::open(&folder, &config)?);
    // Bound only now: whoever can connect is answered.
    let listener = daemon::http::bind(&folder.node_socket(), OpenTo::Ourselves)?;
    tracing::info!(node = node.name, folder = %folder.0.display(), "node runs");
    let asked = Arc::clone(&node);
    let end = async move {
        tokio::select! {
            () = stop => {}
            () = asked.stopping.notified() => {}
        }
    };
    daemon::http::serve(vec![listener], requests::router(Arc::clone(&node)), end)
        .await
        .map_err(NodeError::Serve)?;
    node.close().await;
    tracing::info!(node = node.name, "node ended");
    Ok(())
}

impl Node {
    fn open(folder: &NodeFolder, config: &Config) -> Result<Node, NodeError> {
        // Storage first: mounts that are made anew need it.
        let storage = match config.roles.contains(&Role::Storage) {
            true => Some(Storage::open(folder, &config.name)?),
            false => None,
        };
        let compute = match config.roles.contains(&Role::Compute) {
            true => Some(Compute::open(folder).map_err(NodeError::Compute)?),
            false => None,
        };
        Ok(Node { name: config.name.clone(), storage, compute, stopping: Notify::new() })
    }

    /// Stage workers end and fragments are closed; mounts stay: control deletes those that are not wanted.
    async fn close(&self) {
        if let Some(compute) = &self.compute {
            compute.stages.shutdown().await;
        }
        if let Some(storage) = &self.storage
            && let Err(error) = storage.shutdown().await
        {
            tracing::error!(%error, "the fragments are not closed cleanly");
        }
    }

    /// What the node says of itself.
    pub(crate) async fn health(&self) -> Result<NodeHealth, ApiError> {
        let (data, fragments) = match &self.storage {
            Some(storage) => (storage.address().clone(), storage.fragments().await?),
            None => (StorageAddress { node: self.name.clone(), tcp: String::new(), unix: None }, Vec::new()),
        };
        let compute = self.compute.as_ref();
        Ok(NodeHealth {
            name: self.name.clone(),
            pid: std::process::id(),
            data,
            fragments,
            mounts: compute.map(|compute| compute.mounts.statuses()).unwrap_or_default(),
            stages: compute.map(|compute| compute.stages.statuses()).unwrap_or_default(),
        })
    }

    /// The storage role, for a request that needs it.
    pub(crate) fn storage(&self) -> Result<&Storage, ApiError> {
        self.storage.as_ref().ok_or_else(|| self.no_role("storage"))
    }

    /// The compute role, for a request that needs it.
    pub(crate) fn compute(&self) -> Result<&Compute, ApiError> {
        self.compute.as_ref().ok_or_else(|| self.no_role("compute"))
    }

    fn no_role(&self, role: &str) -> ApiError {
        user("no_such_role", format!("node {} has no {role} role", self.name), "start it with that role")
    }
}

impl Compute {
    fn open(folder: &NodeFolder) -> io::Result<Compute> {
        let mounts = mounts::Setting {
            folder: folder.mounts(),
            program: daemon::spawn::sibling("forebay-mount")?,
            table: KernelTable,
        };
        let stages =
            stages::Setting { folder: folder.stages(), program: daemon::spawn::sibling("forebay-stage")? };
        Ok(Compute { mounts: Mounts::open(mounts)?, stages: Stages::open(stages)? })
    }
}
