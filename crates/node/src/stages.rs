//! The stages of this node, by id: one task each ([`coordinator`]) runs the stage's worker; this table hands requests
//! to them.

mod clearing;
mod coordinator;
mod patience;
pub mod shares;
pub mod worker;

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use daemon::error::{site, user};
use model::phase::StageState;
use tokio::runtime::Handle as Runtime;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use wire::control::{ApiError, StageStatus};
use wire::node::{StageControl, StageSpec};

use crate::folder::of_id;
use crate::keep;
use coordinator::{Coordinator, Orders, Stop};
use shares::Shares;

/// What a stage was told, in its folder.
const CONTROL: &str = "control.json";

/// How it ended, in its folder.
const REPORT: &str = "report.json";

/// Where stages are kept and what runs them.
#[derive(Clone, Debug)]
pub struct Setting {
    /// A folder for each stage is made here.
    pub folder: PathBuf,
    /// The worker program, `forebay-stage`.
    pub program: PathBuf,
    /// Where this node's data path listens, if it has one: the other nodes of a buffer help with its stages.
    pub data_address: Option<String>,
    /// The bandwidth that they share.
    pub shares: Arc<Shares>,
}

/// All stages of a node.
pub struct Stages {
    setting: Arc<Setting>,
    stages: Mutex<HashMap<String, Handle>>,
}

/// The requests' end of one stage.
struct Handle {
    spec: StageSpec,
    status: watch::Receiver<StageStatus>,
    stop: watch::Sender<Stop>,
    control: watch::Sender<StageControl>,
    task: JoinHandle<()>,
}

impl Stages {
    /// Takes up every stage that an earlier life of this node kept: finished ones with their report, others go on from
    /// their journal.
    ///
    /// # Errors
    /// The folder cannot be used.
    pub fn open(setting: Setting) -> io::Result<Stages> {
        let stages = Stages { setting: Arc::new(setting), stages: Mutex::default() };
        for (folder, spec) in keep::folders::<StageSpec>(&stages.setting.folder)? {
            let handle = stages.start(spec.clone(), folder);
            stages.lock().insert(spec.id, handle);
        }
        Ok(stages)
    }

    /// Starts `spec`, if it was not, and says at once how far it is.
    ///
    /// # Errors
    /// Another stage has the id, or the node's disk failed.
    pub fn create(&self, spec: StageSpec) -> Result<StageStatus, ApiError> {
        let folder = of_id(&self.setting.folder, &spec.id)?;
        self.end_passes(&spec);
        let mut stages = self.lock();
        if let Some(handle) = stages.get(&spec.id) {
            if handle.spec == spec {
                return Ok(handle.status.borrow().clone());
            }
            let message = format!("stage {} exists with another specification", spec.id);
            return Err(user("stage_differs", message, "delete it first"));
        }
        keep_spec(&spec, &folder).map_err(|error| {
            let message = format!("keep stage {} in {}: {error}", spec.id, folder.display());
            site("node_disk", message, "check the state folder's disk")
        })?;
        let handle = self.start(spec.clone(), folder);
        let status = handle.status.borrow().clone();
        stages.insert(spec.id, handle);
        Ok(status)
    }

    /// Starts a stage that failed again, with its journal: what that has as done is not copied again. Otherwise as
    /// [`Stages::create`].
    ///
    /// # Errors
    /// As there.
    pub fn retry(&self, spec: StageSpec) -> Result<StageStatus, ApiError> {
        let report = of_id(&self.setting.folder, &spec.id)?.join(REPORT);
        if self.set_aside(&spec.id, |handle| handle.status.borrow().state == StageState::Failed)
            && let Err(error) = disk::remove_file(&report)
        {
            let message = format!("remove {}: {error}", report.display());
            return Err(site("node_disk", message, "check the state folder's disk"));
        }
        self.create(spec)
    }

    /// Stops the passes of a stage that is now to be brought to its end. Its journal stays.
    fn end_passes(&self, spec: &StageSpec) {
        let names = |spec: &StageSpec| (spec.direction, spec.source.clone(), spec.destination.clone());
        self.set_aside(&spec.id, |handle| {
            let old = &handle.spec;
            old.policy.while_running && !spec.policy.while_running && names(old) == names(spec)
        });
    }

