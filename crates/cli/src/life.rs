//! The life of one `forebay run`: from wherever its session is to the end.
//!
//! ```text
//! Registered -setup-> Ready -data_in-> StagedIn -pre_run-> Mounted -the script-> (ended) -post_run-> Unmounted
//!                                                             -data_out-> StagedOut -teardown-> gone
//! ```
//!
//! **Invariant:** a buffer in which the script may have written is destroyed only after a complete stage-out, or where
//! the script stages nothing out. The record says so before the script starts and how it ended before anything follows.

mod hosts;
mod told;

use std::time::{Duration, Instant};

use model::phase::{Direction, Phase, StageState};
use tokio::process::Child;
use wire::control::{ApiError, Blame, CLI, ErrorCode, PostRun, SessionStatus, Setup, StageStatus};

pub use self::told::Told;
use crate::exit_code::{ExitCode, JobExit};
use crate::failure::Failure;
use crate::process::{Group, TERMINATION};
use crate::run_record::{Job, Records, RunLock, RunRecord};
use crate::session::{Session, Staged};
use crate::{identity, job, retries};

/// A mount that died is noticed by its node, and by control, within this time: both look twice a second.
const MOUNT_NEWS: Duration = Duration::from_millis(1_200);

/// How often control is asked, while the script runs, whether it still answers.
const SERVICE_WATCH: Duration = Duration::from_secs(2);

/// How long the second interrupt may take to leave no mounts behind.
const AT_ONCE: Duration = Duration::from_secs(3);

/// How it ended.
#[derive(Debug)]
pub enum Ending {
    /// The job ran, and what it stages out is there; its own status says whether it did well.
    Completed,
    /// The job was not started.
    StageInFailed(ApiError),
    /// The job ran; something of it is not where it belongs.
    StageOutFailed(ApiError),
    /// The job failed, and its mount had been lost while it ran.
    MountLost,
    /// The user interrupted it.
    Cancelled,
    /// Something else failed.
    Failed(Failure),
}

/// A session that is being run, and its record.
pub struct Life<'a> {
    session: Session<'a>,
    records: &'a Records,
    /// `None` once the session is released and the record gone.
    lock: Option<RunLock>,
    record: RunRecord,
    group: Option<Group>,
    notes: Vec<String>,
    told: Told,
}

