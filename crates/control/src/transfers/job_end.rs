//! The end of a job: what waits for it is staged out, what failed is tried once more, what still runs is waited for.

use std::collections::BTreeSet;
use std::sync::Arc;

use daemon::error::site;
use model::Token;
use model::phase::{Direction, StageState};
use wire::control::{ApiError, ErrorCode};

use super::script::told_to_stop;
use super::{on_demand, paths};
use crate::advice;
use crate::app::App;
use crate::site::Site;
use crate::state::sessions::Session;
use crate::state::transfers::{self, PAGE, Transfer};
use crate::token_queue::Cancelled;

/// Brings every stage-out that the job asked for to its end. Stage-ins that nobody needs any more are forgotten.
///
/// # Errors
/// The first failure, or `cancelled`.
pub(crate) async fn finish<S: Site>(
    app: &Arc<App<S>>,
    session: &Session,
    cancelled: &mut Cancelled,
) -> Result<(), ApiError> {
    let mut buffers = BTreeSet::new();
    let mut after = 0;
    loop {
        let some = next(app, &session.token, after).await?;
        let Some(last) = some.last() else { break };
        after = last.number;
        let (ins, outs): (Vec<Transfer>, Vec<Transfer>) =
            some.into_iter().partition(|transfer| transfer.direction == Direction::In);
        on_demand::forget(app, &ins).await?;
        let is_due = |one: &&Transfer| matches!(one.state, StageState::Deferred | StageState::Failed);
        let due: Vec<Transfer> = outs.iter().filter(is_due).cloned().collect();
        on_demand::set_waiting(app, &due).await?;
        buffers.extend(outs.into_iter().map(|transfer| transfer.token));
    }
    for token in &buffers {
        on_demand::kick(app, token).await?;
    }
    tokio::select! {
        result = settle(app, session) => result,
        () = told_to_stop(cancelled) => {
            stop_outs(app, &session.token).await?;
            Err(stopped(session))
        }
    }
}

/// Forgets what a session leaves that is destroyed: everything of its own buffer, and what was to wait for its end.
///
/// # Errors
/// The database's.
pub(crate) async fn forget<S: Site>(app: &App<S>, session: &Session) -> Result<(), ApiError> {
    let (mut after, mut running) = (0, Vec::new());
    loop {
        let token = session.token.clone();
        let some = app.database.transact(move |tx| transfers::unfinished_of(tx, &token, after)).await?;
        let Some(last) = some.last() else { break };
        after = last.number;
        running.append(&mut on_demand::forget_waiting(app, some).await?);
    }
    on_demand::forget(app, &running).await?;
    let mut asked = unfinished(app, &session.token).await?;
    asked.retain(|transfer| transfer.state == StageState::Deferred);
    on_demand::forget(app, &asked).await
}

/// Waits until nothing of the job waits or runs.
async fn settle<S: Site>(app: &App<S>, session: &Session) -> Result<(), ApiError> {
    let job = &session.token;
    let mut changes = app.on_demand.changes();
    loop {
        changes.mark_unchanged();
        let name = job.to_owned();
        let left = match app.database.transact(move |tx| transfers::any_under_way(tx, &name)).await? {
            true => None,
            false => Some(unfinished(app, job).await?),
        };
        if let Some(left) = left
            && left.iter().all(|transfer| transfer.state == StageState::Failed)
        {
            let (removed, failed): (Vec<Transfer>, Vec<Transfer>) =
                left.into_iter().partition(paths::is_source_removed);
            for transfer in &removed {
                let source = transfer.source();
                tracing::info!(?job, source, "a stage-out is not owed: the job removed its source");
            }
            on_demand::forget(app, &removed).await?;
            return judge(job, session.is_of_job(), &failed);
        }
        let _ = changes.changed().await;
    }
}

/// All that failed is owed, also what is not found any more where nobody knows which inode it was: a file that was
/// renamed looks like one that was removed, and the buffer is the only place that has it.
fn judge(job: &Token, is_of_job: bool, failed: &[Transfer]) -> Result<(), ApiError> {
    let Some(first) = failed.first() else { return Ok(()) };
    let Some(why) = paths::failures(first).into_iter().next() else { return Ok(()) };
    let message =
        format!("{} stages that the job asked for failed; the first: {}", failed.len(), why.message);
    let release = if is_of_job { "scancel --hurry" } else { "forebay rm" };
    let advice = if paths::has_lost_source(first) {
        format!(
            "the job renamed or removed it before it was copied: if it is needed, mount the buffer with `forebay mount \
             PATH --token {job}` and copy it under its new name; then release the buffer with `{release} {job}`"
        )
    } else {
        why.advice
    };
    Err(site(ErrorCode::StageFailed, message, advice))
}

