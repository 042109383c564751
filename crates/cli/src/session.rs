//! One session, as the functions of the control service that move it on.
//!
//! Every function here may be called again: control answers a repeated one as it did the first.

use std::path::Path;
use std::time::{Duration, Instant};

use model::Token;
use model::phase::{Direction, Phase, StageState};
use serde::Serialize;
use wire::control::{
    ApiError, DataOut, ErrorCode, Paths, PostRun, PreRun, SessionStatus, StageStatus, Status, Teardown,
    TeardownReply,
};

use crate::failure::Failure;
use crate::interrupts::Interrupts;
use crate::output::Output;
use crate::progress::View;
use crate::seen;
use crate::service::{EXPLAINED, Service};

/// Between two looks at a running stage.
const LOOK: Duration = Duration::from_millis(250);

/// How many failures of one stage the terminal shows; the rest is in `forebay status --json`.
const FAILURES_SHOWN: usize = 10;

/// A session and what is needed to talk about it.
pub struct Session<'a> {
    /// The service that has it.
    pub service: &'a Service,
    /// Where words go.
    pub output: &'a Output,
    /// The user's wish to stop.
    pub interrupts: &'a Interrupts,
    /// Its token.
    pub token: Token,
}

/// How a stage-in or stage-out ended.
#[derive(Debug)]
pub enum Staged {
    /// Every stage is complete.
    Complete,
    /// Something failed.
    Failed(ApiError),
    /// The user interrupted it.
    Cancelled,
}

