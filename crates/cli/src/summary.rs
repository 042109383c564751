//! What a run says when it is over, for people and for programs.

#[cfg(test)]
mod tests;
mod text;

use std::time::Duration;

use model::Token;
use model::phase::{Direction, Function, StageState};
use serde::Serialize;
use wire::control::{ApiError, SessionStatus, StageStatus};

use crate::exit_code::{ExitCode, JobExit};
use crate::life::{Ending, Told};
use crate::output::Output;
use crate::render;

/// The version of the JSON shape.
const SCHEMA: u32 = 1;

/// The whole summary; serialised it is the object of `--json`, which `docs/CLI_ABI.md` describes.
#[derive(Debug, Default, Serialize)]
pub struct Summary {
    schema: u32,
    token: Option<Token>,
    job_name: Option<String>,
    script: Option<String>,
    outcome: &'static str,
    exit_status: u8,
    job: Option<JobSummary>,
    /// For people: without [`Self::job`] it has not ended by itself.
    #[serde(skip)]
    started: bool,
    phases: Vec<PhaseSummary>,
    stages: Vec<StageSummary>,
    results: Vec<String>,
    capacity_bytes: Option<u64>,
    used_bytes: Option<u64>,
    nodes: Vec<model::NodeName>,
    volume: Option<&'static str>,
    kept: Option<String>,
    advice: Vec<String>,
    error: Option<ApiError>,
}

#[derive(Debug, Serialize)]
struct JobSummary {
    exit_status: u8,
    signal: Option<u8>,
    elapsed_ms: u64,
}

#[derive(Debug, Serialize)]
struct PhaseSummary {
    phase: PhaseName,
    elapsed_ms: u64,
}

/// A function of control, by the name that workload managers use for it, or `job`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
enum PhaseName {
    Function(Function),
    Job(&'static str),
}

const JOB: PhaseName = PhaseName::Job("job");

impl PhaseName {
    fn shown(self) -> &'static str {
        match self {
            PhaseName::Function(function) => render::function(function),
            PhaseName::Job(name) => name,
        }
    }
}

#[derive(Debug, Serialize)]
struct StageSummary {
    #[serde(flatten)]
    status: StageStatus,
    bytes_per_second: Option<f64>,
    verified: bool,
}

impl Ending {
    /// The process's exit status.
    pub fn exit_status(&self, job: Option<JobExit>) -> u8 {
        let job_or = |code: ExitCode| match job {
            Some(exit) if !exit.succeeded() => exit.number(),
            _ => code.number(),
        };
        match self {
            Ending::Completed => job_or(ExitCode::Success),
            Ending::StageInFailed(error) => ExitCode::of_stage_in(error).number(),
            Ending::StageOutFailed(_) => job_or(ExitCode::StageOut),
            Ending::MountLost => job_or(ExitCode::Unavailable),
            Ending::Cancelled => ExitCode::Cancelled.number(),
            Ending::Failed(failure) => failure.exit_code().number(),
        }
    }

    fn outcome(&self, job: Option<JobExit>) -> &'static str {
        match self {
            Ending::Completed if job.is_some_and(|exit| !exit.succeeded()) => "job_failed",
            Ending::Completed => "completed",
            Ending::StageInFailed(_) => "stage_in_failed",
            Ending::StageOutFailed(_) => "stage_out_failed",
            Ending::MountLost => "mount_lost",
            Ending::Cancelled => "cancelled",
            Ending::Failed(_) => "failed",
        }
    }

    fn error(&self) -> Option<ApiError> {
        match self {
            Ending::Completed | Ending::MountLost | Ending::Cancelled => None,
            Ending::StageInFailed(error) | Ending::StageOutFailed(error) => Some(error.clone()),
            Ending::Failed(failure) => Some(failure.as_api_error()),
        }
    }

    /// Commands that go on from here, where the buffer is kept, the one that is sure to first: what a job that was
    /// interrupted wrote may lack what it stages out. That of a job is released with the job.
    fn commands(&self, token: &Token, is_of_job: bool, has_job_ended: bool) -> Vec<String> {
        let words: &[&str] = match self {
            Ending::Completed | Ending::StageInFailed(_) => &["rm"],
            Ending::StageOutFailed(_) => &["stage retry", "rm"],
            Ending::MountLost | Ending::Failed(_) => &["run --resume", "rm"],
            Ending::Cancelled if has_job_ended => &["stage retry", "run --resume", "rm"],
            Ending::Cancelled => &["run --resume", "stage retry", "rm"],
        };
        let usable = |words: &&&str| !is_of_job || **words != "rm";
        words.iter().filter(usable).map(|words| format!("{words} {token}")).collect()
    }
}

