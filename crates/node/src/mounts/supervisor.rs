//! The task that owns one mount from `PUT` to `DELETE`.
//!
//! ```text
//! (kept from an earlier life) --alive--> Watched <--ready-- Launched <--.
//!                             --dead---> cleared, counted -----^        |
//!                   Watched --its process dies--> Watched, with a successor; if there can be none:
//!                   Watched --its process ends--> cleared, counted, back-off
//!                   any     --unwanted--> SIGTERM, wait while files are open, SIGINT, detach, SIGKILL --> forgotten
//!                                          ^                                                    |
//!                                          '---- asked again, or a pause later <---- it failed <-'
//! ```

mod takeover;
mod unmounting;

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use daemon::error::site;
use daemon::logging::last_words;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use wire::control::{ApiError, ErrorCode};
use wire::node::{MountSpec, MountStatus};

use super::Setting;
use super::launch::{self, NotReady, Resume};
use crate::keep;
use crate::mount_table::MountTable;
use crate::process::{Process, ProcessId};
use takeover::Hold;

/// Pauses before a mount is made anew a second time, a third time, …: the first time is at once, as programs fail
/// meanwhile; bounded, as each costs a process.
const BACK_OFF: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(10));

/// A mount that lived this long was well: the next loss is answered at once again.
const HEALTHY: Duration = Duration::from_secs(30);

/// What is kept of a mount, in its folder.
const KEPT: &str = "kept.json";

/// What the requests want of a mount. Becomes only more urgent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// Keep it mounted.
    Mounted,
    /// Take it out of the tree at once; files that are open may stay so for this time.
    UnmountedWithin(Duration),
}

impl Wanted {
    /// Takes the more urgent of the two; replies whether that is the new one.
    pub(crate) fn press(&mut self, new: Wanted) -> bool {
        let more = match (*self, new) {
            (_, Wanted::Mounted) => false,
            (Wanted::Mounted, Wanted::UnmountedWithin(_)) => true,
            (Wanted::UnmountedWithin(old), Wanted::UnmountedWithin(new)) => new < old,
        };
        if more {
            *self = new;
        }
        more
    }
}

/// What the requests have said of a mount.
#[derive(Clone, Copy, Debug)]
pub(super) struct Orders {
    /// What they want.
    pub wanted: Wanted,
    /// How many have asked that it be unmounted.
    pub asked: u64,
}

/// Why a mount that is to go is still there.
#[derive(Clone, Debug)]
pub(super) struct Stuck {
    /// [`Orders::asked`] when it was tried.
    pub asked: u64,
    /// What failed.
    pub error: ApiError,
}

/// What the requests see of a mount.
#[derive(Clone, Debug)]
pub(super) struct View {
    /// For replies.
    pub status: MountStatus,
    /// How the last try to unmount it failed; it is tried again.
    pub stuck: Option<Stuck>,
    /// Set once, last: the mount is forgotten; `Err` where it did not come to be.
    pub end: Option<Result<(), ApiError>>,
}

impl View {
    /// Before anything happened.
    pub(super) fn new(spec: &MountSpec) -> View {
        let status = MountStatus {
            id: spec.id.clone(),
            mountpoint: spec.mountpoint.clone(),
            mounted: false,
            pid: None,
            interruptions: 0,
            error: None,
        };
        View { status, stuck: None, end: None }
    }
}

/// What a restart of the node must know beside the specification.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Kept {
    process: Option<ProcessId>,
    /// Once true, a lost mount is made anew instead of given up.
    was_mounted: bool,
    interruptions: u32,
    /// The mount point was missing, so it is ours to remove.
    made_folder: bool,
    /// We may have mounted there, so what is mounted there is ours to clear.
    launched: bool,
}

