//! `forebay check`: everything that `forebay run` or `sbatch`, the stage-in and the stage-out would find wrong with a
//! script, without running it.

mod files;

use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use model::Token;
use model::directive::{self, Directive};
use model::phase::Redundancy;
use serde::Serialize;
use wire::control::{ErrorCode, JobProcess, JobSummary, Script, one_machine};

use super::cluster::Control;
use crate::arguments::{Check, Run};
use crate::exit_code::ExitCode;
use crate::failure::Failure;
use crate::job::streams;
use crate::output::Output;
use crate::run_record::RunRecord;
use crate::script::{self, Examined, Submission};
use crate::{env, identity, render};

/// How long this user's own control service may take to answer.
const ANSWER: Duration = Duration::from_secs(10);

/// What control says of sources was found here already.
const FOUND_HERE: [ErrorCode; 2] = [ErrorCode::SourceUnreadable, ErrorCode::WrongKind];

/// Something that is wrong.
#[derive(Debug)]
struct Mistake {
    exit: ExitCode,
    /// One line, or several where a failure has several.
    text: String,
}

impl From<Failure> for Mistake {
    fn from(failure: Failure) -> Mistake {
        Mistake { exit: failure.exit_code(), text: failure.to_string() }
    }
}

/// What `--json` prints.
#[derive(Serialize)]
struct Report<'a> {
    schema: u32,
    script: &'a Path,
    mistakes: Vec<&'a str>,
    notes: Vec<String>,
    asked: bool,
}

/// Checks; the result is the process's exit status.
///
/// # Errors
/// The script cannot be read.
pub async fn run(
    arguments: &Check,
    cluster: bool,
    output: &Output,
    dir: Option<PathBuf>,
) -> Result<u8, Failure> {
    let folder = script::current_folder()?;
    let examined = script::examine(&arguments.script, &folder, &Run::default());
    let Examined { submission, failures } = match examined {
        Err(failure) if output.json() => {
            return Ok(tell_unread(&folder.join(&arguments.script), failure, output));
        }
        examined => examined?,
    };
    let (script, directives) = (submission.whole(), &submission.directives);
    let is_ours = |failure: &Failure| !(cluster && failure.is_for_sbatch());
    let mut mistakes: Vec<Mistake> = failures.into_iter().filter(is_ours).map(Mistake::from).collect();
    let place = |line| format!("{}: line {line}", script.path.display());
    mistakes.extend(files::mistakes(directives, place));
    let record = RunRecord::new(Token::unchecked("0"), script.clone(), folder);
    mistakes.extend(streams::places(&record).err().map(Mistake::from));
    let mut notes = Vec::new();
    if !cluster {
        mistakes.extend(of_one_machine(directives, place));
        notes.extend(needs_nodes(directives));
    }
    let asks_for_some = directives
        .directives
        .iter()
        .any(|located| !matches!(located.directive, Directive::StageIn(_) | Directive::StageOut(_)));
    let is_readable = mistakes.iter().all(|mistake| mistake.exit != ExitCode::Script);
    let asked = if asks_for_some && is_readable { ask(&script, cluster, output, dir).await } else { None };
    match &asked {
        Some(Ok(summary)) => notes.extend(summary.notes.iter().cloned()),
        Some(Err(Failure::Api(error))) if FOUND_HERE.contains(&error.code) => {}
        Some(Err(failure)) => mistakes.push(Mistake { exit: failure.exit_code(), text: failure.to_string() }),
        None => notes.push("no control service was asked: whether a pool has the room is not known".into()),
    }
    Ok(tell(&script, &mistakes, notes, asked.is_some(), output))
}

/// What this user's own control refuses, whether it runs now or not.
fn of_one_machine(
    directives: &directive::Script,
    place: impl Fn(u32) -> String,
) -> impl Iterator<Item = Mistake> {
    let refusals = one_machine::refusals(directives).into_iter();
    refusals.map(move |(line, error)| Mistake {
        exit: ExitCode::of_refusal(&error),
        text: format!("{}: {error}", place(line)),
    })
}

