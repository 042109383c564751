//! Private volumes on this node's own flash, one for each job that asks: at `LOCAL_ROOT/USER`, of the user alone, with
//! no file system of ours in the way.
//!
//! ```text
//! NODE/locals/ID/spec.json     what was asked for, and whether the job has ended
//! NODE/locals/ID/request.json  the drain that its user asked for in it, as it was last seen there
//! NODE/locals.noted/ID         that it was made and not discarded
//! NODE/locals/ID/volume.img    the volume's bytes, unless they are elsewhere: see [`backing`]
//! MOUNT_ROOT/local-NODE-ID     where it is mounted as long as it is there
//! LOCAL_ROOT/USER              the same, until the job ends
//! ```
//!
//! **Invariant:** a volume whose user asked for its drain is discarded only after the drainer said that every file is
//! on the PFS, verified. Until then it is kept, listed, and drained on, also by later lives of the node.

pub(crate) mod backing;
mod cgroup;
mod keeper;
mod making;
mod noted;
mod user_path;
mod volume;

use std::collections::HashMap;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use daemon::error::site;
use model::NodeName;
use serde::{Deserialize, Serialize};
use store::image::{VolumeError, failed};
use tokio::sync::watch;
use wire::control::{ApiError, ErrorCode};
use wire::node::{LocalSpace, LocalSpec, LocalStatus};

use crate::folder::of_id;
use crate::keep;
use crate::keyed_locks::KeyedLocks;
use backing::Kind;
use keeper::Keeper;
use noted::Noted;
use user_path::UserPathsLock;
use volume::Volume;

/// Where volumes are, and how much they may take.
#[derive(Clone, Debug)]
pub(crate) struct Setting {
    /// The node's name.
    pub node: NodeName,
    /// A folder for each volume is made here.
    pub folder: PathBuf,
    /// What new volumes are made of.
    pub kind: Kind,
    /// Where volumes are mounted as long as they are there; others pass through it.
    pub mount_root: PathBuf,
    /// Where users find their volumes.
    pub local_root: PathBuf,
    /// Bytes of the flash that are never handed out.
    pub reserve_bytes: u64,
    /// Bytes of a volume where nobody said how many.
    pub capacity_bytes: u64,
    /// The drainer, `forebay-drain`.
    pub program: PathBuf,
    /// The weight of the drainers' cgroup, 100 being any other's; `None`: they have none of their own.
    pub drain_weight: Option<u32>,
}

/// All volumes of a node.
pub(crate) struct Locals {
    setting: Arc<Setting>,
    locals: Mutex<HashMap<String, Handle>>,
    /// When how many bytes one more volume could hold; `None`: that has changed.
    free: Mutex<Option<(Instant, u64)>>,
    /// One volume is made at a time: two must not take the same rest of the flash.
    making: tokio::sync::Mutex<()>,
    /// Of the calls for one volume.
    locks: KeyedLocks,
    /// Of the volumes at their users' paths.
    user_paths: UserPathsLock,
}

/// What is kept of a volume.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Kept {
    #[serde(with = "kept::form")]
    spec: LocalSpec,
    capacity_bytes: u64,
    released: bool,
    /// Whether what is in it is given up.
    #[serde(default)]
    given_up: bool,
    /// What it is made of, whatever new ones are made of by now.
    #[serde(default)]
    kind: Kind,
}

/// Who a volume is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Life {
    /// Its user's job.
    Held,
    /// Nobody: it is drained, then discarded.
    Released,
    /// Nobody: it is discarded.
    GivenUp,
}

/// The requests' end of one volume.
struct Handle {
    spec: LocalSpec,
    kind: Kind,
    status: watch::Receiver<LocalStatus>,
    life: watch::Sender<Life>,
}

impl Kept {
    fn life(&self) -> Life {
        match (self.given_up, self.released) {
            (true, _) => Life::GivenUp,
            (false, true) => Life::Released,
            (false, false) => Life::Held,
        }
    }
}

impl Locals {
    /// Takes up every volume that an earlier life of this node kept: mounted again where a reboot has unmounted them.
    ///
    /// # Errors
    /// The folder cannot be used, or the kernel or the tools lack what volumes are made of.
    pub(crate) fn open(setting: Setting) -> Result<Arc<Locals>, VolumeError> {
        let folder = setting.folder.clone();
        let unusable = |error| failed("use the folder", &folder, error);
        std::fs::create_dir_all(&folder).map_err(unusable)?;
        setting.kind.backing(&folder).open()?;
        let locals = Locals::without_any(setting);
        locals.take_up_all().map_err(unusable)?;
        Ok(locals)
    }

    fn without_any(setting: Setting) -> Arc<Locals> {
        Arc::new(Locals {
            setting: Arc::new(setting),
            locals: Mutex::default(),
            free: Mutex::default(),
            making: tokio::sync::Mutex::new(()),
            locks: KeyedLocks::default(),
            user_paths: UserPathsLock::default(),
        })
    }

    fn take_up_all(self: &Arc<Self>) -> io::Result<()> {
        // A folder without a specification that has the image of a volume stays.
        for (_, kept) in keep::folders(&self.setting.folder)? {
            self.note(&kept);
            self.take_up(kept);
        }
        Ok(())
    }

