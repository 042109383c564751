//! Runs stages on demand at the nodes: a task each, as many at once as the buffer allows.

use std::pin::Pin;
use std::sync::Arc;

use model::phase::{Direction, StageState};
use tokio::sync::watch;
use wire::control::{ApiError, Blame, StageStatus};
use wire::node::{StagePolicy, StageSpec};

use crate::control::{Control, no_such_session};
use crate::lifecycle::buffers;
use crate::lifecycle::staging::{self, Row, buffer_name};
use crate::lifecycle::{mounts, target};
use crate::site::Site;
use crate::state::demands::{self, Demand};
use crate::state::sessions::{self, Session};

/// Goes on with what an earlier life of control accepted.
///
/// # Errors
/// The database's.
pub async fn resume<S: Site>(control: &Arc<Control<S>>) -> Result<(), ApiError> {
    for token in control.database.transact(demands::resume).await? {
        kick(control, &token).await?;
    }
    Ok(())
}

/// Starts what may run of a buffer.
///
/// # Errors
/// The database's.
pub async fn kick<S: Site>(control: &Arc<Control<S>>, token: &str) -> Result<(), ApiError> {
    let _turn = control.demands.turn.lock().await;
    let token = token.to_owned();
    for demand in control.database.transact(move |tx| demands::start_next(tx, &token)).await? {
        let (stop, stopped) = watch::channel(false);
        control.demands.stops().insert(demand.number, stop);
        tokio::spawn(run(Arc::clone(control), demand, stopped));
    }
    Ok(())
}

/// Puts stages that wait for the job's end, or that failed, into the line.
///
/// # Errors
/// The database's.
pub async fn set_waiting<S: Site>(control: &Control<S>, found: &[Demand]) -> Result<(), ApiError> {
    let numbers: Vec<u64> = found.iter().map(|demand| demand.number).collect();
    let set = move |tx: &rusqlite::Transaction<'_>| {
        numbers.iter().try_for_each(|number| demands::set_state(tx, *number, StageState::Pending))
    };
    control.database.transact(set).await
}

/// Stops stages and forgets them.
///
/// # Errors
/// The database's.
pub async fn forget<S: Site>(control: &Control<S>, found: &[Demand]) -> Result<(), ApiError> {
    // Those that wait first: none of them may take the place of one that is stopped.
    let _turn = control.demands.turn.lock().await;
    let running = stop(control, found);
    let numbers = found.iter().map(|demand| demand.number);
    let waiting: Vec<u64> = numbers.filter(|number| !running.contains(number)).collect();
    control.database.transact(move |tx| waiting.iter().try_for_each(|n| demands::delete(tx, *n))).await?;
    ended(control, &running).await;
    control.database.transact(move |tx| running.iter().try_for_each(|n| demands::delete(tx, *n))).await
}

/// Tells those that run to stop; replies their numbers.
pub fn stop<S: Site>(control: &Control<S>, found: &[Demand]) -> Vec<u64> {
    let stops = control.demands.stops();
    let running = found.iter().filter_map(|demand| stops.get_key_value(&demand.number));
    running
        .map(|(number, stop)| {
            stop.send_replace(true);
            *number
        })
        .collect()
}

/// Waits until none of these stages runs any more.
pub async fn ended<S: Site>(control: &Control<S>, numbers: &[u64]) {
    let mut changes = control.demands.changes.subscribe();
    loop {
        changes.mark_unchanged();
        if !numbers.iter().any(|number| control.demands.stops().contains_key(number)) {
            return;
        }
        let _ = changes.changed().await;
    }
}

/// One stage to its end, and then the next. Boxed, as the next is of the same kind.
fn run<S: Site>(
    control: Arc<Control<S>>,
    demand: Demand,
    mut stopped: watch::Receiver<bool>,
) -> Pin<Box<dyn Future<Output = ()> + Send>> {
    Box::pin(async move {
        let (number, name) = (demand.number, name_of(&demand));
        let report = match stage(&control, &demand, &name, &mut stopped).await {
            Ok(report) => report,
            Err(error) => demands::failed(&demand, &name, error),
        };
        let (token, state, bytes) = (&demand.token, report.state, report.progress.bytes_done);
        tracing::info!(token, number, ?state, bytes, "stage on demand ended");
        if let Err(error) = control.database.transact(move |tx| demands::end(tx, number, &report)).await {
            tracing::error!(token, number, %error, "the end of a stage is not noted");
        }
        control.demands.stops().remove(&number);
        control.demands.changed();
        if let Err(error) = kick(&control, token).await {
            tracing::error!(token, %error, "stages that wait are not started");
        }
    })
}

/// One stage at its node, to its end; the node then forgets it.
async fn stage<S: Site>(
    control: &Control<S>,
    demand: &Demand,
    name: &str,
    stopped: &mut watch::Receiver<bool>,
) -> Result<StageStatus, ApiError> {
    let (spec, node, session) = spec(control, demand, name).await?;
    if demand.direction == Direction::In {
        mounts::share(control, &session, demand.access_mode).await?;
    }
    let row = Row::Demand(demand.number);
    let end = tokio::select! {
        end = staging::follow(control, &node, &row, &spec) => Some(end),
        _ = stopped.wait_for(|stop| *stop) => None,
    };
    let gone = control.site.delete_stage(&node, &spec.id).await;
    match end {
        Some(end) => {
            // Its report is here; what stays at the node is no more than a few kilobytes.
            if let Err(error) = gone {
                tracing::warn!(id = spec.id, %error, "a stage that has ended stays at its node");
            }
            end
        }
        None => {
            gone?;
            Err(cancelled(demand, name))
        }
    }
}

async fn spec<S: Site>(
    control: &Control<S>,
    demand: &Demand,
    name: &str,
) -> Result<(StageSpec, String, Session), ApiError> {
    let token = demand.token.clone();
    let read = move |tx: &rusqlite::Transaction<'_>| {
        let Some(session) = sessions::find(tx, &token)? else { return Ok(None) };
        let described = buffers::describe(tx, &session)?;
        Ok(described.map(|described| (session, described)))
    };
    let found = control.database.transact(read).await?;
    let (session, described) = found.ok_or_else(|| no_such_session(&demand.token))?;
    let node = described.instance.nodes.first().cloned().unwrap_or_default();
    let addresses = target::addresses(control, &described.instance).await?;
    let nodes = target::usable(&control.site, &addresses);
    let shown = Demand { report: None, ..demand.clone() }.status(name);
    let spec = StageSpec {
        id: demand.id(&session.handle),
        direction: demand.direction,
        kind: demand.kind,
        pfs_path: demand.pfs_path.clone(),
        buffer_path: demand.buffer_path.clone(),
        buffer_name: name.to_owned(),
        source: shown.source,
        destination: shown.destination,
        target: target::namespace(&control.site, &described, demand.access_mode, &node, nodes),
        owner: demand.owner.clone(),
        policy: StagePolicy::default(),
    };
    Ok((spec, node, session))
}

/// How the job that asked writes the namespace.
fn name_of(demand: &Demand) -> String {
    let own = demand.job.as_ref() == Some(&demand.token);
    buffer_name(if own { "" } else { &demand.token }, demand.access_mode)
}

/// The failure of a stage that was stopped.
pub fn cancelled(demand: &Demand, name: &str) -> ApiError {
    let word = match demand.direction {
        Direction::In => "stage-in",
        Direction::Out => "stage-out",
    };
    let message = format!("the {word} of {name}/{} was stopped", demand.buffer_path);
    ApiError { code: "cancelled".into(), blame: Blame::User, message, advice: "ask for it again".into() }
}