    /// Stops the worker of a stage, if it is one of these, and forgets the stage but for its folder. Whether it did.
    fn set_aside(&self, id: &str, is_meant: impl Fn(&Handle) -> bool) -> bool {
        let mut stages = self.lock();
        if !stages.get(id).is_some_and(is_meant) {
            return false;
        }
        let handle = stages.remove(id);
        drop(stages);
        handle.into_iter().for_each(|handle| Runtime::current().block_on(handle.stop(Stop::ForNow)));
        true
    }

    /// How far the stage `id` is.
    ///
    /// # Errors
    /// `no_such_stage`.
    pub fn status(&self, id: &str) -> Result<StageStatus, ApiError> {
        let unknown = || user("no_such_stage", format!("stage {id} is not known here"), "start it again");
        self.lock().get(id).map(|handle| handle.status.borrow().clone()).ok_or_else(unknown)
    }

    /// Changes the pace of stage `id`, also for the node's next life.
    ///
    /// # Errors
    /// `no_such_stage`, or the node's disk failed.
    pub fn control(&self, id: &str, control: StageControl) -> Result<StageStatus, ApiError> {
        let status = self.status(id)?;
        let path = of_id(&self.setting.folder, id)?.join(CONTROL);
        keep::write(&path, &control).map_err(|error| {
            let message = format!("keep the pace of stage {id} in {}: {error}", path.display());
            site("node_disk", message, "check the state folder's disk")
        })?;
        if let Some(handle) = self.lock().get(id) {
            handle.control.send_replace(control);
        }
        Ok(status)
    }

    /// Stops the worker of stage `id` and forgets the stage; nothing to do where there is none.
    ///
    /// # Errors
    /// The node's disk failed.
    pub async fn delete(&self, id: &str) -> Result<(), ApiError> {
        let folder = of_id(&self.setting.folder, id)?;
        let Some(handle) = self.lock().remove(id) else { return Ok(()) };
        handle.stop(Stop::ForGood).await;
        clearing::clear(&self.setting.program, &folder).await;
        keep::remove(&folder).map_err(|error| {
            site(
                "node_disk",
                format!("remove {}: {error}", folder.display()),
                "check the state folder's disk",
            )
        })
    }

    /// Stops every worker; the next life of the node goes on from their journals.
    pub async fn shutdown(&self) {
        let handles: Vec<Handle> = self.lock().drain().map(|(_, handle)| handle).collect();
        // All are told before the first is waited for.
        for handle in &handles {
            handle.stop.send_replace(Stop::ForNow);
        }
        for handle in handles {
            handle.stop(Stop::ForNow).await;
        }
    }

    /// Every stage.
    pub fn statuses(&self) -> Vec<StageStatus> {
        let mut all: Vec<StageStatus> =
            self.lock().values().map(|handle| handle.status.borrow().clone()).collect();
        all.sort_by(|a, b| a.id.cmp(&b.id));
        all
    }

    fn start(&self, spec: StageSpec, folder: PathBuf) -> Handle {
        let (stop, stopped) = watch::channel(Stop::No);
        let kept = keep::read(&folder.join(CONTROL)).unwrap_or_else(|error| {
            // Its owner may have paused it: it waits until somebody says how it is to go on.
            tracing::error!(stage = spec.id, %error, "a stage whose pace cannot be read is paused");
            Some(StageControl { paused: true, ..StageControl::default() })
        });
        let (control, controlled) = watch::channel(kept.unwrap_or_default());
        let orders = Orders { stop: stopped, control: controlled };
        let (shown, status) = watch::channel(coordinator::pending(&spec));
        let coordinator = Coordinator::new(Arc::clone(&self.setting), spec.clone(), folder, shown, orders);
        Handle { spec, status, stop, control, task: tokio::spawn(coordinator.run()) }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Handle>> {
        self.stages.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Handle {
    async fn stop(self, how: Stop) {
        self.stop.send_replace(how);
        // An error would be a panic of the task, which has been logged; its worker then ends with its broken pipe.
        let _ = self.task.await;
    }
}

fn keep_spec(spec: &StageSpec, folder: &Path) -> io::Result<()> {
    std::fs::create_dir_all(folder)?;
    keep::write(&folder.join("spec.json"), spec)
}

#[cfg(test)]
mod tests;
