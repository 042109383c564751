//! Runs transfers on demand at the nodes: a task each, as many at once as the buffer allows.
//!
//! ```text
//! asked -> pending --its turn--> active --> complete, failed
//!       -> deferred --activate, end of the job--> pending            (job_end)
//! ```

use std::collections::BTreeSet;
use std::pin::Pin;
use std::sync::Arc;

use model::Token;
use model::phase::{Direction, StageState};
use tokio::sync::watch;
use wire::control::{ApiError, Blame, ErrorCode, StageProgress, StageStatus};
use wire::node::StagePolicy;

use super::running::Pause;
use super::{runner, specification};
use crate::app::App;
use crate::lifecycle::mounting;
use crate::site::Site;
use crate::state;
use crate::state::leftovers;
use crate::state::transfers::{self, Transfer};

/// Goes on with what an earlier life of control accepted.
///
/// # Errors
/// The database's.
pub(crate) async fn resume<S: Site>(app: &Arc<App<S>>) -> Result<(), ApiError> {
    for token in app.database.transact(transfers::resume).await? {
        kick(app, &token).await?;
    }
    Ok(())
}

/// Starts what may run of a buffer.
///
/// # Errors
/// The database's.
pub(crate) async fn kick<S: Site>(app: &Arc<App<S>>, token: &Token) -> Result<(), ApiError> {
    let _held = app.on_demand.hold().await;
    let (token, paused) = (token.to_owned(), app.on_demand.paused().clone());
    for batch in app.database.transact(move |tx| transfers::start_next(tx, &token, &paused)).await? {
        let stop = watch::Sender::new(false);
        app.on_demand.stops().extend(batch.iter().map(|transfer| (transfer.number, stop.clone())));
        tokio::spawn(run(Arc::clone(app), batch, stop));
    }
    Ok(())
}

/// Starts what may run of a buffer when a worker in it has ended, and of others where its user had all the workers that
/// he may have. One that `was_stopped` had its user paused: what was asked for elsewhere then waits, too.
async fn kick_next<S: Site>(
    app: &Arc<App<S>>,
    (token, owner): (&Token, u32),
    was_stopped: bool,
) -> Result<(), ApiError> {
    app.on_demand.until_not_paused(owner).await;
    kick(app, token).await?;
    let others = move |tx: &rusqlite::Transaction<'_>| transfers::waiting_for_user(tx, owner, was_stopped);
    for other in app.database.transact(others).await? {
        kick(app, &other).await?;
    }
    Ok(())
}

/// Puts transfers that wait for the job's end, or that failed, into the line.
///
/// # Errors
/// The database's.
pub(crate) async fn set_waiting<S: Site>(app: &App<S>, found: &[Transfer]) -> Result<(), ApiError> {
    let _held = app.on_demand.hold().await;
    let numbers: Vec<u64> = found.iter().map(|transfer| transfer.number).collect();
    let set = move |tx: &rusqlite::Transaction<'_>| {
        numbers.iter().try_for_each(|number| transfers::set_waiting(tx, *number))
    };
    app.database.transact(set).await
}

/// Stops transfers and forgets them.
///
/// # Errors
/// The database's.
pub(crate) async fn forget<S: Site>(app: &App<S>, found: &[Transfer]) -> Result<(), ApiError> {
    // Those that wait first: none of them may take the place of one that is stopped. Of these users nothing is started
    // meanwhile, so that who was stopped only for another's sake still waits.
    let held = app.on_demand.hold().await;
    let (running, paused) = stop(app, found);
    let numbers = found.iter().map(|transfer| transfer.number);
    let waiting: Vec<u64> = numbers.filter(|number| !running.contains(number)).collect();
    delete(app, &waiting).await?;
    // A worker whose read hangs ends late: others' need not wait for that.
    drop(held);
    ended(app, &running).await;
    delete(app, &running).await?;
    // Nobody starts them any more, and their nodes may answer late.
    drop(paused);
    for transfer in found.iter().filter(|transfer| transfer.has_failed()) {
        forget_at_node(app, transfer).await?;
    }
    Ok(())
}

