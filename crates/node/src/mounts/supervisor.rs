//! The task that owns one mount from `PUT` to `DELETE`.
//!
//! ```text
//! (kept from an earlier life) --alive--> Watched <--ready-- Launched <--.
//!                             --dead---> cleared, counted -----^        |
//!                   Watched --its process dies--> Watched, with a successor; if there can be none:
//!                   Watched --its process ends--> cleared, counted, back-off
//!                   any     --unwanted--> SIGTERM, wait while files are open, SIGINT, detach, SIGKILL --> forgotten
//! ```

mod takeover;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use daemon::error::site;
use daemon::logging::last_words;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use wire::control::ApiError;
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

/// How long a mount process may take to end once nobody is waited for any more. More than the moments that it gives the
/// storage nodes to hear of it.
const ENDED_WITHIN: Duration = Duration::from_secs(6);

/// How many mounts on top of each other are taken away; more would be somebody else's doing.
const STACKED_MAX: usize = 8;

/// What is kept of a mount, in its folder.
const KEPT: &str = "kept.json";

/// What the requests want of a mount. Becomes only more urgent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// Keep it mounted.
    Mounted,
    /// Take it out of the tree at once; files that are open may stay so for this time.
    UnmountedWithin(Duration),
}

impl Wanted {
    /// Takes the more urgent of the two; replies whether that is the new one.
    pub fn press(&mut self, new: Wanted) -> bool {
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

/// What the requests see of a mount.
#[derive(Clone, Debug)]
pub struct View {
    /// For replies.
    pub status: MountStatus,
    /// Set once, last: the mount is forgotten; `Err` where it did not come to be or could not be unmounted.
    pub end: Option<Result<(), ApiError>>,
}

impl View {
    /// Before anything happened.
    pub fn new(spec: &MountSpec) -> View {
        let status = MountStatus {
            id: spec.id.clone(),
            mountpoint: spec.mountpoint.clone(),
            mounted: false,
            pid: None,
            interruptions: 0,
            error: None,
        };
        View { status, end: None }
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
pub struct Supervisor<T: MountTable> {
    setting: Arc<Setting<T>>,
    spec: MountSpec,
    folder: PathBuf,
    kept: Kept,
    hold: Hold,
    shown: watch::Sender<View>,
    orders: watch::Receiver<Wanted>,
}

impl<T: MountTable> Supervisor<T> {
    /// For the mount kept in `folder`, whose specification is there already.
    pub fn new(
        setting: Arc<Setting<T>>,
        spec: MountSpec,
        folder: PathBuf,
        shown: watch::Sender<View>,
        orders: watch::Receiver<Wanted>,
    ) -> Supervisor<T> {
        let kept = Kept::default();
        Supervisor { setting, spec, folder, kept, hold: Hold::default(), shown, orders }
    }

    /// Learns what an earlier life of the node has kept. Until that can be read, nothing is touched: a mount may be
    /// there that works, with a job in it.
    ///
    /// # Errors
    /// It cannot be read, and the mount is not wanted any more.
    async fn learn(&mut self) -> io::Result<()> {
        let mut orders = self.orders.clone();
        loop {
            let error = match keep::read(&self.folder.join(KEPT)) {
                Ok(kept) => {
                    self.kept = kept.unwrap_or_default();
                    return Ok(());
                }
                Err(error) => error,
            };
            tracing::error!(mount = self.spec.id, %error, "what is kept of a mount is not known; it is left alone");
            self.show_error(&error.to_string());
            let unwanted = orders.wait_for(|wanted| *wanted != Wanted::Mounted);
            if tokio::time::timeout(BACK_OFF.1, unwanted).await.is_ok() {
                return Err(error);
            }
        }
    }

    /// Runs until the mount is forgotten.
    ///
    /// # Errors
    /// The first attempt to mount failed, or the mount point could not be cleared at the end.
    pub async fn run(mut self) -> Result<(), ApiError> {
        if let Err(error) = self.learn().await {
            return Err(self.failure("unmount", &error.to_string()));
        }
        let mut orders = self.orders.clone();
        let failed = tokio::select! {
            failed = self.keep_mounted() => Some(failed),
            _ = orders.wait_for(|wanted| *wanted != Wanted::Mounted) => None,
        };
        let cleared = self.unmount().await;
        if let Some(reason) = &failed {
            tracing::warn!(mount = self.spec.id, reason, "not mounted");
        }
        match (failed, cleared) {
            (Some(reason), _) => Err(self.failure("mount", &reason)),
            (None, Err(error)) => Err(self.failure("unmount", &error.to_string())),
            (None, Ok(())) => Ok(()),
        }
    }

    /// Mounts, watches and mounts anew. Returns only why the very first attempt failed. May be dropped at any await:
    /// what was started is in `kept`.
    async fn keep_mounted(&mut self) -> String {
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
        std::fs::create_dir_all(&self.spec.mountpoint)
    }

    /// The process of a working mount has ended.
    async fn lost(&mut self) {
        let said = last_words(&self.folder.join("log"));
        let reason = format!("its process ended: {}", said.as_deref().unwrap_or("without a word"));
        tracing::warn!(mount = self.spec.id, reason, "mount lost, mount anew");
        self.kept.interruptions += 1;
        self.kept.process = None;
        if let Err(error) = self.keep() {
            tracing::warn!(mount = self.spec.id, %error, "the count of interruptions is not kept");
        }
        self.show_error(&reason);
    }

    /// Ends the process, clears the mount point and forgets the mount.
    async fn unmount(&mut self) -> io::Result<()> {
        self.let_go();
        if let Some(process) = self.living().await
            && !self.ends_in_time(&process).await
        {
            tracing::warn!(mount = self.spec.id, "does not end, detach it");
            self.clear().await?;
            process.kill();
            process.ended().await;
        }
        self.clear().await?;
        if self.kept.made_folder {
            self.remove_folder();
        }
        keep::remove(&self.folder)
    }

    /// Not empty only if something was written while a lost mount was not back yet: that is kept, and told.
    fn remove_folder(&self) {
        if let Err(error) = std::fs::remove_dir(&self.spec.mountpoint)
            && error.kind() != io::ErrorKind::NotFound
        {
            let mountpoint = self.spec.mountpoint.display();
            tracing::error!(%mountpoint, %error, "what was written below the mount while it was lost is still there");
        }
        // The folder above is the token's; the last of its mounts takes it along.
        let _ = self.spec.mountpoint.parent().map(std::fs::remove_dir);
    }

    /// Asks the process to end: whether it does. Files may be open as long as the orders say; they may become more
    /// urgent meanwhile.
    async fn ends_in_time(&mut self, process: &Process) -> bool {
        let mut orders = self.orders.clone();
        process.terminate();
        loop {
            let limit = match *orders.borrow_and_update() {
                // Where the mount never came to be, nothing is open.
                Wanted::Mounted => Duration::ZERO,
                Wanted::UnmountedWithin(limit) => limit,
            };
            tokio::select! {
                biased;
                () = process.ended() => return true,
                () = tokio::time::sleep(limit) => break,
                // Every change is to less time, so that beginning anew does not add up.
                Ok(()) = orders.changed() => {}
            }
        }
        process.interrupt();
        tokio::time::timeout(ENDED_WITHIN, process.ended()).await.is_ok()
    }

    /// Takes away whatever of ours is mounted at the mount point.
    async fn clear(&self) -> io::Result<()> {
        if !self.kept.launched {
            return Ok(());
        }
        if let Some(process) = &self.kept.process {
            process.helpers_ended().await;
        }
        let (setting, mountpoint) = (Arc::clone(&self.setting), self.spec.mountpoint.clone());
        let cleared = tokio::task::spawn_blocking(move || clear(&setting.table, &mountpoint)).await;
        cleared.map_err(io::Error::other)?
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

    fn failure(&self, tried: &str, reason: &str) -> ApiError {
        let message = format!("{tried} {}: {reason}", self.spec.mountpoint.display());
        site(
            &format!("{tried}_failed"),
            message,
            "`forebay status` tells whether a storage node is down; a mount also needs /dev/fuse and fusermount3",
        )
    }
}

fn clear(table: &impl MountTable, mountpoint: &Path) -> io::Result<()> {
    for _ in 0..STACKED_MAX {
        if !table.is_mounted(mountpoint)? {
            return Ok(());
        }
        table.detach(mountpoint)?;
    }
    if table.is_mounted(mountpoint)? {
        Err(io::Error::other("something mounts there again and again"))
    } else {
        Ok(())
    }
}