    /// Notes what an earlier life has left, which may not have done so.
    fn note(&self, kept: &Kept) {
        let id = &kept.spec.id;
        let noted = || Noted::of(&self.setting.folder, id).put();
        // A full disk keeps no node from starting.
        if kept.life() != Life::GivenUp
            && let Err(error) = noted()
        {
            tracing::warn!(id, %error, "cannot note that there is a volume");
        }
    }

    /// Takes the volume from its user; it is drained, if that was asked for and what is in it is not `given_up`, and
    /// discarded. Nothing to do where there is none.
    ///
    /// # Errors
    /// The node's disk failed, or what is kept of it cannot be read.
    pub(crate) async fn release(self: &Arc<Self>, id: &str, given_up: bool) -> Result<(), ApiError> {
        // It may just be being made for somebody who does not wait for it any more.
        let _lock = self.locks.lock(id).await;
        match self.find(id) {
            // What comes back with its disk is kept and listed: nobody asks for it any more.
            Err(error) if given_up && error.code == ErrorCode::LocalAway => {
                tracing::warn!(id, %error, "gave up a volume that is not there");
                return Ok(());
            }
            found => found?,
        }
        let locals = self.lock();
        let Some(handle) = locals.get(id) else { return Ok(()) };
        let life = if given_up { Life::GivenUp } else { Life::Released };
        if *handle.life.borrow() >= life {
            return Ok(());
        }
        let kept = Kept {
            spec: handle.spec.clone(),
            capacity_bytes: handle.status.borrow().capacity_bytes,
            released: true,
            given_up,
            kind: handle.kind.clone(),
        };
        let file = of_id(&self.setting.folder, id)?.join("spec.json");
        keep::write(&file, &kept).map_err(|error| {
            let message = format!("keep {}: {error}", file.display());
            site(ErrorCode::NodeDisk, message, "check the state folder's disk")
        })?;
        handle.life.send_replace(life);
        Ok(())
    }

    /// How much flash there is for volumes.
    ///
    /// # Errors
    /// The flash cannot be asked.
    pub(crate) async fn space(&self) -> Result<LocalSpace, ApiError> {
        let allocated_bytes = self.lock().values().map(|handle| handle.status.borrow().capacity_bytes).sum();
        Ok(LocalSpace { allocated_bytes, free_bytes: self.free_bytes().await? })
    }

    /// How many bytes one more volume may hold. Control asks every second; where that costs processes it is not
    /// measured so often.
    async fn free_bytes(&self) -> Result<u64, ApiError> {
        let fresh_for = self.setting.kind.fresh_for();
        if let Some((at, bytes)) = *self.lock_free()
            && at.elapsed() < fresh_for
        {
            return Ok(bytes);
        }
        let setting = Arc::clone(&self.setting);
        let measured = tokio::task::spawn_blocking(move || volume::free(&setting)).await;
        let bytes = measured.expect("the measurement does not panic")?;
        *self.lock_free() = Some((Instant::now(), bytes));
        Ok(bytes)
    }

    /// Every volume.
    pub(crate) fn statuses(&self) -> Vec<LocalStatus> {
        let mut all: Vec<LocalStatus> =
            self.lock().values().map(|handle| handle.status.borrow().clone()).collect();
        all.sort_by(|a, b| a.id.cmp(&b.id));
        all
    }

    /// Takes up the volume `id` where that could not be done when the node started.
    fn find(self: &Arc<Self>, id: &str) -> Result<(), ApiError> {
        let folder = of_id(&self.setting.folder, id)?;
        if self.lock().contains_key(id) {
            return Ok(());
        }
        match keep::find_for(&format!("volume {id}"), &folder)? {
            Some(kept) => drop(self.take_up(kept)),
            None => Noted::of(&self.setting.folder, id).check_gone()?,
        }
        Ok(())
    }

    /// Its keeper mounts it.
    fn take_up(self: &Arc<Self>, kept: Kept) -> LocalStatus {
        let id = kept.spec.id.clone();
        let mut locals = self.lock();
        let handle = self.start(kept);
        let status = handle.status.borrow().clone();
        locals.insert(id, handle);
        status
    }

    fn start(self: &Arc<Self>, kept: Kept) -> Handle {
        let volume = Volume::of(&self.setting, &self.user_paths, &kept);
        let (life, lives) = watch::channel(kept.life());
        let (shown, status) = watch::channel(LocalStatus {
            id: kept.spec.id.clone(),
            path: volume.shown.path.clone(),
            capacity_bytes: kept.capacity_bytes,
            released: kept.released,
            kept: None,
        });
        let keeper =
            Keeper { setting: Arc::clone(&self.setting), spec: kept.spec.clone(), volume, shown, lives };
        let (locals, id) = (Arc::clone(self), kept.spec.id.clone());
        tokio::spawn(async move {
            keeper.run().await;
            *locals.lock_free() = None;
            locals.lock().remove(&id);
        });
        Handle { spec: kept.spec, kind: kept.kind, status, life }
    }

    fn lock_free(&self) -> MutexGuard<'_, Option<(Instant, u64)>> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Handle>> {
        self.locals.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