/// Forgets those of a page that wait or have ended; replies the others. Where these are stopped after the last page,
/// nothing of a later one takes their place.
///
/// # Errors
/// The database's.
pub(crate) async fn forget_waiting<S: Site>(
    app: &App<S>,
    page: Vec<Transfer>,
) -> Result<Vec<Transfer>, ApiError> {
    let (running, waiting): (Vec<Transfer>, Vec<Transfer>) =
        page.into_iter().partition(|transfer| transfer.state == StageState::Active);
    forget(app, &waiting).await?;
    Ok(running)
}

async fn delete<S: Site>(app: &App<S>, numbers: &[u64]) -> Result<(), ApiError> {
    for some in numbers.chunks(transfers::PAGE) {
        let some = some.to_vec();
        let delete = move |tx: &rusqlite::Transaction<'_>| {
            some.iter().try_for_each(|number| transfers::delete(tx, *number))
        };
        app.database.transact(delete).await?;
    }
    Ok(())
}

/// Has the node of a transfer forget what it kept of it for another try.
async fn forget_at_node<S: Site>(app: &App<S>, transfer: &Transfer) -> Result<(), ApiError> {
    let Some((left, error)) = runner::discard(app, transfer).await? else { return Ok(()) };
    tracing::warn!(id = left.id, node = ?left.node, %error, "cannot have a node forget a stage");
    if app.site.cluster().is_none() {
        return Ok(());
    }
    app.database.transact(move |tx| leftovers::add(tx, &left)).await
}

/// Tells those that run to stop; replies their numbers. Of their users nothing is started while the other is there;
/// whoever calls it holds the scheduling.
pub(super) fn stop<'a, S: Site>(app: &'a App<S>, found: &[Transfer]) -> (Vec<u64>, Pause<'a>) {
    let (mut running, mut users) = (Vec::new(), BTreeSet::new());
    let stops = app.on_demand.stops();
    for transfer in found {
        if let Some(stop) = stops.get(&transfer.number) {
            stop.send_replace(true);
            running.push(transfer.number);
            users.insert(transfer.owner.uid);
        }
    }
    drop(stops);
    (running, app.on_demand.pause(users.into_iter().collect()))
}

/// Waits until none of these stages runs any more.
pub(crate) async fn ended<S: Site>(app: &App<S>, numbers: &[u64]) {
    let mut changes = app.on_demand.changes();
    loop {
        changes.mark_unchanged();
        if !numbers.iter().any(|number| app.on_demand.stops().contains_key(number)) {
            return;
        }
        let _ = changes.changed().await;
    }
}

/// Whether the node keeps what it knows of stages that ended like this, for another try.
fn is_kept(batch: &[Transfer], end: &Result<StageStatus, ApiError>) -> bool {
    batch.len() == 1 && end.as_ref().is_ok_and(|report| report.state == StageState::Failed)
}

/// What one worker stages to its end, and then the next. Boxed, as the next is of the same kind.
fn run<S: Site>(
    app: Arc<App<S>>,
    batch: Vec<Transfer>,
    stop: watch::Sender<bool>,
) -> Pin<Box<dyn Future<Output = ()> + Send>> {
    Box::pin(async move {
        let (token, owner) = (batch[0].token.clone(), batch[0].owner.uid);
        let result = copy(&app, &batch, &mut stop.subscribe()).await;
        let (stages, first) = (batch.len(), batch[0].number);
        match &result {
            Ok(report) => {
                tracing::info!(?token, first, stages, state = ?report.state, "stages on demand ended")
            }
            Err(error) => tracing::info!(?token, first, stages, %error, "stages on demand ended"),
        }
        let last = batch.first().filter(|_| is_kept(&batch, &result)).cloned();
        let note = move |tx: &rusqlite::Transaction<'_>| {
            note(tx, &batch, &result)?;
            // The same may have been asked for again meanwhile: nobody tries this one again.
            Ok(transfers::find(tx, first)?.is_none())
        };
        let noted = app.database.transact(note).await;
        let forgotten = match (noted, last) {
            (Ok(true), Some(last)) => forget_at_node(&app, &last).await,
            (noted, _) => noted.map(drop),
        };
        if let Err(error) = forgotten {
            tracing::error!(?token, first, %error, "cannot note that stages have ended");
        }
        // Not by their numbers: those that are to be staged alone now may run again already.
        app.on_demand.stops().retain(|_, of| !of.same_channel(&stop));
        app.on_demand.changed();
        let was_stopped = *stop.borrow();
        if let Err(error) = kick_next(&app, (&token, owner), was_stopped).await {
            tracing::error!(?token, %error, "cannot start the stages that wait");
        }
    })
}