impl<'a> Life<'a> {
    /// Takes up the session of `record`, which `lock` is for.
    pub fn new(session: Session<'a>, records: &'a Records, lock: RunLock, record: RunRecord) -> Life<'a> {
        let told = Told::of(&record);
        Life { session, records, lock: Some(lock), record, group: None, notes: Vec::new(), told }
    }

    /// The same, with remarks for the user that are worth saying once there is a buffer.
    #[must_use]
    pub fn with_notes(self, notes: Vec<String>) -> Life<'a> {
        Life { notes, ..self }
    }

    /// What there is to say at the end.
    pub fn told(&self) -> &Told {
        &self.told
    }

    /// From where the session is to its end; a second interrupt ends it at once.
    pub async fn run(&mut self) -> Ending {
        let interrupts = self.session.interrupts;
        let ending = tokio::select! {
            ending = self.whole() => Some(ending),
            () = interrupts.reached(2) => None,
        };
        let ending = match ending {
            Some(Ok(ending)) => ending,
            Some(Err(failure)) => self.failed(failure).await,
            None => self.leave_at_once().await,
        };
        self.as_nothing_is_kept(ending)
    }

    /// Only what follows the job: unmount, stage out, release.
    pub async fn finish(&mut self) -> Ending {
        let interrupts = self.session.interrupts;
        (self.record.keep, self.told.ended) = (false, true);
        // Whoever finishes says that the job has been here, also where nobody wrote that down: what is in the buffer
        // is then never given up as untouched.
        if self.record.job == Job::NotStarted {
            self.record.job = Job::Started { group: None };
        }
        let ending = tokio::select! {
            ending = self.after_job() => Some(ending),
            () = interrupts.reached(2) => None,
        };
        match ending {
            Some(Ok(ending)) => ending,
            Some(Err(failure)) => self.failed(failure).await,
            None => self.leave_at_once().await,
        }
    }

    async fn whole(&mut self) -> Result<Ending, Failure> {
        if !matches!(self.record.job, Job::Ended { .. }) {
            if let Some(ending) = self.up_to_job().await? {
                return Ok(ending);
            }
            if let Some(ending) = self.run_job().await? {
                return Ok(ending);
            }
        }
        self.after_job().await
    }

    /// Allocates, stages in and mounts; `Some` where the job does not start.
    async fn up_to_job(&mut self) -> Result<Option<Ending>, Failure> {
        let phase = self.session.status_if_known().await?.map_or(Phase::Registered, |status| status.phase);
        if phase < Phase::Ready {
            self.set_up().await?;
        }
        if self.session.interrupts.requested() {
            return self.stop_before_job().await.map(Some);
        }
        if phase < Phase::StagedIn {
            match self.session.stage_in().await? {
                Staged::Complete => {}
                Staged::Failed(error) => {
                    self.remember().await?;
                    self.release_untouched().await?;
                    return Ok(Some(Ending::StageInFailed(error)));
                }
                Staged::Cancelled => return self.stop_before_job().await.map(Some),
            }
        }
        self.told.status = Some(self.session.pre_run(&self.mounts()).await?);
        if self.session.interrupts.requested() {
            return self.stop_before_job().await.map(Some);
        }
        Ok(None)
    }

    async fn set_up(&mut self) -> Result<(), Failure> {
        let request = Setup {
            owner: identity::owner(),
            script: self.record.submitted(),
            fragments: self.record.fragments,
            volume: self.record.volume,
            caller: CLI.to_owned(),
            capacity: None,
            hosts: self.record.hosts.clone(),
        };
        let status = self.session.call("/setup", &request).await?;
        self.record.session_created_unix = Some(status.created_unix);
        self.write()?;
        for note in self.notes.drain(..).chain(hosts::left_out(&self.record, &status)) {
            self.session.output.note(&format!("forebay: note: {note}"));
        }
        Ok(())
    }

    /// Runs the script; `None` where it ended by itself and its work is to be staged out.
    async fn run_job(&mut self) -> Result<Option<Ending>, Failure> {
        let losses_before = hosts::losses(self.told.status.as_ref());
        let begin = Instant::now();
        let mut child = self.start_job().await?;
        let interrupts = self.session.interrupts;
        let ended = tokio::select! {
            status = child.wait() => Some(status),
            () = interrupts.reached(1) => None,
            never = self.keep_services_up() => match never {},
        };
        let Some(status) = ended else {
            self.session.output.note("forebay: ending the job; interrupt again to leave at once");
            self.end_group().await;
            let status = child.wait().await.map_err(wait_failed)?;
            self.told.job = Some((JobExit::of(status), begin.elapsed()));
            return self.stop_after_job().await.map(Some);
        };
        let (exit, elapsed) = (JobExit::of(status.map_err(wait_failed)?), begin.elapsed());
        self.told.job = Some((exit, elapsed));
        self.end_group().await;
        if !exit.succeeded() && self.mount_was_lost(losses_before).await? {
            self.unmount().await?;
            self.remember().await?;
            self.told.kept = Some("the process of the buffer's mount died while the job ran".into());
            return Ok(Some(Ending::MountLost));
        }
        let lost = hosts::losses(Some(&self.session.status().await?)).saturating_sub(losses_before);
        if lost > 0 {
            self.session.output.note(&format!(
                "forebay: warning: the buffer's mount was lost and made anew {lost} time(s) while the job ran; files that \
                 the job had open then may be incomplete, although it says that it succeeded"
            ));
        }
        let elapsed_ms = u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX);
        self.write_job(Job::Ended { exit, elapsed_ms })?;
        self.told.ended = true;
        Ok(None)
    }

    /// While the script runs nobody else would notice that control died; and it is control that starts storage nodes
    /// again, for which the script would wait.
    async fn keep_services_up(&self) -> std::convert::Infallible {
        loop {
            tokio::time::sleep(SERVICE_WATCH).await;
            // A call that does not reach control starts it. Whatever else is wrong shows when the script has ended.
            let _ = self.session.status().await;
        }
    }

    /// Starts the script, and notes that before and after: from the first moment on it may write.
    async fn start_job(&mut self) -> Result<Child, Failure> {
        let paths = self.session.paths().await?;
        let first = self.record.job == Job::NotStarted;
        if !first {
            self.session.output.note(&self.record.begun_again());
        }
        self.write_job(Job::Started { group: None })?;
        let child = match job::start(&self.record, &paths, self.records) {
            Ok(child) => child,
            Err(failure) => {
                if first {
                    self.write_job(Job::NotStarted)?;
                }
                return Err(failure);
            }
        };
        self.told.started = true;
        self.group = child.id().and_then(Group::led_by);
        // Without the record a later `--resume` could not end this job: better no job than that.
        if let Err(failure) = self.write_job(Job::Started { group: self.group.clone() }) {
            self.end_group().await;
            return Err(failure);
        }
        Ok(child)
    }

    /// Unmounts, stages out and releases.
    async fn after_job(&mut self) -> Result<Ending, Failure> {
        let status = self.session.status().await?;
        if status.phase == Phase::Mounted {
            self.unmount().await?;
        }
        if status.phase < Phase::StagedOut
            && let Some(ending) = self.stage_out(&status).await?
        {
            return Ok(ending);
        }
        self.remember().await?;
        if self.record.keep {
            self.told.kept = Some(retries::ASKED_FOR.into());
            return Ok(Ending::Completed);
        }
        match self.release(false).await? {
            None => Ok(Ending::Completed),
            Some(why) => Ok(Ending::StageOutFailed(ApiError {
                code: ErrorCode::Kept,
                blame: Blame::Forebay,
                message: why,
                advice: self.session.output.command(&format!("stage retry {}", self.record.token)),
            })),
        }
    }

    /// Stages out; `Some` where not everything is out, which keeps the buffer.
    async fn stage_out(&mut self, status: &SessionStatus) -> Result<Option<Ending>, Failure> {
        if !stages_out(status) {
            // Nothing to copy, but control's life-cycle has the step.
            self.session.call("/data_out", &serde_json::json!({})).await?;
            return Ok(None);
        }
        let staged = if self.session.interrupts.requested() {
            Staged::Cancelled
        } else {
            self.session.stage_out(self.record.job.data_out()).await?
        };
        let (why, ending) = match staged {
            Staged::Complete => return Ok(None),
            Staged::Failed(error) => (retries::NOT_OUT, Ending::StageOutFailed(error)),
            Staged::Cancelled => ("its stage-out was cancelled", Ending::Cancelled),
        };
        self.remember().await?;
        self.told.kept = Some(why.into());
        Ok(Some(ending))
    }

    /// The user interrupted before the script started in this run.
    async fn stop_before_job(&mut self) -> Result<Ending, Failure> {
        if self.record.job == Job::NotStarted {
            self.remember().await?;
            self.release_untouched().await?;
            self.session.output.note("forebay: cancelled; nothing is lost, the sources are untouched");
            return Ok(Ending::Cancelled);
        }
        self.stop_after_job().await
    }

    /// The user interrupted the script.
    async fn stop_after_job(&mut self) -> Result<Ending, Failure> {
        self.unmount().await?;
        let status = self.remember().await?;
        if stages_out(&status) {
            self.told.kept = Some("what the job wrote is not staged out".into());
        } else {
            self.release(true).await?;
        }
        Ok(Ending::Cancelled)
    }

    /// Something failed that has no ending of its own.
    async fn failed(&mut self, failure: Failure) -> Ending {
        self.end_group().await;
        let reachable = !matches!(failure, Failure::Unreachable { .. } | Failure::Garbled(_));
        if reachable {
            let _ = self.remember().await;
        }
        if self.record.job != Job::NotStarted {
            if reachable {
                let _ = self.session.post_run(true).await;
            }
            self.told.kept = Some("the run did not finish".into());
        } else if !reachable || self.release_untouched().await.is_err() {
            self.told.kept = Some("it could not be released".into());
        }
        Ending::Failed(failure)
    }

    /// The second interrupt: no mount stays, everything else does.
    async fn leave_at_once(&mut self) -> Ending {
        if let Some(group) = self.group.take() {
            group.signal(rustix::process::Signal::KILL);
        }
        let client = self.session.service.once(AT_ONCE);
        let path = |function: &str| format!("/v1/sessions/{}/{function}", self.record.token);
        let (cancel, post_run) = (path("cancel"), path("post_run"));
        let nothing = serde_json::json!({});
        // Both at once: a copy that does not stop must not keep the mount. Control goes on with what it has not
        // answered in time.
        let (_, unmounted) = tokio::join!(
            client.post::<_, SessionStatus>(&cancel, &nothing),
            client.post::<_, SessionStatus>(&post_run, &PostRun { hurry: true, mountpoint: None })
        );
        if let Ok(status) = unmounted {
            self.told.status = Some(status);
        }
        self.told.kept = Some("it was left at once".into());
        Ending::Cancelled
    }

    /// Unmounts, in earnest where processes that left the job's group keep files open.
    async fn unmount(&mut self) -> Result<(), Failure> {
        match self.session.post_run(false).await {
            Err(Failure::Api(error)) => {
                self.session.output.note(&format!("forebay: {}; unmounting all the same", error.message));
                self.session.post_run(true).await.map(drop)
            }
            other => other.map(drop),
        }
    }

    /// Gives a buffer up in which the script has not written.
    async fn release_untouched(&mut self) -> Result<(), Failure> {
        // Unmounting what is not mounted is no error.
        let _ = self.session.post_run(true).await;
        self.release(true).await.map(drop)
    }

    /// Gives the buffer up; `Some` says why control kept it.
    async fn release(&mut self, hurry: bool) -> Result<Option<String>, Failure> {
        let begin = Instant::now();
        self.record.releasing = true;
        self.write()?;
        let kept = self.session.teardown(hurry).await?;
        if kept.is_some() {
            self.record.releasing = false;
            self.write()?;
            self.told.kept.clone_from(&kept);
        } else {
            self.told.teardown = Some(begin.elapsed());
            if let Some(lock) = self.lock.take() {
                self.records.remove(lock, &self.record.token);
            }
        }
        Ok(kept)
    }

    /// Ends what is left of the job's processes.
    async fn end_group(&mut self) {
        // It stays ours until it has ended: a second interrupt in the meantime kills it.
        if let Some(group) = self.group.as_ref().filter(|group| group.runs()) {
            group.end(TERMINATION).await;
        }
        self.group = None;
    }

    async fn mount_was_lost(&self, losses_before: u32) -> Result<bool, Failure> {
        tokio::time::sleep(MOUNT_NEWS).await;
        let status = self.session.status().await?;
        let mounted = status.activations.iter().all(|activation| activation.mounted);
        Ok(!mounted || hosts::losses(Some(&status)) > losses_before)
    }

    async fn remember(&mut self) -> Result<SessionStatus, Failure> {
        let status = self.session.status().await?;
        self.told.status = Some(status.clone());
        Ok(status)
    }

    fn write_job(&mut self, job: Job) -> Result<(), Failure> {
        self.record.job = job;
        self.write()
    }

    fn write(&self) -> Result<(), Failure> {
        match &self.lock {
            Some(lock) => self.records.write(lock, &self.record),
            None => Ok(()),
        }
    }
}

/// Whether anything is to be staged out when the job ends: what a program has had staged out already is out.
fn stages_out(status: &SessionStatus) -> bool {
    let is_due = |stage: &StageStatus| !(stage.is_on_demand() && stage.state == StageState::Complete);
    status.stages.iter().any(|stage| stage.direction == Direction::Out && is_due(stage))
}

fn wait_failed(error: std::io::Error) -> Failure {
    Failure::Refused {
        exit: ExitCode::Bug,
        message: format!("wait for the job: {error}"),
        advice: "report this".into(),
    }
}
