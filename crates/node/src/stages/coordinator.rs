//! The task that owns one stage from `PUT` to `DELETE`: it runs the stage's worker, again after each death by a signal,
//! and keeps the final report.

use std::convert::Infallible;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use daemon::error::{bug, site};
use daemon::logging::last_words;
use disk::format::{self, UPGRADE};
use model::phase::StageState;
use tokio::sync::watch;
use wire::control::{ApiError, ErrorCode, StageStatus};
use wire::node::{StageControl, StageSpec};

use super::patience::Patience;
use super::worker::{self, End, Errand};
use super::{REPORT, Setting, deleted};
use crate::keep;
use crate::process::ProcessId;

/// The shortest pause between two passes while the job runs.
const PASS_PAUSE_MIN: Duration = Duration::from_secs(2);

/// What a stage shows before its worker says anything.
pub(super) fn pending(spec: &StageSpec) -> StageStatus {
    StageStatus {
        id: spec.id.clone(),
        direction: spec.direction,
        kind: spec.kind,
        source: spec.source.clone(),
        destination: spec.destination.clone(),
        ..StageStatus::default()
    }
}

/// Whether a worker could not make sure of names that it had made, and all are to be looked at again.
fn is_unsure(status: &StageStatus) -> bool {
    status.error.as_ref().is_some_and(|error| error.code == ErrorCode::StageNamesUnsynced)
}

/// Owns one stage.
pub(super) struct Coordinator {
    setting: Arc<Setting>,
    spec: StageSpec,
    folder: PathBuf,
    shown: watch::Sender<StageStatus>,
    orders: Orders,
}

/// What the node wants of a stage.
/// Later ones are stronger.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Stop {
    /// That it goes on.
    #[default]
    No,
    /// That it ends now, to go on in the node's next life.
    ForNow,
    /// That it ends and leaves nothing half done.
    ForGood,
}

/// What may be told to a stage while it runs.
#[derive(Clone)]
pub(super) struct Orders {
    pub stop: watch::Receiver<Stop>,
    pub control: watch::Receiver<StageControl>,
}

impl Coordinator {
    /// For the stage kept in `folder`, whose specification is there already.
    pub(super) fn new(
        setting: Arc<Setting>,
        spec: StageSpec,
        folder: PathBuf,
        shown: watch::Sender<StageStatus>,
        orders: Orders,
    ) -> Coordinator {
        Coordinator { setting, spec, folder, shown, orders }
    }

    /// Runs the stage to its end, or until it is stopped.
    pub(super) async fn run(self) {
        match deleted::is_marked(&self.folder) {
            Ok(false) => {}
            Ok(true) => return drop(self.shown.send_replace(self.failed(super::going(&self.spec.id)))),
            Err(error) => return drop(self.shown.send_replace(self.failed(self.unknown(&error)))),
        }
        if self.spec.policy.while_running {
            return self.passes().await;
        }
        match keep::read::<StageStatus>(&self.folder.join(REPORT)) {
            Ok(Some(report)) => {
                self.shown.send_replace(report);
                return;
            }
            Ok(None) => {}
            Err(error) => {
                // It may say "complete", and the job may have changed since what was staged: not run again unasked.
                let unknown = self.unknown(&error);
                tracing::error!(stage = self.spec.id, error = unknown.message, "cannot run a stage");
                self.shown.send_replace(self.failed(unknown));
                return;
            }
        }
        self.end_leftover().await;
        let report = match self.work().await {
            Ok(Some(report)) => report,
            Ok(None) => return,
            Err(error) => self.failed(error),
        };
        tracing::info!(stage = self.spec.id, state = ?report.state, bytes = report.progress.bytes_done, "stage ended");
        if let Err(error) = keep::write(&self.folder.join(REPORT), &report) {
            tracing::warn!(stage = self.spec.id, %error, "cannot keep the report of a stage: a restart of the node \
                                                          runs the stage again");
        }
        self.shown.send_replace(report);
    }

    /// Runs a worker again and again while the job does, until it is stopped: what one could not copy another will, or
    /// the stage at the job's end.
    async fn passes(&self) {
        self.end_leftover().await;
        let mut stop = self.orders.stop.clone();
        loop {
            let begun = Instant::now();
            match self.work().await {
                Ok(None) => return,
                Ok(Some(report)) => {
                    tracing::debug!(
                        stage = self.spec.id,
                        bytes = report.progress.bytes_moved,
                        "a pass ended"
                    );
                }
                Err(error) => {
                    tracing::warn!(stage = self.spec.id, %error, "a pass while the job runs did not end")
                }
            }
            // At most half of the time is spent on looking.
            let pause = begun.elapsed().max(PASS_PAUSE_MIN);
            if tokio::time::timeout(pause, stop.wait_for(|stop| *stop != Stop::No)).await.is_ok() {
                return;
            }
        }
    }