/// Notes how the stages of one worker ended. Which of several it was that failed is found by staging each alone.
fn note(
    tx: &rusqlite::Transaction<'_>,
    batch: &[Transfer],
    result: &Result<StageStatus, ApiError>,
) -> state::Result<()> {
    match (batch, result) {
        ([transfer], Ok(report)) => transfers::end(tx, transfer.number, report),
        ([transfer], Err(error)) => transfers::end(tx, transfer.number, &transfer.failed(error.clone())),
        (_, Ok(report)) if report.state == StageState::Complete => {
            let hints = || batch.iter().map(|transfer| transfer.size_hint().unwrap_or(0));
            let sizes_are_true = hints().sum::<u64>() == report.progress.bytes_total;
            batch.iter().zip(hints()).try_for_each(|(transfer, size)| {
                let size = if sizes_are_true { size } else { 0 };
                transfers::end(tx, transfer.number, &complete(transfer, size, report.elapsed_ms))
            })
        }
        _ => batch.iter().try_for_each(|transfer| transfers::set_alone(tx, transfer.number)),
    }
}

/// The report of one of several files that are complete.
fn complete(transfer: &Transfer, size: u64, elapsed_ms: u64) -> StageStatus {
    let progress = StageProgress {
        entries_total: 1,
        entries_done: 1,
        bytes_total: size,
        bytes_done: size,
        bytes_verified: size,
        bytes_moved: size,
        bytes_to_verify: size,
        entries_failed: 0,
        planned: true,
        ..StageProgress::default()
    };
    StageStatus { state: StageState::Complete, progress, elapsed_ms, ..transfer.untouched() }
}

/// What one worker copies at its node, to its end. The node then forgets it, unless it may be tried again.
async fn copy<S: Site>(
    app: &App<S>,
    batch: &[Transfer],
    stopped: &mut watch::Receiver<bool>,
) -> Result<StageStatus, ApiError> {
    let order = specification::of(app, batch, StagePolicy::default()).await?;
    if order.spec.direction == Direction::In {
        mounting::share(app, &order.session, batch[0].access_mode).await?;
    }
    let stop = async { drop(stopped.wait_for(|stop| *stop).await) };
    let end = match runner::run(app, batch, &order, stop).await {
        Ok(Some(end)) => Ok(end),
        Ok(None) => return Err(cancelled(&batch[0])),
        Err(error) => Err(error),
    };
    if is_kept(batch, &end) {
        return end;
    }
    // Its report is here; what stays at the node is no more than a few kilobytes.
    if let Err(error) = app.site.delete_stage(&order.node, &order.spec.id).await {
        tracing::warn!(id = order.spec.id, %error, "cannot remove a stage that has ended from its node");
    }
    end
}

/// The failure of a stage that was stopped.
pub(crate) fn cancelled(transfer: &Transfer) -> ApiError {
    let word = match transfer.direction {
        Direction::In => "stage-in",
        Direction::Out => "stage-out",
    };
    let message = format!("the {word} of {}/{} was stopped", transfer.buffer_name(), transfer.buffer_path);
    ApiError { code: ErrorCode::Cancelled, blame: Blame::User, message, advice: "ask for it again".into() }
}