/// What a script that is right also needs of the command that runs it.
fn needs_nodes(directives: &directive::Script) -> Option<String> {
    let is_mirror = |directive: &Directive| match directive {
        Directive::JobDw(job) => job.behaviour.redundancy == Redundancy::Mirror,
        _ => false,
    };
    let needs = directives.directives.iter().any(|located| is_mirror(&located.directive));
    needs.then(|| "redundancy=mirror keeps each byte on two nodes: run it with --nodes 2, or more".into())
}

/// Refuses a command whose stages could not do what its options ask for, as far as that is seen here.
///
/// # Errors
/// A source is not there, or nothing can be made where something is to be staged out to: all of them.
pub fn refuse_wrong_places(submission: &Submission) -> Result<(), Failure> {
    let option = |line| submission.added.option(&submission.script.text, line).unwrap_or_default();
    let mistakes = files::mistakes(&submission.directives, |line| format!("forebay: {}", option(line)));
    let exit = match exit_code(&mistakes) {
        ExitCode::Success => return Ok(()),
        ExitCode::Script => ExitCode::Usage,
        exit => exit,
    };
    Err(Failure::Lines { exit, lines: mistakes.into_iter().map(|mistake| mistake.text).collect() })
}

/// What the control service says of pools and rights; `None` where there is none, or it is of no use to ask.
async fn ask(
    script: &Script,
    cluster: bool,
    output: &Output,
    dir: Option<PathBuf>,
) -> Option<Result<JobSummary, Failure>> {
    let owner = identity::owner();
    let submitter = cluster.then_some(owner.uid);
    let request = JobProcess { script: script.clone(), owner, submitter };
    if cluster {
        let asked = Control::of_cluster(output).post("/v1/job_process", &request);
        return Some(asked);
    }
    // One that does not run is not started for a check.
    let folder = disk::state::existing(dir.or_else(env::state_folder))?;
    let socket = folder.join("control.sock");
    UnixStream::connect(&socket).ok()?;
    let client = daemon::client::Client::new(socket).with_timeout(ANSWER);
    match client.post("/v1/job_process", &request).await {
        Err(api::CallError::Refused(error)) => Some(Err(Failure::Api(error))),
        asked => asked.ok().map(Ok),
    }
}

/// Of a script that cannot be read: the only mistake that is known.
fn tell_unread(script: &Path, failure: Failure, output: &Output) -> u8 {
    output.note(&failure.shown());
    let mistake = Mistake::from(failure);
    output.object(&Report {
        schema: 1,
        script,
        mistakes: vec![&mistake.text],
        notes: Vec::new(),
        asked: false,
    });
    mistake.exit.number()
}

fn tell(script: &Script, mistakes: &[Mistake], notes: Vec<String>, asked: bool, output: &Output) -> u8 {
    let path = &script.path;
    let lines: Vec<&str> = mistakes.iter().flat_map(|mistake| mistake.text.lines()).collect();
    for line in &lines {
        // Those of directives name the script already.
        let is_named = line.starts_with(&*path.to_string_lossy());
        output.note(&if is_named { (*line).to_owned() } else { format!("{}: {line}", path.display()) });
    }
    for note in &notes {
        output.note(&format!("forebay: note: {note}"));
    }
    if output.json() {
        output.object(&Report { schema: 1, script: path, mistakes: lines, notes, asked });
    } else if mistakes.is_empty() {
        output.say(&format!("forebay: {} has no mistakes", path.display()));
    } else {
        let count = render::counted(lines.len() as u64, "mistake", "mistakes");
        output.say(&format!("forebay: {} has {count}", path.display()));
    }
    exit_code(mistakes).number()
}

/// A script that is wrong comes before files that are not there, and these before a service that cannot say.
fn exit_code(mistakes: &[Mistake]) -> ExitCode {
    let is = |code| mistakes.iter().any(|mistake| mistake.exit == code);
    let first = [ExitCode::Script, ExitCode::NoInput].into_iter().find(|code| is(*code));
    first.or_else(|| Some(mistakes.first()?.exit)).unwrap_or(ExitCode::Success)
}
