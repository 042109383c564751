//! Runs stages on demand at the nodes: a task each, as many at once as the buffer allows.

use std::pin::Pin;
use std::sync::Arc;

use model::phase::{Direction, StageKind, StageState};
use tokio::sync::watch;
use wire::control::{ApiError, Blame, StagePair, StageProgress, StageStatus};
use wire::node::{StagePolicy, StageSpec};

use crate::control::{Control, no_such_session};
use crate::lifecycle::buffers;
use crate::lifecycle::staging::{self, Row, buffer_name};
use crate::lifecycle::{mounts, target};
use crate::site::Site;
use crate::state;
use crate::state::demands::{self, Demand};
use crate::state::instances;
use crate::state::leftovers::{self, Kind, Leftover};
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
    for batch in control.database.transact(move |tx| demands::start_next(tx, &token)).await? {
        let (stop, stopped) = watch::channel(false);
        control.demands.stops().extend(batch.iter().map(|demand| (demand.number, stop.clone())));
        tokio::spawn(run(Arc::clone(control), batch, stopped));
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
    // Those that wait first: none of them may take the place of one that is stopped. Nothing is started meanwhile, so that who was
    // stopped only for another's sake still waits.
    let _turn = control.demands.turn.lock().await;
    let running = stop(control, found);
    let numbers = found.iter().map(|demand| demand.number);
    let waiting: Vec<u64> = numbers.filter(|number| !running.contains(number)).collect();
    control.database.transact(move |tx| waiting.iter().try_for_each(|n| demands::delete(tx, *n))).await?;
    ended(control, &running).await;
    control.database.transact(move |tx| running.iter().try_for_each(|n| demands::delete(tx, *n))).await?;
    for demand in found.iter().filter(|demand| demand.has_failed()) {
        forget_at_node(control, demand).await?;
    }
    Ok(())
}

/// Has the node of a stage forget what it kept of it for another try.
async fn forget_at_node<S: Site>(control: &Control<S>, demand: &Demand) -> Result<(), ApiError> {
    let token = demand.token.clone();
    let read = move |tx: &rusqlite::Transaction<'_>| {
        Ok(sessions::find(tx, &token)?.zip(instances::find(tx, &token)?))
    };
    let Some((session, instance)) = control.database.transact(read).await? else { return Ok(()) };
    let Some(node) = instance.nodes.first() else { return Ok(()) };
    // On one machine nodes run only while they are needed.
    let up = control.site.ensure_nodes(std::slice::from_ref(node)).await;
    let id = demand.id(&session.handle);
    let gone = match up {
        Ok(_) => control.site.delete_stage(node, &id).await,
        Err(error) => Err(error),
    };
    let Err(error) = gone else { return Ok(()) };
    tracing::warn!(id, node, %error, "a node has not forgotten a stage");
    if control.site.cluster().is_none() {
        return Ok(());
    }
    let left = Leftover { node: node.clone(), kind: Kind::Stage, id };
    control.database.transact(move |tx| leftovers::add(tx, &left)).await
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

/// Whether the node keeps what it knows of stages that ended like this, for another try.
fn is_kept(batch: &[Demand], end: &Result<StageStatus, ApiError>) -> bool {
    batch.len() == 1 && end.as_ref().is_ok_and(|report| report.state == StageState::Failed)
}

/// What one worker stages to its end, and then the next. Boxed, as the next is of the same kind.
fn run<S: Site>(
    control: Arc<Control<S>>,
    batch: Vec<Demand>,
    mut stopped: watch::Receiver<bool>,
) -> Pin<Box<dyn Future<Output = ()> + Send>> {
    Box::pin(async move {
        let (token, name) = (batch[0].token.clone(), name_of(&batch[0]));
        let numbers: Vec<u64> = batch.iter().map(|demand| demand.number).collect();
        let result = stage(&control, &batch, &name, &mut stopped).await;
        let (stages, first) = (batch.len(), numbers[0]);
        match &result {
            Ok(report) => {
                tracing::info!(token, first, stages, state = ?report.state, "stages on demand ended")
            }
            Err(error) => tracing::info!(token, first, stages, %error, "stages on demand ended"),
        }
        let last = batch.first().filter(|_| is_kept(&batch, &result)).cloned();
        let note = move |tx: &rusqlite::Transaction<'_>| {
            note(tx, &batch, &name, result)?;
            // The same may have been asked for again meanwhile: nobody tries this one again.
            Ok(demands::find(tx, first)?.is_none())
        };
        let noted = control.database.transact(note).await;
        let forgotten = match (noted, last) {
            (Ok(true), Some(last)) => forget_at_node(&control, &last).await,
            (noted, _) => noted.map(drop),
        };
        if let Err(error) = forgotten {
            tracing::error!(token, first, %error, "the end of stages is not noted");
        }
        numbers.iter().for_each(|number| drop(control.demands.stops().remove(number)));
        control.demands.changed();
        if let Err(error) = kick(&control, &token).await {
            tracing::error!(token, %error, "stages that wait are not started");
        }
    })
}