impl Session<'_> {
    /// How it is.
    pub async fn status(&self) -> Result<SessionStatus, Failure> {
        self.service.get(&self.path("")).await
    }

    /// How it is; `None` where control has no such session (any more).
    pub async fn status_if_known(&self) -> Result<Option<SessionStatus>, Failure> {
        match self.status().await {
            Ok(status) if status.phase == Phase::TornDown => Ok(None),
            Ok(status) => Ok(Some(status)),
            Err(Failure::Api(error)) if error.code == ErrorCode::NoSuchSession => Ok(None),
            Err(failure) => Err(failure),
        }
    }

    /// Calls a function whose reply is the session's status.
    pub async fn call(&self, name: &str, body: &impl Serialize) -> Result<SessionStatus, Failure> {
        self.service.post(&self.path(name), body).await
    }

    /// Mounts, and sees that it is so here; else nothing stays mounted of it.
    pub async fn pre_run(&self, request: &PreRun) -> Result<SessionStatus, Failure> {
        let status = self.call("/pre_run", request).await?;
        let Err(hidden) = seen::check_mounts(&status, &request.hosts) else { return Ok(status) };
        let _ = match &request.mountpoint {
            Some(place) => self.unmount(place, true).await,
            None => self.post_run(true).await,
        };
        Err(hidden)
    }

    /// The job's variables.
    pub async fn paths(&self) -> Result<Paths, Failure> {
        self.service.get(&self.path("/paths")).await
    }

    /// Unmounts; with `hurry` even where files are open.
    pub async fn post_run(&self, hurry: bool) -> Result<SessionStatus, Failure> {
        self.call("/post_run", &PostRun { hurry, mountpoint: None }).await
    }

    /// Unmounts what is mounted at `place`; with `hurry` even where files are open.
    pub async fn unmount(&self, place: &Path, hurry: bool) -> Result<SessionStatus, Failure> {
        self.call("/post_run", &PostRun { hurry, mountpoint: Some(place.to_owned()) }).await
    }

    /// Gives the buffer up; with `hurry` even where data was to be staged out. `Some` says why it was kept.
    pub async fn teardown(&self, hurry: bool) -> Result<Option<String>, Failure> {
        let reply: Result<TeardownReply, Failure> =
            self.service.post(&self.path("/teardown"), &Teardown { hurry }).await;
        match reply {
            Ok(reply) => Ok(reply.kept),
            // The reply to an earlier attempt was lost.
            Err(Failure::Api(error)) if error.code == ErrorCode::NoSuchSession => Ok(None),
            Err(failure) => Err(failure),
        }
    }

    /// Runs every `stage_in` and shows its progress. An interrupt cancels it.
    pub async fn stage_in(&self) -> Result<Staged, Failure> {
        self.stage(Direction::In, "/data_in", &serde_json::json!({})).await
    }

    /// The same of every `stage_out`.
    pub async fn stage_out(&self, how: DataOut) -> Result<Staged, Failure> {
        self.stage(Direction::Out, "/data_out", &how).await
    }

    async fn stage(
        &self,
        direction: Direction,
        function: &str,
        how: &impl Serialize,
    ) -> Result<Staged, Failure> {
        let mut view = View::new(direction, self.output);
        let begin = Instant::now();
        let end = {
            let running = self.call(function, how);
            tokio::select! {
                end = running => end,
                () = self.watch(&mut view, begin) => unreachable!("watching does not end"),
                () = self.cancel_when_interrupted() => return self.cancelled(function).await,
            }
        };
        let stages = match &end {
            Ok(status) => status.stages.clone(),
            Err(Failure::Api(_)) => self.status().await.map(|status| status.stages).unwrap_or_default(),
            Err(_) => vec![],
        };
        view.update(begin.elapsed(), &stages, self.output);
        match end {
            Ok(_) => Ok(Staged::Complete),
            // The function's own reply was faster than that to our cancellation.
            Err(Failure::Api(error)) if error.code == ErrorCode::Cancelled => Ok(Staged::Cancelled),
            Err(Failure::Api(error)) => {
                let lines = failure_lines(&stages, direction);
                if lines.is_empty() {
                    self.output.note(&format!("forebay: {error}"));
                }
                for line in lines {
                    self.output.note(&line);
                }
                Ok(Staged::Failed(error))
            }
            Err(failure) => Err(failure),
        }
    }

    /// Waits for the interrupt, then tells control to stop copying.
    async fn cancel_when_interrupted(&self) {
        self.interrupts.reached(1).await;
        self.output.note("forebay: cancelling; interrupt again to leave at once");
        // A refusal means that nothing is copied any more; what came of it is asked next.
        let _ = self.call("/cancel", &serde_json::json!({})).await;
    }

    /// Waits until a cancelled function has stopped.
    async fn cancelled(&self, function: &str) -> Result<Staged, Failure> {
        loop {
            let status = self.status().await?;
            if status.busy.is_some() {
                // The cancellation may have overtaken the function that it is for.
                let _ = self.call("/cancel", &serde_json::json!({})).await;
            } else {
                // It may have completed before the cancellation came.
                let complete = match function {
                    "/data_in" => status.phase >= Phase::StagedIn,
                    _ => status.phase >= Phase::StagedOut,
                };
                return Ok(if complete { Staged::Complete } else { Staged::Cancelled });
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Shows progress for ever.
    async fn watch(&self, view: &mut View, begin: Instant) {
        let client = self.service.once(EXPLAINED);
        let path = self.path("");
        let mut stall = Stall::default();
        loop {
            tokio::time::sleep(LOOK).await;
            // The call that this one watches deals with a service that is gone.
            let Ok(status) = client.get::<SessionStatus>(&path).await else { continue };
            view.update(begin.elapsed(), &status.stages, self.output);
            if stall.is_due(&status.stages, begin.elapsed())
                && let Ok(status) = client.get::<Status>("/v1/status").await
            {
                for node in status.nodes.iter().filter(|node| !node.online) {
                    self.output.note(&format!(
                        "forebay: waiting for node {}, which is being started again",
                        node.name
                    ));
                }
            }
        }
    }

    fn path(&self, function: &str) -> String {
        format!("/v1/sessions/{}{function}", self.token)
    }
}

/// Whether stages have stood still for so long that the reason is worth asking for.
#[derive(Default)]
struct Stall {
    work: u64,
    since: Duration,
    asked: bool,
}

impl Stall {
    /// True once for each time that nothing moves.
    fn is_due(&mut self, stages: &[StageStatus], at: Duration) -> bool {
        let work = stages
            .iter()
            .map(|stage| {
                stage.progress.bytes_done + stage.progress.bytes_verified + stage.progress.entries_total
            })
            .sum();
        if work != self.work {
            *self = Stall { work, since: at, asked: false };
        }
        let due = !self.asked && at.saturating_sub(self.since) > EXPLAINED;
        self.asked |= due;
        due
    }
}

/// What failed, a line each, as the user reads it.
pub fn failure_lines(stages: &[StageStatus], direction: Direction) -> Vec<String> {
    let failed =
        stages.iter().filter(|stage| stage.direction == direction && stage.state == StageState::Failed);
    let mut lines = Vec::new();
    for stage in failed {
        if let Some(error) = &stage.error {
            lines.push(format!("forebay: {} -> {}: {error}", stage.source, stage.destination));
        }
        // What ended the stage as a whole is listed as a failure as well.
        let said = |text: &str| stage.error.as_ref().is_some_and(|error| error.message == text);
        for failure in stage.failures.iter().filter(|failure| !said(&failure.message)).take(FAILURES_SHOWN) {
            lines.push(format!("forebay: {}; {}", failure.message, failure.advice));
        }
        let more = stage.progress.entries_failed.saturating_sub(FAILURES_SHOWN as u64);
        if more > 0 {
            let where_listed = match direction {
                _ if stage.is_on_demand() => "`forebay stage status --json` lists them",
                // The buffer is gone when its job could not start.
                Direction::In => "`forebay run --json SCRIPT` lists them",
                Direction::Out => "`forebay status --json` lists them",
            };
            lines.push(format!("forebay: and {more} more failures ({where_listed})"));
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures;

    #[test]
    fn a_failure_names_the_file_and_the_advice() {
        let lines = failure_lines(&fixtures::session().stages, Direction::Out);
        assert_eq!(lines, ["forebay: write /pfs/results/stars.h5: No space left on device; make room there"]);
        assert!(failure_lines(&fixtures::session().stages, Direction::In).is_empty());
    }

    #[test]
    fn a_standstill_is_explained_once_until_something_moves() {
        let mut stall = Stall::default();
        let mut stages = vec![fixtures::stage_in()];
        let seconds = Duration::from_secs;
        assert!(!stall.is_due(&stages, seconds(1)));
        assert!(stall.is_due(&stages, seconds(4)));
        assert!(!stall.is_due(&stages, seconds(8)));
        stages[0].progress.bytes_done += 1;
        assert!(!stall.is_due(&stages, seconds(9)));
        assert!(stall.is_due(&stages, seconds(12)));
    }
}