    /// A worker that outlived the last life of the node would write the same journal as ours.
    async fn end_leftover(&self) {
        let leftover = keep::read::<ProcessId>(&self.folder.join("worker.json")).unwrap_or_else(|error| {
            // The new one takes the journal's lock from it, and ends it by that.
            tracing::warn!(stage = self.spec.id, %error, "cannot tell which process the last worker of a stage was");
            None
        });
        let Some(leftover) = leftover else { return };
        if let Some(process) = leftover.open().await {
            process.kill();
            process.ended().await;
        }
    }

    /// Runs workers until one reports the stage's end. `None`: stopped.
    async fn work(&self) -> Result<Option<StageStatus>, ApiError> {
        let mut stop = self.orders.stop.clone();
        let mut patience = Patience::new(&self.folder);
        loop {
            let mut worker = self.start_worker().map_err(|error| self.not_started(&error))?;
            let pipe = worker.orders();
            let end = tokio::select! {
                end = worker.run(|status| self.show(status)) => Ok(end),
                told = stop.wait_for(|stop| *stop != Stop::No) => Err(told.map_or(Stop::ForNow, |told| *told)),
                never = self.pass_on(pipe) => match never {},
            };
            match end {
                Err(stop) => {
                    if stop == Stop::ForNow {
                        worker.kill().await
                    } else {
                        worker.stop().await
                    }
                    return Ok(None);
                }
                Ok(End::Reported(status)) if is_unsure(&status) && patience.has_ended() => {
                    tracing::warn!(
                        stage = self.spec.id,
                        "what was made was not synced: look at all of it again"
                    );
                }
                Ok(End::Reported(status)) => return Ok(Some(*status)),
                Ok(End::Broken(reason)) => return Err(self.broken(&reason)),
                Ok(End::Killed(signal)) => {
                    tracing::warn!(stage = self.spec.id, signal, "a signal ended the stage worker");
                    if !patience.has_ended() {
                        return Err(self.killed(&patience));
                    }
                }
            }
        }
    }

    /// Tells the worker its pace, now and whenever it changes.
    async fn pass_on(&self, mut worker: worker::Orders) -> Infallible {
        let mut share = self.setting.shares.join();
        let mut control = self.orders.control.clone();
        loop {
            let pace = share.of_worker(&self.spec.policy, &control.borrow_and_update());
            worker.give(&pace).await;
            tokio::select! {
                changed = control.changed() => {
                    if changed.is_err() {
                        // The stage is being forgotten; it is stopped by another way.
                        std::future::pending::<()>().await;
                    }
                }
                () = share.changed() => {}
            }
        }
    }

    fn start_worker(&self) -> io::Result<worker::Worker> {
        let worker = self.setting.workers.start(&self.folder, Errand::Run)?;
        keep::write(&self.folder.join("worker.json"), &worker.id)?;
        Ok(worker)
    }

    fn show(&self, status: &StageStatus) {
        self.shown.send_replace(status.clone());
    }

    fn failed(&self, error: ApiError) -> StageStatus {
        StageStatus { state: StageState::Failed, error: Some(error), ..self.shown.borrow().clone() }
    }

    fn unknown(&self, error: &io::Error) -> ApiError {
        site(
            ErrorCode::StageState,
            format!("what an earlier life of the node left of stage {} is not known: {error}", self.spec.id),
            match format::is_newer(error) {
                true => format!("{UPGRADE}, and start the node again"),
                false => "mend the state folder's disk and start the node again, or retry the stage: it then runs again"
                    .into(),
            },
        )
    }

    fn not_started(&self, error: &io::Error) -> ApiError {
        site(
            ErrorCode::StageNotStarted,
            format!("run stage {}: {error}", self.spec.id),
            "repair that, then retry the stage",
        )
    }

    fn broken(&self, reason: &str) -> ApiError {
        let said = last_words(&self.folder.join("log")).map(|line| format!(": {line}")).unwrap_or_default();
        bug(ErrorCode::StageWorkerBroken, format!("stage {}: {reason}{said}", self.spec.id))
    }

    fn killed(&self, patience: &Patience) -> ApiError {
        let at = match patience.at() {
            none if none.is_empty() => String::new(),
            files => format!("; the last time it was at {}", files.join(", ")),
        };
        let message = format!(
            "stage {}: signals ended its worker {} times, and each time nothing was copied that had not been before{at}",
            self.spec.id,
            patience.in_vain()
        );
        site(
            ErrorCode::StageWorkerKilled,
            message,
            "look for the killer (out of memory, an I/O error of that file?) in the kernel's log, then retry the stage",
        )
    }
}
