//! `forebay run`: a batch script from its check to its summary, or an interrupted one from where it was.

mod array;

use std::future::pending;
use std::path::PathBuf;

use model::Token;
use wire::control::{JobProcess, JobSummary, NewToken, Script};

use super::Context;
use crate::arguments::Run;
use crate::exit_code::ExitCode;
use crate::failure::Failure;
use crate::job::streams;
use crate::life::{Ending, Life};
use crate::output::Output;
use crate::run_record::{ArrayTask, Job, RunLock, RunRecord};
use crate::script::{Submission, data};
use crate::summary::Summary;
use crate::{identity, kept_in, preflight, script};

/// Runs or resumes; the result is the process's exit status.
///
/// # Errors
/// What keeps the job from having a session.
pub async fn run(arguments: Run, output: &Output, dir: Option<PathBuf>) -> Result<u8, Failure> {
    match arguments.resume.clone() {
        Some(token) => resume(token, output, dir).await,
        None => submit(arguments, output, dir).await,
    }
}

async fn submit(arguments: Run, output: &Output, dir: Option<PathBuf>) -> Result<u8, Failure> {
    let path = arguments.script.clone().unwrap_or_default();
    let submission = script::read(&path, &script::current_folder()?, &arguments)?;
    start(&arguments, &submission, output, dir).await
}

/// Runs what was checked here; the result is the process's exit status.
///
/// # Errors
/// What keeps the job from having a session.
pub async fn start(
    arguments: &Run,
    submission: &Submission,
    output: &Output,
    dir: Option<PathBuf>,
) -> Result<u8, Failure> {
    preflight::can_mount()?;
    preflight::can_make(arguments.job.volume)?;
    let context = Context::open(output, dir)?;
    context.service.ensure_up_to_mount(context.service.folder()).await?;
    let ended = match &submission.array {
        Some(array) => array::run(&context, arguments, submission, array).await,
        None => one(&context, arguments, submission, pending()).await,
    };
    context.service.stop_if_idle().await;
    ended
}

/// Runs what is no array, unless the machines under it are `lost`.
///
/// # Errors
/// What keeps the job from having a session.
pub async fn one(
    context: &Context,
    arguments: &Run,
    submission: &Submission,
    lost: impl Future<Output = Failure>,
) -> Result<u8, Failure> {
    let (lock, record, notes) = register(context, arguments, submission, |_| None).await?;
    Ok(live(context, lock, record, notes, lost).await)
}

/// Checks the script with control, and takes a token for it, with which `array_task` says which task of an array it is.
/// The last part of the result is what the user should know.
async fn register(
    context: &Context,
    arguments: &Run,
    submission: &Submission,
    array_task: impl Fn(&Token) -> Option<ArrayTask>,
) -> Result<(RunLock, RunRecord, Vec<String>), Failure> {
    // What stands for the number of an array that has none yet is replaced by control.
    let script = unnumbered(submission, array_task(&Token::unchecked("%j")));
    let request = JobProcess { script, owner: identity::owner(), submitter: None };
    let summary: JobSummary = context.service.post("/v1/job_process", &request).await?;
    let mut notes = summary.notes;
    if !submission.ignored.is_empty() {
        let names = submission.ignored.join(" ");
        notes.push(format!("#SBATCH options without meaning here are ignored: {names}"));
    }
    let NewToken { token } = context.service.post("/v1/tokens", &serde_json::json!({})).await?;
    let lock = context.records.lock(&token)?;
    let record = RunRecord {
        arguments: arguments.arguments.clone(),
        added: submission.added.clone(),
        is_command: submission.is_command,
        array_task: array_task(&token),
        fragments: arguments.job.nodes,
        hosts: submission.hosts.clone(),
        volume: arguments.job.volume.map(Into::into),
        keep: arguments.job.keep,
        ..RunRecord::new(token, submission.script.clone(), submission.submit_folder.clone())
    };
    notes.extend(kept_in::remark(context.service.folder(), &data(&record)));
    notes.extend(streams::places(&record)?);
    context.records.write(&lock, &record)?;
    Ok((lock, record, notes))
}

/// The script that is to be run, as far as it is known without a token.
fn unnumbered(submission: &Submission, array_task: Option<ArrayTask>) -> Script {
    let (script, folder) = (submission.script.clone(), submission.submit_folder.clone());
    let record = RunRecord::new(Token::unchecked("0"), script, folder);
    RunRecord { added: submission.added.clone(), array_task, ..record }.submitted()
}

