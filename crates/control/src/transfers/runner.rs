//! Runs transfers at their node: starts them, follows them to their end, stops them, and has the node forget them.
//!
//! **Invariant:** only the end of a transfer is left to the caller to note; where control dies meanwhile, the same
//! start is repeated, which the node answers with what it has.

use std::time::Duration;

use model::phase::StageState;
use wire::control::{ApiError, ErrorCode, StageStatus};

use super::specification::{Order, place_of};
use crate::app::App;
use crate::site::Site;
use crate::state::leftovers::{Kind, Leftover};
use crate::state::transfers::{self, Transfer};

/// Pauses between questions how far a stage is: short at first, so that a small stage does not wait for the next one;
/// then four times a second, which is smooth for a progress bar.
const POLL: (Duration, Duration) = (Duration::from_millis(10), Duration::from_millis(250));

/// Has the node of `order` copy these, and replies how that ended; `None`: it was stopped, and the node has forgotten
/// it.
///
/// # Errors
/// The node's, or it stays away: that is no verdict, the same may be called again.
pub(super) async fn run<S: Site>(
    app: &App<S>,
    transfers: &[Transfer],
    order: &Order,
    stop: impl Future<Output = ()>,
) -> Result<Option<StageStatus>, ApiError> {
    // Not cut off by a stop: a start that is still on its way could arrive after it.
    let started = start(app, &transfers[0], order).await?;
    tokio::select! {
        end = follow(app, transfers, order, started) => {
            let end = end?;
            app.audit.transferred(transfers, &end);
            Ok(Some(end))
        }
        () = stop => {
            app.site.delete_stage(&order.node, &order.spec.id).await?;
            Ok(None)
        }
    }
}

/// Has the node of `order` begin; replies what it says of it.
///
/// # Errors
/// The node's, or it stays away.
pub(super) async fn start<S: Site>(
    app: &App<S>,
    first: &Transfer,
    Order { node, spec, .. }: &Order,
) -> Result<StageStatus, ApiError> {
    let started = match first.state == StageState::Failed || first.has_failed() {
        // The node answers a known stage with its old report.
        true => app.site.retry_stage(node, spec).await,
        false => app.site.start_stage(node, spec).await,
    };
    match started {
        // An earlier life of control had put other files together.
        Err(error) if error.code == ErrorCode::StageDiffers && first.is_on_demand() => {
            app.site.delete_stage(node, &spec.id).await?;
            app.site.start_stage(node, spec).await
        }
        started => started,
    }
}

async fn follow<S: Site>(
    app: &App<S>,
    transfers: &[Transfer],
    Order { node, spec, .. }: &Order,
    started: StageStatus,
) -> Result<StageStatus, ApiError> {
    let mut last = started;
    note(app, transfers, &last).await?;
    let mut pause = POLL.0;
    while !is_end(&last) {
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(POLL.1);
        let now = match app.site.stage(node, &spec.id).await {
            // The node lost it: its folder was lost, or somebody deleted it.
            Err(error) if error.code == ErrorCode::NoSuchStage => app.site.start_stage(node, spec).await?,
            other => other?,
        };
        if now != last {
            note(app, transfers, &now).await?;
            last = now;
        }
    }
    Ok(last)
}

/// Notes how far it is. That of several files is not told apart.
async fn note<S: Site>(app: &App<S>, transfers: &[Transfer], report: &StageStatus) -> Result<(), ApiError> {
    let [transfer] = transfers else { return Ok(()) };
    if is_end(report) {
        return Ok(());
    }
    let (number, active) = (transfer.number, StageStatus { state: StageState::Active, ..report.clone() });
    app.database.transact(move |tx| transfers::set_report(tx, number, &active)).await
}

fn is_end(report: &StageStatus) -> bool {
    matches!(report.state, StageState::Complete | StageState::Failed)
}

/// Has the node of a transfer forget what it knows of it. Replies what is left where the node does not, and why.
///
/// # Errors
/// The database's.
pub(crate) async fn discard<S: Site>(
    app: &App<S>,
    transfer: &Transfer,
) -> Result<Option<(Leftover, ApiError)>, ApiError> {
    let of = transfer.clone();
    let place = app.database.transact(move |tx| place_of(tx, &of)).await?;
    let Some((node, id)) = place else { return Ok(None) };
    // On one machine nodes run only while they are needed.
    let up = match app.site.cluster() {
        None => app.site.ensure_nodes(std::slice::from_ref(&node)).await.map(drop),
        Some(_) => Ok(()),
    };
    let gone = match up {
        Ok(()) => app.site.delete_stage(&node, &id).await,
        Err(error) => Err(error),
    };
    Ok(gone.err().map(|error| (Leftover { node, kind: Kind::Stage, id }, error)))
}