/// Owns one mount.
pub(super) struct Supervisor<T: MountTable> {
    setting: Arc<Setting<T>>,
    spec: MountSpec,
    folder: PathBuf,
    kept: Kept,
    /// Whether `kept` is what an earlier life of the node has kept.
    knows: bool,
    hold: Hold,
    shown: watch::Sender<View>,
    orders: watch::Receiver<Orders>,
}

impl<T: MountTable> Supervisor<T> {
    /// For the mount kept in `folder`, whose specification is there already.
    pub(super) fn new(
        setting: Arc<Setting<T>>,
        spec: MountSpec,
        folder: PathBuf,
        shown: watch::Sender<View>,
        orders: watch::Receiver<Orders>,
    ) -> Supervisor<T> {
        let (kept, hold) = (Kept::default(), Hold::default());
        Supervisor { setting, spec, folder, kept, knows: false, hold, shown, orders }
    }

    /// Runs until the mount is forgotten.
    ///
    /// # Errors
    /// The first attempt to mount failed.
    pub(super) async fn run(mut self) -> Result<(), ApiError> {
        let mut orders = self.orders.clone();
        let failed = tokio::select! {
            reason = self.keep_mounted() => Some(self.not_mounted(&reason)),
            _ = orders.wait_for(|orders| orders.wanted != Wanted::Mounted) => None,
        };
        self.forget(failed.as_ref()).await;
        failed.map_or(Ok(()), Err)
    }

    /// Reads what an earlier life of the node has kept. Until that can be read, nothing is touched: a mount may be
    /// there that works, with a job in it.
    fn read_kept(&mut self) -> io::Result<()> {
        if !self.knows {
            self.kept = keep::read(&self.folder.join(KEPT))?.unwrap_or_default();
            self.knows = true;
        }
        Ok(())
    }

    /// [`Supervisor::read_kept`], again and again until it can be read.
    async fn learn(&mut self) {
        while let Err(error) = self.read_kept() {
            tracing::error!(mount = self.spec.id, %error, "cannot read what is kept of a mount; it is left alone");
            self.show_error(&error.to_string());
            tokio::time::sleep(BACK_OFF.1).await;
        }
    }

    /// Mounts, watches and mounts anew. Returns only why the very first attempt failed. May be dropped at any await:
    /// what was started is in `kept`.
    async fn keep_mounted(&mut self) -> String {
        self.learn().await;
        let mut pause = Duration::ZERO;
        let mut process = self.adopt().await;
        loop {
            let mounted_at = Instant::now();
            match process.take() {
                Some(running) => {
                    self.show_mounted();
                    running.ended().await;
                    process = self.take_over(mounted_at.elapsed()).await;
                    if process.is_some() {
                        continue;
                    }
                    self.lost().await;
                    pause = if mounted_at.elapsed() > HEALTHY { Duration::ZERO } else { pause };
                }
                None => match self.mount().await {
                    Ok(started) => {
                        process = Some(started);
                        continue;
                    }
                    Err(reason) if !self.kept.was_mounted => return reason,
                    Err(reason) => self.show_error(&reason),
                },
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).clamp(BACK_OFF.0, BACK_OFF.1);
        }
    }

    /// The mount that an earlier life of the node left, if it still works; else its remains are cleared.
    async fn adopt(&mut self) -> Option<Process> {
        let process = self.living().await;
        // Where nobody knows, a process that lives is not killed: if nothing is mounted it ends by itself.
        let mounted = self.setting.table.is_mounted(&self.spec.mountpoint).unwrap_or(true);
        match process {
            Some(process) if mounted => {
                tracing::info!(mount = self.spec.id, "found alive");
                self.kept.was_mounted = true;
                self.hold().await;
                Some(process)
            }
            Some(process) => {
                process.kill();
                process.ended().await;
                self.count_if_was_mounted();
                None
            }
            None => {
                self.count_if_was_mounted();
                None
            }
        }
    }

    fn count_if_was_mounted(&mut self) {
        if self.kept.was_mounted {
            self.kept.interruptions += 1;
        }
    }

