//! The mounts of this node, by id: one supervising task each ([`supervisor`]); this table hands requests to them.

mod launch;
mod renewing;
mod sharing;
mod supervisor;

use std::collections::HashMap;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use daemon::error::{bug, site, user};
use tokio::sync::watch;
use wire::control::{ApiError, ErrorCode};
use wire::node::{MountSpec, MountStatus, NamespaceTarget};

use crate::folder::of_id;
use crate::keep;
use crate::keyed_locks::KeyedLocks;
use crate::mount_table::MountTable;
use supervisor::{Orders, Supervisor, View};

pub(crate) use supervisor::Wanted;

/// How long a request waits for a mount that was lost to come back. Longer than one attempt ([`launch::READY_WITHIN`]).
const MOUNTED_WITHIN: Duration = Duration::from_secs(45);

/// Where mounts are kept and what makes them.
#[derive(Clone, Debug)]
pub(crate) struct Setting<T> {
    /// A folder for each mount is made here.
    pub folder: PathBuf,
    /// The mount program, `forebay-mount`.
    pub program: PathBuf,
    /// The kernel's mount table.
    pub table: T,
}

/// All mounts of a node.
pub(crate) struct Mounts<T: MountTable> {
    setting: Arc<Setting<T>>,
    mounts: Arc<Mutex<HashMap<String, Handle>>>,
    locks: KeyedLocks,
}

/// The requests' end of one supervisor.
#[derive(Clone)]
struct Handle {
    spec: MountSpec,
    view: watch::Receiver<View>,
    orders: Arc<watch::Sender<Orders>>,
}

impl<T: MountTable> Mounts<T> {
    /// Takes up every mount that an earlier life of this node kept: living ones are watched again, others made anew.
    ///
    /// # Errors
    /// The folder cannot be used.
    pub(crate) fn open(setting: Setting<T>) -> io::Result<Mounts<T>> {
        let mounts =
            Mounts { setting: Arc::new(setting), mounts: Arc::default(), locks: KeyedLocks::default() };
        for (folder, spec) in keep::folders(&mounts.setting.folder)? {
            mounts.start(spec, folder);
        }
        Ok(mounts)
    }

    /// Mounts `spec`, if it is not, and replies when it is mounted.
    ///
    /// # Errors
    /// Another mount has the id, or the mount failed; then it is forgotten.
    pub(crate) async fn create(&self, spec: MountSpec) -> Result<MountStatus, ApiError> {
        let folder = of_id(&self.setting.folder, &spec.id)?;
        let Handle { mut view, orders, .. } = self.find_or_start(spec).await?;
        let stays = || orders.borrow().wanted == Wanted::Mounted;
        let settled = view
            .wait_for(|view| view.status.mounted && stays() || view.stuck.is_some() || view.end.is_some());
        let Ok(settled) = tokio::time::timeout(MOUNTED_WITHIN, settled).await else {
            return Err(not_back(&view.borrow().status, &folder));
        };
        let view = settled.map_err(|_| lost())?;
        match (&view.end, &view.stuck) {
            (Some(Err(error)), _) => Err(error.clone()),
            (Some(Ok(())), _) => Err(user(
                ErrorCode::MountDeleted,
                format!("mount {} was deleted meanwhile", view.status.id),
                "mount again",
            )),
            (None, Some(stuck)) => Err(stuck.error.clone()),
            (None, None) => Ok(view.status.clone()),
        }
    }

    /// Unmounts `id` and forgets it; nothing to do where there is none. Replies when it is done.
    ///
    /// # Errors
    /// It cannot be unmounted: then it is still known, and the next call tries again.
    pub(crate) async fn delete(&self, id: &str, wanted: Wanted) -> Result<(), ApiError> {
        let Some(Handle { mut view, orders, .. }) = self.find_locked(id).await? else { return Ok(()) };
        let mut asked = 0;
        orders.send_modify(|orders| {
            orders.wanted.press(wanted);
            orders.asked += 1;
            asked = orders.asked;
        });
        let failed = |view: &View| {
            let stuck = view.stuck.clone().filter(|stuck| view.end.is_none() && stuck.asked >= asked);
            stuck.map(|stuck| stuck.error)
        };
        let tried = view.wait_for(|view| view.end.is_some() || failed(view).is_some()).await;
        let tried = tried.map_err(|_| lost())?;
        failed(&tried).map_or(Ok(()), Err)
    }

