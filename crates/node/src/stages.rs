//! The stages of this node, by id: one task each ([`coordinator`]) runs the stage's worker; this table hands requests
//! to them.

mod clearing;
mod coordinator;
mod deleted;
mod kept;
mod patience;
pub(crate) mod shares;
pub(crate) mod worker;

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use daemon::error::{bug, site, user};
use model::phase::StageState;
use tokio::sync::watch;
use wire::control::{ApiError, ErrorCode, StageStatus};
use wire::node::{StageControl, StageSpec};

use crate::folder::of_id;
use crate::keep;
use crate::keyed_locks::KeyedLocks;
use coordinator::{Coordinator, Orders, Stop};
use shares::Shares;

/// What a stage was told, in its folder.
const CONTROL: &str = "control.json";

/// How it ended, in its folder.
const REPORT: &str = "report.json";

/// Where stages are kept and what runs them.
#[derive(Clone, Debug)]
pub(crate) struct Setting {
    /// A folder for each stage is made here.
    pub folder: PathBuf,
    /// What they are worked on by.
    pub workers: worker::Workers,
    /// The bandwidth that they share.
    pub shares: Arc<Shares>,
}

/// All stages of a node.
#[derive(Clone)]
pub(crate) struct Stages {
    setting: Arc<Setting>,
    stages: Arc<Mutex<HashMap<String, Handle>>>,
    locks: Arc<KeyedLocks>,
}

/// The requests' end of one stage.
#[derive(Clone)]
struct Handle {
    spec: StageSpec,
    status: watch::Receiver<StageStatus>,
    stop: watch::Sender<Stop>,
    control: watch::Sender<StageControl>,
}

impl Stages {
    /// Takes up every stage that an earlier life of this node kept: finished ones with their report, others go on from
    /// their journal, and those that were being deleted are.
    ///
    /// # Errors
    /// The folder cannot be used.
    pub(crate) fn open(setting: Setting) -> io::Result<Stages> {
        let stages = Stages { setting: Arc::new(setting), stages: Arc::default(), locks: Arc::default() };
        for (folder, spec) in keep::folders::<StageSpec>(&stages.setting.folder)? {
            let id = spec.id.clone();
            let is_going = deleted::is_marked(&folder).unwrap_or(false);
            stages.start(spec, folder);
            if is_going {
                stages.remove_begun(id);
            }
        }
        Ok(stages)
    }

    /// Starts `spec`, if it was not, and says at once how far it is.
    ///
    /// # Errors
    /// Another stage has the id, it is being removed, or the node's disk failed.
    pub(crate) async fn create(&self, spec: StageSpec) -> Result<StageStatus, ApiError> {
        let _lock = self.locks.lock(&spec.id).await;
        self.find_or_start(spec).await
    }

    /// Starts a stage that failed again, with its journal: what that has as done is not copied again. Otherwise as
    /// [`Stages::create`].
    ///
    /// # Errors
    /// As there.
    pub(crate) async fn retry(&self, spec: StageSpec) -> Result<StageStatus, ApiError> {
        let _lock = self.locks.lock(&spec.id).await;
        let folder = of_id(&self.setting.folder, &spec.id)?;
        kept::check(&spec.id, &folder)?;
        let report = folder.join(REPORT);
        let has_failed = match self.get(&spec.id) {
            Some(_) => {
                let has_failed = |handle: &Handle| handle.status.borrow().state == StageState::Failed;
                self.stop_to_restart(&spec.id, has_failed).await
            }
            None => kept::has_failed(&report)?,
        };
        if has_failed {
            on_disk(move || disk::remove_file(&report).map_err(tried("remove", &report))).await?;
        }
        self.find_or_start(spec).await
    }

    async fn find_or_start(&self, spec: StageSpec) -> Result<StageStatus, ApiError> {
        let folder = of_id(&self.setting.folder, &spec.id)?;
        self.end_passes(&spec).await;
        if let Some(handle) = self.get(&spec.id).filter(|handle| *handle.stop.borrow() != Stop::ForNow) {
            if *handle.stop.borrow() == Stop::ForGood {
                return Err(going(&spec.id));
            }
            if kept::is_same(&handle.spec, &spec) {
                return Ok(handle.status.borrow().clone());
            }
            let message = format!("stage {} exists with another specification", spec.id);
            return Err(user(ErrorCode::StageDiffers, message, "delete it first"));
        }
        kept::check(&spec.id, &folder)?;
        let (kept, into) = (spec.clone(), folder.clone());
        on_disk(move || kept::write(&kept, &into).map_err(tried("keep a stage in", &into))).await?;
        let status = self.start(spec, folder).status.borrow().clone();
        Ok(status)
    }

    /// Stops the passes of a stage that is now to be brought to its end, or to go on with another credential. Its
    /// journal stays.
    async fn end_passes(&self, spec: &StageSpec) {
        let names = |spec: &StageSpec| (spec.direction, spec.source.clone(), spec.destination.clone());
        let meant = |handle: &Handle| {
            let old = &handle.spec;
            let is_other = !spec.policy.while_running || old.target.credential != spec.target.credential;
            old.policy.while_running && is_other && names(old) == names(spec)
        };
        self.stop_to_restart(&spec.id, meant).await;
    }

    /// Stops the worker of a stage, if it is one of these and not being removed, so that it can be started anew.
    /// Whether it did.
    async fn stop_to_restart(&self, id: &str, is_meant: impl Fn(&Handle) -> bool) -> bool {
        let is_meant = |handle: &Handle| *handle.stop.borrow() != Stop::ForGood && is_meant(handle);
        let Some(handle) = self.get(id).filter(is_meant) else { return false };
        handle.stop(Stop::ForNow).await;
        true
    }

