//! The end of a job: what waits for it is staged out, what failed is tried once more, what still runs is waited for.

use std::collections::BTreeSet;
use std::sync::Arc;

use daemon::error::site;
use model::phase::{Direction, StageState};
use wire::control::ApiError;

use super::{paths, runner};
use crate::control::Control;
use crate::lifecycle::staging::{self, buffer_name};
use crate::site::Site;
use crate::state::demands::{self, Demand};
use crate::state::sessions::Session;
use crate::turns::Cancelled;

/// Brings every stage-out that the job asked for to its end. Stage-ins that nobody needs any more are forgotten.
///
/// # Errors
/// The first failure, or `cancelled`.
pub async fn finish<S: Site>(
    control: &Arc<Control<S>>,
    session: &Session,
    cancelled: &mut Cancelled,
) -> Result<(), ApiError> {
    let unfinished = unfinished(control, &session.token).await?;
    let (ins, outs): (Vec<Demand>, Vec<Demand>) =
        unfinished.into_iter().partition(|demand| demand.direction == Direction::In);
    runner::forget(control, &ins).await?;
    let due: Vec<Demand> = outs
        .iter()
        .filter(|demand| matches!(demand.state, StageState::Deferred | StageState::Failed))
        .cloned()
        .collect();
    runner::set_waiting(control, &due).await?;
    let buffers: BTreeSet<&str> = outs.iter().map(|demand| demand.token.as_str()).collect();
    for token in buffers {
        runner::kick(control, token).await?;
    }
    tokio::select! {
        result = settle(control, &session.token) => result,
        () = staging::told_to_stop(cancelled) => {
            stop_outs(control, &session.token).await?;
            Err(stopped(session))
        }
    }
}

/// Forgets what a session leaves that is destroyed: everything of its own buffer, and what was to wait for its end.
///
/// # Errors
/// The database's.
pub async fn forget<S: Site>(control: &Control<S>, session: &Session) -> Result<(), ApiError> {
    let token = session.token.clone();
    let read = move |tx: &rusqlite::Transaction<'_>| {
        let mut all = demands::unfinished_of(tx, &token)?;
        let asked = demands::unfinished_of_job(tx, &token)?;
        all.extend(asked.into_iter().filter(|demand| demand.state == StageState::Deferred));
        Ok(all)
    };
    let left = control.database.transact(read).await?;
    runner::forget(control, &left).await
}

/// Waits until nothing of the job waits or runs.
async fn settle<S: Site>(control: &Control<S>, job: &str) -> Result<(), ApiError> {
    let mut changes = control.demands.changes.subscribe();
    loop {
        changes.mark_unchanged();
        let left = unfinished(control, job).await?;
        if left.iter().all(|demand| demand.state == StageState::Failed) {
            return judge(control, left).await;
        }
        let _ = changes.changed().await;
    }
}

/// What was removed from the buffer is not owed any more.
async fn judge<S: Site>(control: &Control<S>, failed: Vec<Demand>) -> Result<(), ApiError> {
    let (removed, failed): (Vec<Demand>, Vec<Demand>) = failed.into_iter().partition(paths::is_removed);
    runner::forget(control, &removed).await?;
    let Some(first) = failed.first() else { return Ok(()) };
    let name = buffer_name("", first.access_mode);
    let Some(why) = paths::failures(first, &name).into_iter().next() else { return Ok(()) };
    let message =
        format!("{} stages that the job asked for failed; the first: {}", failed.len(), why.message);
    Err(site("stage_failed", message, why.advice))
}

/// Stops what runs, and leaves all as failed: it is still owed.
async fn stop_outs<S: Site>(control: &Control<S>, job: &str) -> Result<(), ApiError> {
    // Nothing is started meanwhile.
    let _turn = control.demands.turn.lock().await;
    let running = runner::stop(control, &unfinished(control, job).await?);
    runner::ended(control, &running).await;
    // Also those that were stopped in the company of others, which wait again.
    let left = unfinished(control, job).await?;
    let set = move |tx: &rusqlite::Transaction<'_>| {
        for demand in left.iter().filter(|demand| demand.state == StageState::Pending) {
            let name = buffer_name("", demand.access_mode);
            let error = runner::cancelled(demand, &name);
            demands::set_report(tx, demand.number, &demands::failed(demand, &name, error))?;
        }
        Ok(())
    };
    control.database.transact(set).await
}

async fn unfinished<S: Site>(control: &Control<S>, job: &str) -> Result<Vec<Demand>, ApiError> {
    let job = job.to_owned();
    control.database.transact(move |tx| demands::unfinished_of_job(tx, &job)).await
}

fn stopped(session: &Session) -> ApiError {
    let message = format!("the stage-outs that session {} asked for were cancelled", session.token);
    let advice =
        format!("the data is kept in the buffer: run `forebay stage retry {}` to copy it", session.token);
    ApiError { code: "cancelled".into(), blame: wire::control::Blame::User, message, advice }
}
