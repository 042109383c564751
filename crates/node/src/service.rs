//! The node as a whole: its roles, its start and its end.

use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use api::munge::{Munge, MungeError};
use daemon::error::user;
use daemon::lock::{FolderLock, LockError};
use server::{BindError, OpenTo};
use store::image::VolumeError;
use tokio::sync::Notify;
use wire::control::{ApiError, NodeRole};
use wire::node::{Moved, NodeHealth, StorageAddress};

use crate::folder::{NodeFolder, of_id};
use crate::local::backing::Kind;
use crate::local::{self, Locals};
use crate::mount_table::KernelTable;
use crate::mounts::{self, Mounts};
use crate::mover::Movers;
use crate::registration;
use crate::requests;
use crate::stages::shares::Shares;
use crate::stages::{self, Stages};
use crate::storage::{Listen, Storage, StorageError};

/// How to run a node.
#[derive(Clone, Debug)]
pub struct Config {
    /// Its folder; must exist.
    pub folder: PathBuf,
    /// Its name.
    pub name: String,
    /// What it does.
    pub roles: Vec<NodeRole>,
    /// The cluster that it belongs to; `None`: control on this machine started it and knows all about it.
    pub cluster: Option<Cluster>,
}

/// What a node of a cluster knows besides.
#[derive(Clone, Debug)]
pub struct Cluster {
    /// Where control is: `host:port`, or the path of a socket.
    pub control: String,
    /// Where the others reach this node; `None`: only on this machine.
    pub listen: Option<IpAddr>,
    /// The TCP port of its API.
    pub api_port: u16,
    /// The TCP port of its data path.
    pub data_port: u16,
    /// The pool of its flash; `None`: the default pool.
    pub pool: Option<String>,
    /// Bytes of flash that it may give to instances.
    pub capacity_bytes: u64,
    /// Bytes a second that its stages may move on the PFS; `None`: no limit.
    pub stage_bandwidth: Option<u64>,
    /// Whether it copies with root's rights for root's stages that other nodes coordinate.
    pub movers_as_root: bool,
    /// Where it mounts namespaces.
    pub mount_root: PathBuf,
    /// Private volumes on its flash; `None`: there are none.
    pub local: Option<Local>,
    /// The user that control runs as.
    pub control_uid: u32,
    /// munged's socket; `None`: the usual one.
    pub munge_socket: Option<PathBuf>,
    /// Where everybody may read its metrics.
    pub metrics: Option<String>,
}

