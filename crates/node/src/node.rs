//! The state of a node: its roles, and what each of them keeps. What requests work on.

use std::io;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use daemon::error::user;
use model::{InstanceId, NodeName};
use tokio::sync::Notify;
use wire::control::{ApiError, ErrorCode, NodeRole};
use wire::node::{ENCRYPT, Moved, NodeHealth, ROOT_SQUASH, StorageAddress};

use crate::config::{Cluster, Config};
use crate::error::NodeError;
use crate::folder::{NodeFolder, of_id};
use crate::local::{self, Locals};
use crate::mount_table::KernelTable;
use crate::mounts::{self, Mounts};
use crate::mover::Movers;
use crate::stages::shares::Shares;
use crate::stages::worker::Workers;
use crate::stages::{self, Stages};
use crate::storage::{Listen, Storage};

/// A node.
pub(crate) struct Node {
    pub(crate) name: NodeName,
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

impl Node {
    /// Lets every process of this machine find a fragment of an instance where it is now.
    ///
    /// # Errors
    /// The instance's or the node's name is none, or the node's disk failed.
    pub(crate) fn note_moved(&self, instance: &InstanceId, moved: &Moved) -> Result<(), ApiError> {
        let _id = of_id(&self.moved, instance.as_str())?;
        let _name = of_id(&self.moved, moved.address.node.as_str())?;
        let failed = |error: io::Error| {
            let message = format!("note in {} where a fragment is now: {error}", self.moved.display());
            daemon::error::site(
                ErrorCode::NodeDisk,
                message,
                "check the disk of the node's folder, then repeat the command",
            )
        };
        let _alone = self.moving.lock().unwrap_or_else(PoisonError::into_inner);
        let text = disk::read(&self.moved).map_err(failed)?.unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let changed = wire::data::moved::with(&text, instance, moved.fragment, &moved.address);
        changed.map_or(Ok(()), |text| disk::replace(&self.moved, text.as_bytes())).map_err(failed)
    }

    /// With its roles; takes up what an earlier life of the node kept.
    ///
    /// # Errors
    /// See [`NodeError`].
    pub(crate) fn open(folder: &NodeFolder, config: &Config) -> Result<Node, NodeError> {
        let cluster = config.cluster.as_ref();
        // What a node makes is for nobody but itself and its processes, unless it says otherwise.
        rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o077));
        let shares = Shares::new(cluster.and_then(|cluster| cluster.stage_bandwidth));
        // Storage first: mounts that are made anew need it.
        let storage = open_storage(folder, config, &shares)?;
        if let Some(cluster) = &config.cluster {
            make_mount_root(cluster)?;
        }
        let compute = match config.roles.contains(&NodeRole::Compute) {
            true => Some(open_mounts(folder).map_err(NodeError::Compute)?),
            false => None,
        };
        let stages = open_stages(folder, config, storage.as_ref(), shares).map_err(NodeError::Compute)?;
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
    pub(crate) async fn close(&self) {
        self.stages.shutdown().await;
        if let Some(storage) = &self.storage
            && let Err(error) = storage.shutdown().await
        {
            tracing::error!(%error, "cannot close the fragments cleanly");
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
            knows: [ROOT_SQUASH, ENCRYPT].map(str::to_owned).into(),
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
            user(ErrorCode::NoLocals, message, "set local_capacity in its configuration")
        })
    }

    fn no_role(&self, role: &str) -> ApiError {
        user(
            ErrorCode::NoSuchRole,
            format!("node {} has no {role} role", self.name),
            "start it with that role",
        )
    }
}

fn open_storage(
    folder: &NodeFolder,
    config: &Config,
    shares: &Arc<Shares>,
) -> Result<Option<Storage>, NodeError> {
    // Also a node of jobs alone stores what is striped over the flash of a job's own nodes.
    let cluster = config.cluster.as_ref();
    let gives_flash = cluster.is_some_and(|cluster| cluster.local.is_some());
    if !config.roles.contains(&NodeRole::Storage) && !gives_flash {
        return Ok(None);
    }
    let movers = Movers {
        program: daemon::spawn::sibling("forebay-stage").map_err(NodeError::Compute)?,
        shares: Arc::clone(shares),
        // On one machine who runs control is who runs this node.
        as_root: cluster.is_none_or(|cluster| cluster.movers_as_root),
        pfs_roots: pfs_roots(config),
    };
    let listen = match &config.cluster {
        Some(Cluster { listen: Some(ip), data_port, .. }) => Listen { ip: *ip, port: *data_port },
        _ => Listen { ip: Ipv4Addr::LOCALHOST.into(), port: None },
    };
    // Where there is no control to speak to, nobody says more of the parts than they do.
    let waits = cluster.is_some_and(|cluster| cluster.control.is_some());
    Ok(Some(Storage::open(folder, &config.name, listen, (movers, waits))?))
}

fn open_mounts(folder: &NodeFolder) -> io::Result<Mounts<KernelTable>> {
    let program = daemon::spawn::sibling("forebay-mount")?;
    Mounts::open(mounts::Setting { folder: folder.mounts(), program, table: KernelTable })
}

fn open_stages(
    folder: &NodeFolder,
    config: &Config,
    storage: Option<&Storage>,
    shares: Arc<Shares>,
) -> io::Result<Stages> {
    let program = daemon::spawn::sibling("forebay-stage")?;
    let data_address = storage.map(|storage| storage.address().tcp.clone());
    let workers = Workers { program, data_address, pfs_roots: pfs_roots(config) };
    Stages::open(stages::Setting { folder: folder.stages(), workers, shares })
}

fn pfs_roots(config: &Config) -> Vec<PathBuf> {
    config.cluster.as_ref().map_or_else(Vec::new, |cluster| cluster.pfs_roots.clone())
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
    disk::make_passable(&cluster.mount_root)
        .map_err(|source| NodeError::MountRoot { path: cluster.mount_root.clone(), source })
}