/// Lives the session's life, and says how it was.
async fn live(
    context: &Context,
    lock: RunLock,
    record: RunRecord,
    notes: Vec<String>,
    lost: impl Future<Output = Failure>,
) -> u8 {
    let token = record.token.clone();
    let mut life = Life::new(context.session(&token), &context.records, lock, record).with_notes(notes);
    let ended = tokio::select! {
        ending = life.run() => Ok(ending),
        failure = lost => Err(failure),
    };
    let ending = match ended {
        Ok(ending) => ending,
        Err(failure) => life.abandon(failure).await,
    };
    conclude(context, &token, &ending, &life)
}

/// Prints the summary; the result is the process's exit status.
pub fn conclude(context: &Context, token: &Token, ending: &Ending, life: &Life<'_>) -> u8 {
    let summary = Summary::new(token, ending, life.told(), &context.output);
    if let Ending::Failed(failure) = ending {
        context.output.note(&failure.shown());
    }
    if !(matches!(ending, Ending::Failed(_)) && summary.is_empty()) {
        context.output.say(&summary.text());
    }
    if context.output.json() {
        context.output.object(&summary);
    }
    summary.exit_status()
}

async fn resume(token: Option<Token>, output: &Output, dir: Option<PathBuf>) -> Result<u8, Failure> {
    preflight::can_mount()?;
    let context = Context::open(output, dir)?;
    let token = match token {
        Some(token) => token,
        None => newest(&context)?,
    };
    let lock = context.records.lock(&token)?;
    context.service.ensure_up_to_mount(context.service.folder()).await?;
    let ended = resume_locked(&context, &token, lock).await;
    context.service.stop_if_idle().await;
    ended
}

async fn resume_locked(context: &Context, token: &Token, lock: RunLock) -> Result<u8, Failure> {
    let Some(mut record) = context.records.read(token)? else {
        context.records.remove(lock, token);
        return Err(Failure::no_input(
            format!("no run with token {token} was interrupted"),
            "`forebay status` lists what can be resumed",
        ));
    };
    let known = context.session(token).status_if_known().await?;
    if known.as_ref().is_some_and(|known| !record.is_of(known)) {
        return Err(record.of_another(&context.records.record_path(token)));
    }
    context.end_leftover(token).await?;
    record.session_created_unix = known.as_ref().map(|known| known.created_unix);
    match (&record.job, known) {
        (_, None) if record.releasing => {
            context.records.remove(lock, token);
            context
                .output
                .say(&format!("forebay: session {token} had come to its end; nothing is left to do"));
            Ok(match record.job {
                Job::Ended { exit, .. } => exit.number(),
                _ => ExitCode::Success.number(),
            })
        }
        (Job::Started { .. } | Job::Ended { .. }, None) => {
            context.records.remove(lock, token);
            Err(Failure::no_input(
                format!("buffer {token} is gone, and with it what its job wrote"),
                format!("run the {} again", record.what()),
            ))
        }
        _ => Ok(go_on(context, lock, record).await),
    }
}

/// Lives the rest of an interrupted run's life.
async fn go_on(context: &Context, lock: RunLock, record: RunRecord) -> u8 {
    let record = RunRecord { forebay_pid: std::process::id(), releasing: false, ..record };
    if !matches!(record.job, Job::Ended { .. }) && !record.script_is_unchanged() {
        let path = record.script.path.display();
        let advice = context.output.command(&format!("rm {}", record.token));
        context.output.note(&format!(
            "forebay: note: {path} was changed since; what runs is the script as it was submitted. To run the new one, \
             give the buffer up with `{advice}` and run it"
        ));
    }
    let status = live(context, lock, record.clone(), vec![], pending()).await;
    // Nobody noted whether they were run since.
    array::say_what_follows(context, &record, "that come after this one, unless they were run since");
    status
}

/// The newest run that nobody works on.
fn newest(context: &Context) -> Result<Token, Failure> {
    let records = context.records.all()?;
    if let Some(record) = records.iter().find(|record| !context.records.is_live(&record.token)) {
        return Ok(record.token.clone());
    }
    Err(match records.first() {
        Some(record) => Failure::Refused {
            exit: ExitCode::Busy,
            message: format!("session {} is still being run by process {}", record.token, record.forebay_pid),
            advice: "wait for it".into(),
        },
        None => Failure::no_input("no run was interrupted", "start one with `forebay run SCRIPT`"),
    })
}