/// Private volumes on a node's own flash.
#[derive(Clone, Debug)]
pub struct Local {
    /// Where users find them.
    pub root: PathBuf,
    /// What they are made of.
    pub kind: Kind,
    /// Bytes of a volume where nobody said how many.
    pub capacity_bytes: u64,
    /// Bytes of the flash that are never handed out.
    pub reserve_bytes: u64,
    /// The weight of the drainers' cgroup; `None`: they have none of their own.
    pub drain_weight: Option<u32>,
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
    /// Private volumes cannot be made.
    #[error("give flash to private volumes (`local_kind` in the node's configuration)")]
    Locals(#[source] VolumeError),
    /// Who calls over the network cannot be told.
    #[error(transparent)]
    Munge(#[from] MungeError),
    /// The folder of the mount points.
    #[error("make the mount root {}", path.display())]
    MountRoot {
        /// The folder.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The service broke.
    #[error("serve requests")]
    Serve(#[source] io::Error),
}

/// A node.
pub struct Node {
    name: String,
    /// Who may call besides root and the user of this process.
    pub(crate) control_uid: Option<u32>,
    storage: Option<Storage>,
    compute: Option<Mounts<KernelTable>>,
    stages: Stages,
    locals: Option<Arc<Locals>>,
    /// Where it is noted which fragments are not where they were.
    moved: PathBuf,
    /// Held by who notes it.
    moving: Mutex<()>,
    /// Told by `POST /v1/shutdown`.
    pub(crate) stopping: Notify,
}

/// Runs a node until `stop` completes or control asks it to end.
///
/// # Errors
/// See [`NodeError`].
pub async fn run(config: Config, stop: impl Future<Output = ()> + Send + 'static) -> Result<(), NodeError> {
    let folder = NodeFolder(config.folder.clone());
    let _lock: FolderLock = daemon::lock::exclusive(&folder.lock())?;
    // Users may fill the disk to the last block, and a node that was stopped must start all the same.
    let room = disk::Room::of(&config.folder);
    room.make_way();
    wire::data::moved::look_in(&folder.0);
    let node = Arc::new(Node::open(&folder, &config)?);
    // Bound only now: whoever can connect is answered.
    let mut doors = vec![server::bind(&folder.node_socket(), OpenTo::Ourselves)?];
    let mut tasks = tokio::task::JoinSet::new();
    if let Some(cluster) = &config.cluster {
        join(&config, cluster, &folder, &mut doors, &mut tasks).await?;
        if let Some(address) = cluster.metrics.clone() {
            let router = requests::metrics_router(Arc::clone(&node));
            tasks.spawn(async move {
                if let Err(error) = server::serve_to_all(&address, router).await {
                    tracing::error!(error = daemon::error::chain(&error), "nobody can read the metrics");
                }
            });
        }
    }
    room.take();
    tracing::info!(node = node.name, folder = %folder.0.display(), "node runs");
    let asked = Arc::clone(&node);
    let end = async move {
        tokio::select! {
            () = stop => {}
            () = asked.stopping.notified() => {}
        }
    };
    server::serve(doors, requests::router(Arc::clone(&node)), end).await.map_err(NodeError::Serve)?;
    node.close().await;
    tracing::info!(node = node.name, "node ended");
    Ok(())
}

/// Opens the door to the network and says to control that this node is there, again and again.
async fn join(
    config: &Config,
    cluster: &Cluster,
    folder: &NodeFolder,
    doors: &mut Vec<server::Door>,
    tasks: &mut tokio::task::JoinSet<()>,
) -> Result<(), NodeError> {
    let munge = Munge::load(cluster.munge_socket.clone());
    let address = match cluster.listen {
        Some(ip) => {
            let address = std::net::SocketAddr::new(ip, cluster.api_port).to_string();
            doors
                .push(server::bind_tcp(&address, munge.as_ref().map_err(copy)?.clone(), &config.name).await?);
            address
        }
        None => folder.node_socket().display().to_string(),
    };
    let client = match cluster.control.starts_with('/') {
        true => daemon::client::Client::new(&cluster.control),
        false => daemon::client::Client::over_tcp(&cluster.control, api::endpoint::CONTROL, munge?),
    };
    tasks.spawn(registration::run(client, registration::of(config, cluster, address)));
    Ok(())
}

fn copy(error: &MungeError) -> MungeError {
    MungeError::Library(error.to_string())
}

impl Node {
    /// Lets every process of this machine find a fragment of an instance where it is now.
    ///
    /// # Errors
    /// The instance's or the node's name is none, or the node's disk failed.
    pub(crate) fn note_moved(&self, instance: &str, moved: &Moved) -> Result<(), ApiError> {
        let _id = of_id(&self.moved, instance)?;
        let _name = of_id(&self.moved, &moved.address.node)?;
        let failed = |error: io::Error| {
            let message = format!("note in {} where a fragment is now: {error}", self.moved.display());
            daemon::error::site(
                "node_disk",
                message,
                "check the disk of the node's folder, then repeat the command",
            )
        };
        let _alone = self.moving.lock().unwrap_or_else(PoisonError::into_inner);
        let line = wire::data::moved::line(instance, moved.fragment, &moved.address);
        let mut text = disk::read(&self.moved).map_err(failed)?.unwrap_or_default();
        if !text.ends_with(line.as_bytes()) {
            text.extend_from_slice(line.as_bytes());
            disk::replace(&self.moved, &text).map_err(failed)?;
        }
        Ok(())
    }

    fn open(folder: &NodeFolder, config: &Config) -> Result<Node, NodeError> {
        let listen = match &config.cluster {
            Some(Cluster { listen: Some(ip), data_port, .. }) => Listen { ip: *ip, port: Some(*data_port) },
            _ => Listen { ip: Ipv4Addr::LOCALHOST.into(), port: None },
        };
        let cluster = config.cluster.as_ref();
        let shares = Shares::new(cluster.and_then(|cluster| cluster.stage_bandwidth));
        // Storage first: mounts that are made anew need it.
        // Also a node of jobs alone stores what is striped over the flash of a job's own nodes.
        let gives_flash = config.cluster.as_ref().is_some_and(|cluster| cluster.local.is_some());
        let storage = match config.roles.contains(&NodeRole::Storage) || gives_flash {
            true => {
                let movers = Movers {
                    program: daemon::spawn::sibling("forebay-stage").map_err(NodeError::Compute)?,
                    shares: shares.clone(),
                    // On one machine who runs control is who runs this node.
                    as_root: cluster.is_none_or(|cluster| cluster.movers_as_root),
                };
                Some(Storage::open(folder, &config.name, listen, movers)?)
            }
            false => None,
        };
        if let Some(cluster) = &config.cluster {
            make_mount_root(cluster)?;
        }
        let compute = match config.roles.contains(&NodeRole::Compute) {
            true => Some(open_mounts(folder).map_err(NodeError::Compute)?),
            false => None,
        };
        let stages = open_stages(folder, storage.as_ref(), shares).map_err(NodeError::Compute)?;
        let locals = open_locals(folder, config)?;
        let control_uid = config.cluster.as_ref().map(|cluster| cluster.control_uid);
        Ok(Node {
            name: config.name.clone(),
            control_uid,
            storage,
            compute,
            stages,
            locals,
            moved: folder.moved(),
            moving: Mutex::default(),
            stopping: Notify::new(),
        })
    }

    /// Stage workers end and fragments are closed; mounts stay: control deletes those that are not wanted.
    async fn close(&self) {
        self.stages.shutdown().await;
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
        let local = match &self.locals {
            Some(locals) => Some(locals.space().await?),
            None => None,
        };
        Ok(NodeHealth {
            name: self.name.clone(),
            pid: std::process::id(),
            data,
            fragments,
            mounts: self.compute.as_ref().map(Mounts::statuses).unwrap_or_default(),
            stages: self.stages.statuses(),
            local,
        })
    }

    /// The storage role, for a request that needs it.
    pub(crate) fn storage(&self) -> Result<&Storage, ApiError> {
        self.storage.as_ref().ok_or_else(|| self.no_role("storage"))
    }

    /// The mounts, for a request that needs them.
    pub(crate) fn mounts(&self) -> Result<&Mounts<KernelTable>, ApiError> {
        self.compute.as_ref().ok_or_else(|| self.no_role("compute"))
    }

    /// The stages: a node of either role can copy.
    pub(crate) fn stages(&self) -> &Stages {
        &self.stages
    }

    /// The private volumes.
    pub(crate) fn locals(&self) -> Result<&Arc<Locals>, ApiError> {
        self.locals.as_ref().ok_or_else(|| {
            let message = format!("node {} gives no flash to private volumes", self.name);
            user("no_locals", message, "set local_capacity in its configuration")
        })
    }

    fn no_role(&self, role: &str) -> ApiError {
        user("no_such_role", format!("node {} has no {role} role", self.name), "start it with that role")
    }
}

fn open_mounts(folder: &NodeFolder) -> io::Result<Mounts<KernelTable>> {
    let program = daemon::spawn::sibling("forebay-mount")?;
    Mounts::open(mounts::Setting { folder: folder.mounts(), program, table: KernelTable })
}

fn open_stages(folder: &NodeFolder, storage: Option<&Storage>, shares: Arc<Shares>) -> io::Result<Stages> {
    let program = daemon::spawn::sibling("forebay-stage")?;
    let data_address = storage.map(|storage| storage.address().tcp.clone());
    let folder = folder.stages();
    Stages::open(stages::Setting { folder, program, data_address, shares })
}

fn open_locals(folder: &NodeFolder, config: &Config) -> Result<Option<Arc<Locals>>, NodeError> {
    let cluster = config.cluster.as_ref();
    let Some((cluster, local)) = cluster.and_then(|cluster| Some((cluster, cluster.local.as_ref()?))) else {
        return Ok(None);
    };
    let setting = local::Setting {
        node: config.name.clone(),
        folder: folder.locals(),
        kind: local.kind.clone(),
        mount_root: cluster.mount_root.clone(),
        local_root: local.root.clone(),
        reserve_bytes: local.reserve_bytes,
        capacity_bytes: local.capacity_bytes,
        drain_weight: local.drain_weight,
        program: daemon::spawn::sibling("forebay-drain").map_err(NodeError::Compute)?,
    };
    Locals::open(setting).map(Some).map_err(NodeError::Locals)
}

/// Users of every kind pass through the mount root to their buffers.
fn make_mount_root(cluster: &Cluster) -> Result<(), NodeError> {
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o022));
    std::fs::create_dir_all(&cluster.mount_root)
        .map_err(|source| NodeError::MountRoot { path: cluster.mount_root.clone(), source })
}
