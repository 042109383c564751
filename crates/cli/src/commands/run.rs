//! `forebay run`: a batch script from its check to its summary, or an interrupted one from where it was.

use std::path::PathBuf;

use model::Token;
use wire::control::{JobProcess, JobSummary, NewToken};

use super::{Context, checked_token};
use crate::arguments::Run;
use crate::exit_code::ExitCode;
use crate::failure::Failure;
use crate::life::{Ending, Life};
use crate::output::Output;
use crate::run_record::{Job, RunLock, RunRecord};
use crate::script::Submission;
use crate::summary::Summary;
use crate::{identity, preflight, script};

/// Runs or resumes; the result is the process's exit status.
///
/// # Errors
/// What keeps the job from having a session.
pub async fn run(arguments: Run, output: &Output, dir: Option<PathBuf>) -> Result<u8, Failure> {
    match arguments.resume.clone() {
        Some(token) => resume(token.as_deref(), output, dir).await,
        None => submit(arguments, output, dir).await,
    }
}

async fn submit(arguments: Run, output: &Output, dir: Option<PathBuf>) -> Result<u8, Failure> {
    let folder = std::env::current_dir().map_err(|e| {
        Failure::no_input(format!("find the current folder: {e}"), "change to a folder that exists")
    })?;
    let path = arguments.script.clone().unwrap_or_default();
    let submission = script::read(&path, &folder)?;
    preflight::can_mount()?;
    let context = Context::open(output, dir)?;
    context.service.ensure_up().await?;
    let registered = register(&context, arguments, submission).await;
    let ended = match registered {
        Ok((lock, record, notes)) => Ok(live(&context, lock, record, notes).await),
        Err(failure) => Err(failure),
    };
    context.service.stop_if_idle().await;
    ended
}

/// Checks the script with control, and takes a token for it. The last part of the result is what the user should know.
async fn register(
    context: &Context,
    arguments: Run,
    submission: Submission,
) -> Result<(RunLock, RunRecord, Vec<String>), Failure> {
    let request = JobProcess { script: submission.script.clone(), owner: identity::owner() };
    let summary: JobSummary = context.service.post("/v1/job_process", &request).await?;
    let mut notes = summary.notes;
    if !submission.ignored.is_empty() {
        let names = submission.ignored.join(" ");
        notes.push(format!("#SBATCH options without meaning here are ignored: {names}"));
    }
    let NewToken { token } = context.service.post("/v1/tokens", &serde_json::json!({})).await?;
    let token = checked_token(token.as_str())?;
    let lock = context.records.lock(&token)?;
    let record = RunRecord {
        arguments: arguments.arguments,
        ntasks: submission.ntasks,
        fragments: arguments.nodes,
        volume: arguments.volume.map(Into::into),
        keep: arguments.keep,
        ..RunRecord::new(token, submission.script, submission.submit_folder)
    };
    context.records.write(&lock, &record)?;
    Ok((lock, record, notes))
}

/// Lives the session's life, and says how it was.
async fn live(context: &Context, lock: RunLock, record: RunRecord, notes: Vec<String>) -> u8 {
    let token = record.token.clone();
    let mut life = Life::new(context.session(&token), &context.records, lock, record).with_notes(notes);
    let ending = life.run().await;
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

async fn resume(token: Option<&str>, output: &Output, dir: Option<PathBuf>) -> Result<u8, Failure> {
    preflight::can_mount()?;
    let context = Context::open(output, dir)?;
    let token = match token {
        Some(token) => checked_token(token)?,
        None => newest(&context)?,
    };
    let lock = context.records.lock(&token)?;
    context.service.ensure_up().await?;
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
                "run the script again",
            ))
        }
        _ => {
            record.forebay_pid = std::process::id();
            record.releasing = false;
            Ok(live(context, lock, record, vec![]).await)
        }
    }
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