    /// Every mount.
    pub(crate) fn statuses(&self) -> Vec<MountStatus> {
        let mut all: Vec<MountStatus> =
            self.lock().values().map(|handle| handle.view.borrow().status.clone()).collect();
        all.sort_by(|a, b| a.id.cmp(&b.id));
        all
    }

    /// The mount `id`, also one that could not be taken up when the node started.
    fn find(&self, id: &str) -> Result<Option<Handle>, ApiError> {
        let folder = of_id(&self.setting.folder, id)?;
        let known = self.lock().get(id).cloned();
        if known.is_some() {
            return Ok(known);
        }
        let kept: Option<MountSpec> = keep::find_for(&format!("mount {id}"), &folder)?;
        Ok(kept.map(|spec| self.start(spec, folder)))
    }

    async fn find_or_start(&self, spec: MountSpec) -> Result<Handle, ApiError> {
        let id = spec.id.clone();
        let _lock = self.locks.lock(&id).await;
        let folder = of_id(&self.setting.folder, &id)?;
        if let Some(handle) = self.find(&id)? {
            // Fragments may have moved since, and their keys may be changed at this moment.
            let (nodes, credential) = (spec.target.nodes.clone(), spec.target.credential.clone());
            let target = NamespaceTarget { nodes, credential, ..handle.spec.target.clone() };
            if (MountSpec { target, ..handle.spec.clone() }) == spec {
                return Ok(handle);
            }
            return Err(user(
                ErrorCode::MountDiffers,
                format!("mount {id} exists with another specification"),
                "delete it first",
            ));
        }
        keep_spec(&spec, &folder).map_err(|error| {
            site(
                ErrorCode::NodeDisk,
                format!("keep mount {id} in {}: {error}", folder.display()),
                "check the state folder's disk",
            )
        })?;
        Ok(self.start(spec, folder))
    }

    async fn find_locked(&self, id: &str) -> Result<Option<Handle>, ApiError> {
        let _lock = self.locks.lock(id).await;
        self.find(id)
    }

    /// Starts the supervisor. It takes itself out of the table before it tells its end, so that whoever hears of the
    /// end can mount again.
    fn start(&self, spec: MountSpec, folder: PathBuf) -> Handle {
        let (ordered, orders) = watch::channel(Orders { wanted: Wanted::Mounted, asked: 0 });
        let (shown, view) = watch::channel(View::new(&spec));
        let id = spec.id.clone();
        let handle = Handle { spec: spec.clone(), view, orders: Arc::new(ordered) };
        self.lock().insert(id.clone(), handle.clone());
        let supervisor = Supervisor::new(Arc::clone(&self.setting), spec, folder, shown.clone(), orders);
        let mounts = Arc::clone(&self.mounts);
        tokio::spawn(async move {
            let end = supervisor.run().await;
            mounts.lock().unwrap_or_else(PoisonError::into_inner).remove(&id);
            shown.send_modify(|view| {
                view.status.mounted = false;
                view.end = Some(end);
            });
        });
        handle
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<String, Handle>> {
        self.mounts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn keep_spec(spec: &MountSpec, folder: &std::path::Path) -> io::Result<()> {
    std::fs::create_dir_all(folder)?;
    keep::write(&folder.join("spec.json"), spec)
}

fn lost() -> ApiError {
    bug(ErrorCode::MountLost, "the supervisor of a mount ended")
}

fn not_back(status: &MountStatus, folder: &std::path::Path) -> ApiError {
    let why = status.error.as_deref().unwrap_or("its process does not become ready");
    let message =
        format!("mount {} at {} is lost and not back yet: {why}", status.id, status.mountpoint.display());
    site(
        ErrorCode::MountLost,
        message,
        format!("look into {}; the node keeps trying", folder.join("log").display()),
    )
}

#[cfg(test)]
mod tests;
