//! `forebay stage retry`: the stages of a kept buffer again, then its release; of a buffer without a job only what was
//! asked for and failed.

use std::path::PathBuf;

use model::Token;
use model::phase::{Direction, Phase};
use wire::control::{Change, StageStatus};

use super::super::run::conclude;
use super::super::{Context, programs};
use super::client::Client;
use crate::arguments::{Common, Which};
use crate::exit_code::ExitCode;
use crate::failure::Failure;
use crate::life::{Ending, Life};
use crate::output::Output;
use crate::run_record::{Job, RunLock, RunRecord};
use crate::session::Staged;

/// Retries; the result is the process's exit status.
///
/// # Errors
/// There is no such buffer, or another process works on it.
pub async fn retry(token: &Token, output: &Output, dir: Option<PathBuf>) -> Result<u8, Failure> {
    let context = Context::open(output, dir)?;
    let lock = context.records.lock(token)?;
    context.service.ensure_up().await?;
    let ended = retry_locked(&context, token, lock).await;
    if !matches!(ended, Ok(None)) {
        context.service.stop_if_idle().await;
    }
    match ended? {
        Some(exit) => Ok(exit),
        None => on_demand(Client::Own(Box::new(context)), token, output).await,
    }
}

/// Only what was asked for and failed is done again.
async fn on_demand(client: Client, token: &Token, output: &Output) -> Result<u8, Failure> {
    let common = Common { token: Some(token.clone()), persistent: None, wait: true, json: output.json() };
    let which = Which { path: None, common };
    let ended = super::change(&client, &which, Change::Retry, output).await;
    client.close().await;
    ended
}

/// Whether the script of a job stages it out.
fn is_of_job(stage: &StageStatus) -> bool {
    stage.direction == Direction::Out && !stage.is_on_demand()
}

/// Half of a job's results would be called complete.
fn not_ended(context: &Context, token: &Token) -> Failure {
    Failure::no_input(
        format!(
            "the job of buffer {token} was interrupted and has not ended, so its results are not complete"
        ),
        format!(
            "run it again with `{}`; what it has written so far is in the buffer",
            context.output.command(&format!("run --resume {token}"))
        ),
    )
}

/// `None`: there was no job.
async fn retry_locked(context: &Context, token: &Token, lock: RunLock) -> Result<Option<u8>, Failure> {
    // Of a service that cannot say, the record must survive: it alone knows how the job ended.
    let Some(status) = context.session(token).status_if_known().await? else {
        context.records.remove(lock, token);
        return Err(Failure::no_buffer(token));
    };
    if !status.stages.iter().any(|stage| stage.direction == Direction::Out) {
        // What follows a stage-out is the release of the buffer, which nobody asked for here.
        return Err(Failure::usage(
            format!("buffer {token} has no stage_out"),
            format!(
                "copy what you need from it by hand, then `{}`",
                context.output.command(&format!("rm {token}"))
            ),
        ));
    }
    let record = context.records.read(token)?.filter(|record| record.is_of(&status));
    if record.is_none() && !status.stages.iter().any(is_of_job) {
        // What is in the buffer is its user's until `forebay rm`, mounted or not.
        drop(lock);
        return Ok(None);
    }
    let is_started = record.as_ref().is_some_and(|record| matches!(record.job, Job::Started { .. }));
    if is_started && status.phase == Phase::Mounted {
        return Err(not_ended(context, token));
    }
    context.end_leftover(token).await?;
    programs::check_unmountable(&status, "")?;
    if status.phase < Phase::Mounted {
        return stage_in(context, token, status.phase).await.map(Some);
    }
    let record = record.unwrap_or_else(|| {
        RunRecord::new(token.clone(), status.script.clone(), status.script.workdir.clone())
    });
    let life = Life::new(context.session(token), &context.records, lock, record);
    Ok(Some(finish(context, token, life).await))
}

/// What follows a job.
async fn finish(context: &Context, token: &Token, mut life: Life<'_>) -> u8 {
    let ending = life.finish().await;
    let job = conclude(context, token, &ending, &life);
    // The job's status was reported when it ended; here the question is whether its results are out.
    match ending {
        Ending::Completed => ExitCode::Success.number(),
        Ending::StageOutFailed(_) => ExitCode::StageOut.number(),
        _ => job,
    }
}

/// The job has not run, so there is nothing to stage out yet.
async fn stage_in(context: &Context, token: &Token, phase: Phase) -> Result<u8, Failure> {
    let resume = context.output.command(&format!("run --resume {token}"));
    let nothing_out = || {
        Failure::no_input(format!("the job of buffer {token} has not run"), format!("run it with `{resume}`"))
    };
    if phase != Phase::Ready {
        return Err(nothing_out());
    }
    match context.session(token).stage_in().await? {
        Staged::Complete => {
            context.output.say(&format!("forebay: buffer {token} is staged in; run its job with `{resume}`"));
            Ok(ExitCode::Success.number())
        }
        Staged::Failed(error) => Err(Failure::Api(error)),
        Staged::Cancelled => Ok(ExitCode::Cancelled.number()),
    }
}