    /// How far the stage `id` is.
    ///
    /// # Errors
    /// `no_such_stage`.
    pub(crate) fn status(&self, id: &str) -> Result<StageStatus, ApiError> {
        let unknown =
            || user(ErrorCode::NoSuchStage, format!("stage {id} is not known here"), "start it again");
        self.get(id).map(|handle| handle.status.borrow().clone()).ok_or_else(unknown)
    }

    /// Changes the pace of stage `id`, also for the node's next life.
    ///
    /// # Errors
    /// `no_such_stage`, or the node's disk failed.
    pub(crate) async fn control(&self, id: &str, control: StageControl) -> Result<StageStatus, ApiError> {
        let _lock = self.locks.lock(id).await;
        let status = self.status(id)?;
        let path = of_id(&self.setting.folder, id)?.join(CONTROL);
        on_disk(move || keep::write(&path, &control).map_err(tried("keep a stage's pace in", &path))).await?;
        if let Some(handle) = self.get(id) {
            handle.control.send_replace(control);
        }
        Ok(status)
    }

    /// Stops the worker of stage `id`, removes what is left of the stage, and forgets it then; nothing to do where
    /// there is none.
    ///
    /// # Errors
    /// The node's disk failed: the stage is still known, does not run any more, and the next call goes on.
    pub(crate) async fn delete(&self, id: &str) -> Result<(), ApiError> {
        let folder = of_id(&self.setting.folder, id)?;
        let _lock = self.locks.lock(id).await;
        let handle = self.get(id);
        if handle.is_none() && keep::find_for::<StageSpec>(&format!("stage {id}"), &folder)?.is_none() {
            return Ok(());
        }
        let stopped = handle.map(|handle| handle.stop(Stop::ForGood));
        // Files may have changed since it copied them: whatever cuts this short, no later life of the node runs it.
        let mark = folder.clone();
        on_disk(move || deleted::mark(&mark).map_err(tried("note that a stage is deleted in", &mark)))
            .await?;
        if let Some(stopped) = stopped {
            stopped.await;
        }
        clearing::clear(&self.setting.workers, &folder).await;
        on_disk(move || keep::remove(&folder).map_err(tried("remove", &folder))).await?;
        self.lock().remove(id);
        Ok(())
    }

    /// Stops every worker; the next life of the node goes on from their journals.
    pub(crate) async fn shutdown(&self) {
        let handles: Vec<Handle> = self.lock().drain().map(|(_, handle)| handle).collect();
        // All are told before the first is waited for.
        for handle in &handles {
            drop(handle.stop(Stop::ForNow));
        }
        for handle in handles {
            handle.stop(Stop::ForNow).await;
        }
    }

    /// Every stage.
    pub(crate) fn statuses(&self) -> Vec<StageStatus> {
        let mut all: Vec<StageStatus> =
            self.lock().values().map(|handle| handle.status.borrow().clone()).collect();
        all.sort_by(|a, b| a.id.cmp(&b.id));
        all
    }

    fn start(&self, spec: StageSpec, folder: PathBuf) -> Handle {
        let (stop, stopped) = watch::channel(Stop::No);
        let kept = keep::read(&folder.join(CONTROL)).unwrap_or_else(|error| {
            // Its owner may have paused it: it waits until somebody says how it is to go on.
            tracing::error!(stage = spec.id, %error, "cannot read the pace of a stage: it is paused");
            Some(StageControl { paused: true, ..StageControl::default() })
        });
        let (control, controlled) = watch::channel(kept.unwrap_or_default());
        let orders = Orders { stop: stopped, control: controlled };
        let (shown, status) = watch::channel(coordinator::pending(&spec));
        let coordinator = Coordinator::new(Arc::clone(&self.setting), spec.clone(), folder, shown, orders);
        let handle = Handle { spec, status, stop, control };
        self.lock().insert(handle.spec.id.clone(), handle.clone());
        tokio::spawn(coordinator.run());
        handle
    }

    /// Goes on with the removal of a stage that an earlier life of the node began.
    fn remove_begun(&self, id: String) {
        let stages = self.clone();
        tokio::spawn(async move {
            if let Err(error) = stages.delete(&id).await {
                tracing::error!(stage = id, %error, "cannot remove a stage that was deleted; delete it again");
            }
        });
    }

    fn get(&self, id: &str) -> Option<Handle> {
        self.lock().get(id).cloned()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Handle>> {
        self.stages.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Handle {
    /// Tells the stage to end; what this replies completes when it has, also by a panic of its task, which has been
    /// logged: its worker then ends with its broken pipe.
    fn stop(&self, how: Stop) -> impl Future<Output = ()> + use<> {
        self.stop.send_if_modified(|now| {
            let is_more = *now < how;
            *now = (*now).max(how);
            is_more
        });
        let mut status = self.status.clone();
        async move { while status.changed().await.is_ok() {} }
    }
}

/// A stage that is being removed is not one that can be started.
fn going(id: &str) -> ApiError {
    let message = format!("stage {id} is being deleted, and something of it is still there");
    site(ErrorCode::StageGoing, message, "delete it again, which says what is in the way; then start it")
}

/// An error of the state folder's disk.
fn tried(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> ApiError {
    move |error| {
        let message = format!("{what} {}: {error}", path.display());
        site(ErrorCode::NodeDisk, message, "check the state folder's disk, then repeat the command")
    }
}

/// Runs `work` on a thread that may block: it syncs.
async fn on_disk(work: impl FnOnce() -> Result<(), ApiError> + Send + 'static) -> Result<(), ApiError> {
    tokio::task::spawn_blocking(work)
        .await
        .map_err(|error| bug(ErrorCode::StagePanicked, error.to_string()))?
}

#[cfg(test)]
mod tests;