/// Stops what runs, and leaves all as failed: it is still owed.
async fn stop_outs<S: Site>(app: &App<S>, job: &Token) -> Result<(), ApiError> {
    let held = app.on_demand.hold().await;
    let (running, _paused) = on_demand::stop(app, &unfinished(app, job).await?);
    fail_waiting(app, job).await?;
    drop(held);
    on_demand::ended(app, &running).await;
    // Also those that were stopped in the company of others, which wait again.
    fail_waiting(app, job).await
}

/// Notes of those that wait that they were stopped.
async fn fail_waiting<S: Site>(app: &App<S>, job: &Token) -> Result<(), ApiError> {
    let mut left = unfinished(app, job).await?;
    left.retain(|transfer| transfer.state == StageState::Pending);
    for some in left.chunks(PAGE) {
        let some = some.to_vec();
        let set = move |tx: &rusqlite::Transaction<'_>| {
            some.iter().try_for_each(|transfer| {
                let stopped = transfer.failed(on_demand::cancelled(transfer));
                transfers::set_report(tx, transfer.number, &stopped)
            })
        };
        app.database.transact(set).await?;
    }
    Ok(())
}

async fn unfinished<S: Site>(app: &App<S>, job: &Token) -> Result<Vec<Transfer>, ApiError> {
    let mut all: Vec<Transfer> = Vec::new();
    loop {
        let mut some = next(app, job, all.last().map_or(0, |transfer| transfer.number)).await?;
        if some.is_empty() {
            return Ok(all);
        }
        all.append(&mut some);
    }
}

async fn next<S: Site>(app: &App<S>, job: &Token, after: u64) -> Result<Vec<Transfer>, ApiError> {
    let job = job.to_owned();
    app.database.transact(move |tx| transfers::unfinished_of_job(tx, &job, after)).await
}

fn stopped(session: &Session) -> ApiError {
    let message = format!("the stage-outs that session {} asked for were cancelled", session.token);
    let advice = advice::kept_until(session);
    ApiError { code: ErrorCode::Cancelled, blame: wire::control::Blame::User, message, advice }
}

#[cfg(test)]
mod tests {
    use model::phase::StageKind;
    use wire::control::{FileFailure, Side, StageStatus};

    use super::*;

    /// A stage of the folder `tmp` that failed at these paths of the buffer, with these errnos.
    fn failed(at: &[(&str, i32)]) -> Transfer {
        let transfer =
            Transfer { state: StageState::Failed, ..Transfer::out(StageKind::Directory, "tmp", "/pfs/tmp") };
        let failure = |(path, errno): &(&str, i32)| FileFailure {
            path: (*path).into(),
            side: Side::Buffer,
            operation: "look up source".into(),
            errno: *errno,
            message: format!("look up source {path}: errno {errno}"),
            advice: "retry the stage".into(),
        };
        let failures = at.iter().map(failure).collect();
        let report = StageStatus { failures, ..transfer.untouched() };
        Transfer { report: Some(report), ..transfer }
    }

    #[test]
    fn a_source_that_is_not_found_is_owed_as_it_may_have_been_renamed() {
        let error = judge(&Token::literal("7"), false, &[failed(&[("$DW_JOB_STRIPED/tmp", 2)])]).unwrap_err();
        assert_eq!(error.code, ErrorCode::StageFailed);
        assert!(error.message.contains("$DW_JOB_STRIPED/tmp"), "{error}");
        assert!(error.advice.contains("renamed or removed"), "{}", error.advice);
        assert!(error.advice.ends_with("`forebay rm 7`"), "{}", error.advice);
        let of_job = judge(&Token::literal("7"), true, &[failed(&[("$DW_JOB_STRIPED/tmp", 2)])]).unwrap_err();
        assert!(of_job.advice.ends_with("`scancel --hurry 7`"), "its removal is refused: {}", of_job.advice);
        judge(&Token::literal("7"), false, &[]).unwrap();
    }

    #[test]
    fn a_file_of_a_folder_that_is_not_found_does_not_speak_for_the_others() {
        let failures = [("$DW_JOB_STRIPED/tmp/a", 2), ("$DW_JOB_STRIPED/tmp/b", 5)];
        let error = judge(&Token::literal("7"), false, &[failed(&failures)]).unwrap_err();
        assert_eq!(error.advice, "retry the stage");
    }
}