/// Notes how the stages of one worker ended. Which of several it was that failed is found by staging each alone.
fn note(
    tx: &rusqlite::Transaction<'_>,
    batch: &[Demand],
    name: &str,
    result: Result<StageStatus, ApiError>,
) -> state::Result<()> {
    match (batch, result) {
        ([demand], Ok(report)) => demands::end(tx, demand.number, &report),
        ([demand], Err(error)) => demands::end(tx, demand.number, &demands::failed(demand, name, error)),
        (_, Ok(report)) if report.state == StageState::Complete => {
            let hints = || batch.iter().map(|demand| demand.size_hint.unwrap_or(0));
            let sizes_are_true = hints().sum::<u64>() == report.progress.bytes_total;
            batch.iter().zip(hints()).try_for_each(|(demand, size)| {
                let size = if sizes_are_true { size } else { 0 };
                demands::end(tx, demand.number, &complete(demand, name, size, report.elapsed_ms))
            })
        }
        _ => batch.iter().try_for_each(|demand| demands::set_alone(tx, demand.number)),
    }
}

/// The report of one of several files that are complete.
fn complete(demand: &Demand, name: &str, size: u64, elapsed_ms: u64) -> StageStatus {
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
    let asked = Demand { report: None, ..demand.clone() }.status(name);
    StageStatus { state: StageState::Complete, progress, elapsed_ms, ..asked }
}

/// What one worker stages at its node, to its end. The node then forgets it, unless it may be tried again.
async fn stage<S: Site>(
    control: &Control<S>,
    batch: &[Demand],
    name: &str,
    stopped: &mut watch::Receiver<bool>,
) -> Result<StageStatus, ApiError> {
    let (spec, node, session) = spec(control, batch, name).await?;
    if spec.direction == Direction::In {
        mounts::share(control, &session, batch[0].access_mode).await?;
    }
    let row = if batch.len() > 1 { Row::Batch } else { Row::Demand(batch[0].number) };
    let end = tokio::select! {
        end = follow(control, &node, &row, &spec, batch[0].has_failed()) => Some(end),
        _ = stopped.wait_for(|stop| *stop) => None,
    };
    if let Some(end) = end.as_ref().filter(|end| is_kept(batch, end)) {
        return end.clone();
    }
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
            Err(cancelled(&batch[0], name))
        }
    }
}

/// Where an earlier life of control had put other files together, those are stopped.
async fn follow<S: Site>(
    control: &Control<S>,
    node: &str,
    row: &Row,
    spec: &StageSpec,
    again: bool,
) -> Result<StageStatus, ApiError> {
    match staging::follow(control, node, row, spec, again).await {
        Err(error) if error.code == "stage_differs" => {
            control.site.delete_stage(node, &spec.id).await?;
            staging::follow(control, node, row, spec, false).await
        }
        result => result,
    }
}

async fn spec<S: Site>(
    control: &Control<S>,
    batch: &[Demand],
    name: &str,
) -> Result<(StageSpec, String, Session), ApiError> {
    let demand = &batch[0];
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
    let pair = |demand: &Demand| StagePair {
        buffer: demand.buffer_path.clone(),
        pfs: demand.pfs_path.clone(),
        size_hint: demand.size_hint,
    };
    let pairs: Vec<StagePair> = if batch.len() > 1 { batch.iter().map(pair).collect() } else { Vec::new() };
    let spec = StageSpec {
        id: demand.id(&session.handle),
        direction: demand.direction,
        kind: if pairs.is_empty() { demand.kind } else { StageKind::List },
        pfs_path: demand.pfs_path.clone(),
        buffer_path: demand.buffer_path.clone(),
        buffer_name: name.to_owned(),
        source: shown.source,
        destination: shown.destination,
        target: target::namespace(&control.site, &described, demand.access_mode, &node, nodes),
        owner: demand.owner.clone(),
        policy: StagePolicy::default(),
        pairs,
        ticket: String::new(),
    };
    Ok((target::with_ticket(&described.instance, spec), node, session))
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
