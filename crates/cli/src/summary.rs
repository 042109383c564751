//! What a run says when it is over, for people and for programs.

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

    /// Commands that go on from here, where the buffer is kept. That of a job is released with the job.
    fn commands(&self, token: &Token, is_of_job: bool) -> Vec<String> {
        let words: &[&str] = match self {
            Ending::Completed | Ending::StageInFailed(_) => &["rm"],
            Ending::StageOutFailed(_) => &["stage retry", "rm"],
            Ending::MountLost | Ending::Failed(_) => &["run --resume", "rm"],
            Ending::Cancelled => &["stage retry", "run --resume", "rm"],
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
        let commands = if told.kept.is_some() { ending.commands(token, of_job) } else { vec![] };
        Summary {
            schema: SCHEMA,
            token: Some(token.clone()),
            job_name: status.map(|status| status.script.job_name.clone()),
            script: status.map(|status| status.script.path.display().to_string()),
            outcome: ending.outcome(exit),
            exit_status: ending.exit_status(exit),
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

#[cfg(test)]
mod tests {
    use wire::control::Remark;

    use super::*;
    use crate::fixtures;

    fn told(exit: u8) -> Told {
        Told {
            status: Some(fixtures::session()),
            job: Some((JobExit::Status(exit), Duration::from_millis(1_500))),
            teardown: None,
            kept: Some("its stage-out is not complete".into()),
        }
    }

    fn output() -> Output {
        Output::new(false, None)
    }

    #[test]
    fn a_failed_stage_out_shows_what_is_kept_and_how_to_retry() {
        let ending = Ending::StageOutFailed(fixtures::refusal());
        let text = Summary::new(&Token::literal("3"), &ending, &told(0), &output()).text();
        let expected = "\
forebay: session 3 (stars): stage out failed, job exit status 0
  set up           150 ms
  stage in          2.0 s
    stage_in /pfs/stars -> $DW_JOB_STRIPED/stars
      38 MiB, 4 entries, 2.0 s, 19 MiB/s, verified
  mount             40 ms
  job               1.5 s
  unmount           30 ms
  stage out        failed
    stage_out $DW_JOB_STRIPED/results -> /pfs/results
      2 MiB, 2 entries, 2.0 s, 1 MiB/s, FAILED (1 entry not copied)
  error      1 of 3 entries could not be staged out; correct the cause and run `forebay stage retry 3`
  kept       buffer 3: its stage-out is not complete
             forebay stage retry 3
             forebay rm 3";
        assert_eq!(text, expected);
    }

    #[test]
    fn what_a_stage_could_not_keep_is_said_at_the_end() {
        let mut told = told(0);
        let notes = &mut told.status.as_mut().unwrap().stages[0].notes;
        let remark =
            |path: &str| Remark { path: path.into(), text: "attribute user.a cannot be kept".into() };
        notes.remarks = ["/pfs/a", "/pfs/b", "/pfs/c", "/pfs/d"].map(remark).to_vec();
        notes.remarks_total = 120;
        let text = Summary::new(&Token::literal("3"), &Ending::Completed, &told, &output()).text();
        assert!(text.contains("      remark: /pfs/a: attribute user.a cannot be kept\n"), "{text}");
        assert!(!text.contains("/pfs/d"), "{text}");
        assert!(text.contains("      and 117 more remarks; --json has up to 100\n"), "{text}");
    }

    #[test]
    fn advised_commands_repeat_the_folder() {
        let output = Output::new(false, Some("/scratch/b".into()));
        let ending = Ending::StageOutFailed(fixtures::refusal());
        let text = Summary::new(&Token::literal("3"), &ending, &told(0), &output).text();
        assert!(text.contains("forebay stage retry 3 --dir /scratch/b"), "{text}");
    }

    #[test]
    fn the_jobs_status_wins_over_that_of_its_stage_out() {
        let failed = || Ending::StageOutFailed(fixtures::refusal());
        assert_eq!(failed().exit_status(Some(JobExit::Status(0))), 74);
        assert_eq!(failed().exit_status(Some(JobExit::Status(3))), 3);
        assert_eq!(Ending::Completed.exit_status(Some(JobExit::Signal(9))), 137);
        assert_eq!(Ending::Completed.exit_status(Some(JobExit::Status(0))), 0);
        assert_eq!(Ending::Cancelled.exit_status(None), 130);
        assert_eq!(Ending::StageInFailed(fixtures::refusal()).exit_status(None), 69);
    }

    #[test]
    fn programs_read_the_same_facts() {
        let mut told = Told { kept: None, ..told(0) };
        told.status.as_mut().unwrap().stages[1].state = StageState::Complete;
        let summary = Summary::new(&Token::literal("3"), &Ending::Completed, &told, &output());
        let json = serde_json::to_value(&summary).unwrap();
        assert_eq!(json["schema"], 1);
        assert_eq!(json["outcome"], "completed");
        assert_eq!(json["exit_status"], 0);
        assert_eq!(json["job"]["elapsed_ms"], 1_500);
        assert_eq!(json["stages"][0]["progress"]["bytes_done"], 38 << 20);
        assert_eq!(json["stages"][0]["verified"], true);
        assert_eq!(json["results"][0], "/pfs/results");
        assert_eq!(json["kept"], serde_json::Value::Null);
        let phases: Vec<&str> =
            json["phases"].as_array().unwrap().iter().map(|phase| phase["phase"].as_str().unwrap()).collect();
        assert_eq!(phases, ["setup", "data_in", "pre_run", "job", "post_run"]);
    }
}