    /// One attempt.
    async fn mount(&mut self) -> Result<Process, String> {
        self.clear().await.map_err(|e| format!("clear the mount point: {e}"))?;
        self.claim().map_err(|e| format!("use the mount point: {e}"))?;
        let process = self.start(Resume::Anew).await.map_err(|not_ready| not_ready.reason)?;
        self.hold().await;
        tracing::info!(mount = self.spec.id, mountpoint = %self.spec.mountpoint.display(), "mounted");
        Ok(process)
    }

    /// Starts a mount process and waits until it serves.
    async fn start(&mut self, resume: Resume<'_>) -> Result<Process, NotReady> {
        let failed = |reason| NotReady { reason, killed: false };
        let (spec, log) = (self.folder.join("spec.json"), self.folder.join("log"));
        let launched =
            launch::launch(&self.setting.program, &spec, &log, resume).map_err(|e| failed(e.to_string()))?;
        let id = launched.id.clone();
        self.kept.process = Some(id.clone());
        self.keep().map_err(|e| failed(format!("keep the mount's state: {e}")))?;
        launched.ready().await?;
        let process = id
            .open()
            .await
            .ok_or_else(|| NotReady { reason: "its process ended at once".into(), killed: true })?;
        self.kept.was_mounted = true;
        self.keep().map_err(|e| failed(format!("keep the mount's state: {e}")))?;
        Ok(process)
    }

    /// The process that was started last, if it lives.
    async fn living(&self) -> Option<Process> {
        match &self.kept.process {
            Some(id) => id.open().await,
            None => None,
        }
    }

    /// Ends the process that was started last, if it lives.
    async fn end_process(&mut self) {
        if let Some(process) = self.living().await {
            process.kill();
            process.ended().await;
        }
    }

    /// Makes the mount point ours, on disk first.
    fn claim(&mut self) -> io::Result<()> {
        if self.setting.table.is_mounted(&self.spec.mountpoint)? {
            return Err(io::Error::other("another FUSE file system is mounted there"));
        }
        self.kept.launched = true;
        self.kept.made_folder |= !disk::is_folder(&self.spec.mountpoint)?;
        self.keep()?;
        disk::make_passable(&self.spec.mountpoint)
    }

    /// The process of a working mount has ended.
    async fn lost(&mut self) {
        let said = last_words(&self.folder.join("log"));
        let reason = format!("its process ended: {}", said.as_deref().unwrap_or("without a word"));
        tracing::warn!(mount = self.spec.id, reason, "mount lost, mount anew");
        self.kept.interruptions += 1;
        self.kept.process = None;
        if let Err(error) = self.keep() {
            tracing::warn!(mount = self.spec.id, %error, "cannot keep the count of a mount's interruptions");
        }
        self.show_error(&reason);
    }

    fn keep(&self) -> io::Result<()> {
        keep::write(&self.folder.join(KEPT), &self.kept)
    }

    fn show_mounted(&self) {
        self.show(None);
    }

    fn show_error(&self, reason: &str) {
        self.show(Some(reason));
    }

    fn show(&self, error: Option<&str>) {
        self.shown.send_modify(|view| {
            view.status.mounted = error.is_none();
            view.status.error = error.map(str::to_owned);
            view.status.pid = self.kept.process.as_ref().map(|id| id.pid).filter(|_| error.is_none());
            view.status.interruptions = self.kept.interruptions;
        });
    }

    fn not_mounted(&self, reason: &str) -> ApiError {
        tracing::warn!(mount = self.spec.id, reason, "not mounted");
        let log = self.folder.join("log").display().to_string();
        let message = format!("mount {}: {reason}", self.spec.mountpoint.display());
        let advice = format!("see `forebay status` for storage nodes, {log}, and whether /dev/fuse is there");
        site(ErrorCode::MountFailed, message, advice)
    }
}