impl Summary {
    /// The summary of the run of session `token`.
    pub fn new(token: &Token, ending: &Ending, told: &Told, output: &Output) -> Summary {
        let status = told.status.as_ref();
        let exit = told.job.map(|(exit, _)| exit);
        let instance = status.and_then(|status| status.instance.as_ref());
        let of_job = status.is_some_and(SessionStatus::is_of_job);
        let commands = if told.kept.is_some() { ending.commands(token, of_job, told.ended) } else { vec![] };
        Summary {
            schema: SCHEMA,
            token: Some(token.clone()),
            job_name: status.map(|status| status.script.job_name.clone()),
            script: status.map(|status| status.script.path.display().to_string()),
            outcome: ending.outcome(exit),
            exit_status: ending.exit_status(exit),
            started: told.started,
            job: told.job.map(|(exit, elapsed)| JobSummary {
                exit_status: exit.number(),
                signal: if let JobExit::Signal(signal) = exit { Some(signal) } else { None },
                elapsed_ms: milliseconds(elapsed),
            }),
            phases: phases(told),
            stages: status.iter().flat_map(|status| &status.stages).map(StageSummary::new).collect(),
            results: status.map(results).unwrap_or_default(),
            capacity_bytes: instance.map(|instance| instance.capacity_bytes),
            used_bytes: instance.map(|instance| instance.used_bytes),
            nodes: instance.map(|instance| instance.nodes.clone()).unwrap_or_default(),
            volume: instance.map(|instance| render::volume(instance.volume)),
            kept: told.kept.clone(),
            advice: commands.iter().map(|command| output.command(command)).collect(),
            error: ending.error(),
        }
    }

    /// The summary of a run that was refused before it had a session.
    pub fn of_refusal(exit: ExitCode, error: ApiError) -> Summary {
        Summary {
            schema: SCHEMA,
            outcome: "refused",
            exit_status: exit.number(),
            error: Some(error),
            ..Summary::default()
        }
    }

    /// Whether there never was a buffer to speak of.
    pub fn is_empty(&self) -> bool {
        self.capacity_bytes.is_none() && self.kept.is_none() && self.job.is_none()
    }

    /// What the process exits with.
    pub fn exit_status(&self) -> u8 {
        self.exit_status
    }
}

impl StageSummary {
    fn new(status: &StageStatus) -> StageSummary {
        StageSummary {
            bytes_per_second: render::mean_rate(
                status.progress.bytes_done,
                Duration::from_millis(status.elapsed_ms),
            ),
            verified: status.state == StageState::Complete,
            status: status.clone(),
        }
    }
}

/// The phases in the order of a life, with the job in its place.
fn phases(told: &Told) -> Vec<PhaseSummary> {
    let done = told.status.iter().flat_map(|status| &status.timings_ms);
    let mut phases: Vec<PhaseSummary> = done
        .map(|(function, time)| PhaseSummary { phase: PhaseName::Function(*function), elapsed_ms: *time })
        .collect();
    if let Some((_, elapsed)) = told.job {
        // After the last mount; before what followed it.
        let mount = PhaseName::Function(Function::PreRun);
        let place =
            phases.iter().rposition(|phase| phase.phase == mount).map_or(phases.len(), |index| index + 1);
        phases.insert(place, PhaseSummary { phase: JOB, elapsed_ms: milliseconds(elapsed) });
    }
    if let Some(elapsed) = told.teardown {
        let phase = PhaseName::Function(Function::Teardown);
        phases.push(PhaseSummary { phase, elapsed_ms: milliseconds(elapsed) });
    }
    phases
}

/// Where stage-outs that are complete put their files. Of what a job that failed never made there are none.
fn results(status: &SessionStatus) -> Vec<String> {
    let out = status.stages.iter().filter(|stage| stage.direction == Direction::Out);
    let complete = out.filter(|stage| stage.state == StageState::Complete && !stage.is_unmade());
    complete.map(|stage| stage.destination.clone()).collect()
}

fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
