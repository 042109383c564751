//! What `data_in` and `data_out` share: running stages on a node and following them.
//!
//! A stage's last report is in the database, so a call after a crash skips what is complete and follows what still runs.

use std::time::Duration;

use daemon::error::{site, user};
use model::phase::{AccessMode, Direction, StageState};
use wire::control::{ApiError, Blame, FileFailure, Side, StageStatus};
use wire::node::{StagePolicy, StageSpec};

use super::buffers::{self, Buffer};
use super::{job_nodes, target};
use crate::control::Control;
use crate::site::Site;
use crate::state::sessions::Session;
use crate::state::stages::{self, Stage};
use crate::state::{demands, instances};
use crate::turns::Cancelled;

/// Pauses between questions how far a stage is: short at first, so that a small stage does not wait for the next one;
/// then four times a second, which is smooth for a progress bar.
const POLL: (Duration, Duration) = (Duration::from_millis(10), Duration::from_millis(250));

/// Whether the stages after a failed one still run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AfterFailure {
    /// The job cannot start any more.
    Stop,
    /// Save what can be saved.
    GoOn,
}

/// Runs every stage of `direction` that is not complete, in the script's order.
///
/// # Errors
/// The first failure, or `cancelled`.
pub async fn run<S: Site>(
    control: &Control<S>,
    session: &Session,
    direction: Direction,
    after_failure: AfterFailure,
    mut cancelled: Cancelled,
) -> Result<(), ApiError> {
    let token = session.token.clone();
    let stages = control.database.transact(move |tx| stages::of(tx, &token)).await?;
    let used = buffers::of(control, session).await?;
    let mut first_error = None;
    for stage in
        stages.into_iter().filter(|stage| stage.direction == direction && stage.state != StageState::Complete)
    {
        let result = run_stage(control, session, &used, &stage, &mut cancelled).await;
        let Err(error) = result else { continue };
        let stop = after_failure == AfterFailure::Stop || error.code == "cancelled";
        first_error.get_or_insert(error);
        if stop {
            break;
        }
    }
    first_error.map_or(Ok(()), Err)
}

/// Deletes stages that an earlier life of control left running at the node.
///
/// # Errors
/// The node does not answer.
pub async fn stop_leftovers<S: Site>(control: &Control<S>, session: &Session) -> Result<(), ApiError> {
    let name = session.token.clone();
    let all = control.database.transact(move |tx| stages::of(tx, &name)).await?;
    for stage in all.iter().filter(|stage| stage.state == StageState::Active) {
        stop(control, session, stage).await?;
    }
    Ok(())
}

/// The node that copies a stage: it has the metadata of the buffer. `None`: the buffer is gone.
///
/// # Errors
/// The database's.
pub async fn node_of<S: Site>(
    control: &Control<S>,
    session: &Session,
    stage: &Stage,
) -> Result<Option<String>, ApiError> {
    let token = if stage.buffer.is_empty() { session.token.clone() } else { stage.buffer.clone() };
    let instance = control.database.transact(move |tx| instances::find(tx, &token)).await?;
    Ok(instance.and_then(|instance| instance.nodes.first().cloned()))
}

async fn run_stage<S: Site>(
    control: &Control<S>,
    session: &Session,
    used: &[Buffer],
    stage: &Stage,
    cancelled: &mut Cancelled,
) -> Result<(), ApiError> {
    let buffer = used.iter().find(|buffer| buffer.name == stage.buffer);
    if buffer.is_some_and(|buffer| buffer.described.instance.is_private_volumes()) {
        return wait_drained(control, session, stage, cancelled).await;
    }
    let (node, spec) = spec_of(control, session, used, stage, StagePolicy::default()).await?;
    // Noted before it is started: a cancel after a crash must know that it may run.
    let active = StageStatus { state: StageState::Active, error: None, ..fresh(stage, &session.token) };
    note(control, &session.token, stage, &active).await?;
    // Not cut off by a cancel: a start that is still on its way could arrive after the stop.
    let row = Row::Script { token: session.token.clone(), position: stage.position };
    let started = match stage.state {
        // The node answers a known stage with its old report.
        StageState::Failed => control.site.retry_stage(&node, &spec).await?,
        _ => control.site.start_stage(&node, &spec).await?,
    };
    let end = tokio::select! {
        end = follow_started(control, &node, &row, &spec, started) => end,
        () = told_to_stop(cancelled) => {
            stop(control, session, stage).await?;
            return Err(cancelled_error(&session.token, stage));
        }
    };
    // A node that stays away is no verdict on the stage: it is still noted as active, and a later call goes on.
    judge(&session.token, stage, &end?)
}

/// The node that copies a stage, and what it is told.
///
/// # Errors
/// The buffer is not there, or its nodes are not.
pub async fn spec_of<S: Site>(
    control: &Control<S>,
    session: &Session,
    used: &[Buffer],
    stage: &Stage,
    policy: StagePolicy,
) -> Result<(String, StageSpec), ApiError> {
    let buffer = used.iter().find(|buffer| buffer.name == stage.buffer);
    let buffer =
        buffer.ok_or_else(|| super::wrong_phase(session, "nothing is allocated", "call setup first"))?;
    let described = &buffer.described;
    let node = described.instance.nodes.first().cloned().unwrap_or_default();
    let addresses = target::addresses(control, &described.instance).await?;
    let nodes = target::usable(&control.site, &addresses);
    let spec = StageSpec {
        id: stage.id(&session.handle),
        direction: stage.direction,
        kind: stage.kind,
        pfs_path: stage.pfs_path.clone(),
        buffer_path: stage.buffer_path.clone(),
        buffer_name: buffer_name(&stage.buffer, stage.access_mode),
        source: stage.source.clone(),
        destination: stage.destination.clone(),
        target: target::namespace(&control.site, described, stage.access_mode, &node, nodes),
        owner: session.owner.clone(),
        policy,
        pairs: Vec::new(),
        ticket: String::new(),
    };
    Ok((node, target::with_ticket(&described.instance, spec)))
}

/// The nodes of the job copy by themselves what they owe.
async fn wait_drained<S: Site>(
    control: &Control<S>,
    session: &Session,
    stage: &Stage,
    cancelled: &mut Cancelled,
) -> Result<(), ApiError> {
    let begun = std::time::Instant::now();
    let token = session.token.as_str();
    let active = StageStatus { state: StageState::Active, error: None, ..fresh(stage, token) };
    note(control, token, stage, &active).await?;
    let drained = tokio::select! {
        drained = job_nodes::drained(control, session) => drained,
        () = told_to_stop(cancelled) => Err(cancelled_error(token, stage)),
    };
    let state = if drained.is_ok() { StageState::Complete } else { StageState::Failed };
    let elapsed_ms = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
    let end = StageStatus { state, elapsed_ms, error: drained.err(), ..active };
    note(control, token, stage, &end).await?;
    judge(token, stage, &end)
}

/// Completes when the caller's stop arrives, if ever.
pub async fn told_to_stop(cancelled: &mut Cancelled) {
    if cancelled.wait_for(|stop| *stop).await.is_err() {
        std::future::pending::<()>().await;
    }
}

/// Where the reports of a stage are noted.
pub enum Row {
    /// A stage of the script.
    Script {
        /// The session.
        token: String,
        /// Its place.
        position: u32,
    },
    /// A stage on demand.
    Demand(u64),
    /// Several at once, whose progress is not told apart.
    Batch,
}

impl Row {
    async fn note<S: Site>(&self, control: &Control<S>, report: &StageStatus) -> Result<(), ApiError> {
        let report = report.clone();
        match self {
            Row::Script { token, position } => {
                let (token, position) = (token.clone(), *position);
                control.database.transact(move |tx| stages::set_report(tx, &token, position, &report)).await
            }
            Row::Batch => Ok(()),
            // Its end is noted once, by who waits for it.
            Row::Demand(_) if is_end(&report) => Ok(()),
            Row::Demand(number) => {
                let number = *number;
                let active = StageStatus { state: StageState::Active, ..report };
                control.database.transact(move |tx| demands::set_report(tx, number, &active)).await
            }
        }
    }
}

fn is_end(report: &StageStatus) -> bool {
    matches!(report.state, StageState::Complete | StageState::Failed)
}

/// Starts a stage at its node, which does nothing where it runs, and asks until it ends. `again`: it failed there before, and
/// goes on with its journal.
///
/// # Errors
/// The node's, or it stays away.
pub async fn follow<S: Site>(
    control: &Control<S>,
    node: &str,
    row: &Row,
    spec: &StageSpec,
    again: bool,
) -> Result<StageStatus, ApiError> {
    let started = match again {
        true => control.site.retry_stage(node, spec).await?,
        false => control.site.start_stage(node, spec).await?,
    };
    follow_started(control, node, row, spec, started).await
}

async fn follow_started<S: Site>(
    control: &Control<S>,
    node: &str,
    row: &Row,
    spec: &StageSpec,
    started: StageStatus,
) -> Result<StageStatus, ApiError> {
    let mut last = started;
    row.note(control, &last).await?;
    let mut pause = POLL.0;
    while !is_end(&last) {
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(POLL.1);
        let now = match control.site.stage(node, &spec.id).await {
            // The node lost it: its folder was lost, or somebody deleted it.
            Err(error) if error.code == "no_such_stage" => control.site.start_stage(node, spec).await?,
            other => other?,
        };
        if now != last {
            row.note(control, &now).await?;
            last = now;
        }
    }
    Ok(last)
}

async fn note<S: Site>(
    control: &Control<S>,
    token: &str,
    stage: &Stage,
    report: &StageStatus,
) -> Result<(), ApiError> {
    let (token, position, report) = (token.to_owned(), stage.position, report.clone());
    control.database.transact(move |tx| stages::set_report(tx, &token, position, &report)).await
}

async fn stop<S: Site>(control: &Control<S>, session: &Session, stage: &Stage) -> Result<(), ApiError> {
    let token = session.token.as_str();
    if let Some(node) = node_of(control, session, stage).await? {
        control.site.delete_stage(&node, &stage.id(&session.handle)).await?;
    }
    let name = token.to_owned();
    let all = control.database.transact(move |tx| stages::of(tx, &name)).await?;
    let last = all.iter().find(|other| other.position == stage.position).unwrap_or(stage).status(token);
    let report =
        StageStatus { state: StageState::Failed, error: Some(cancelled_error(token, stage)), ..last };
    note(control, token, stage, &report).await
}

/// A status without what an earlier attempt left.
fn fresh(stage: &Stage, token: &str) -> StageStatus {
    Stage { report: None, ..stage.clone() }.status(token)
}

fn judge(token: &str, stage: &Stage, end: &StageStatus) -> Result<(), ApiError> {
    if end.state == StageState::Complete {
        return Ok(());
    }
    if let Some(error) = &end.error {
        return Err(ApiError { advice: advice(token, stage, &error.advice), ..error.clone() });
    }
    let what = format!("{} of {}", directive(stage.direction), stage.source);
    let Some(first) = end.failures.first() else {
        let message = format!("{what} failed without a reason");
        return Err(site("stage_failed", message, advice(token, stage, "look into the node's log")));
    };
    let failed = end.progress.entries_failed.max(1);
    let message = format!(
        "{what}: {failed} of {} entries failed; the first: {}",
        end.progress.entries_total.max(failed),
        first.message
    );
    let error = if is_users(first) { user } else { site };
    Err(error("stage_failed", message, advice(token, stage, &first.advice)))
}

/// Names and rights on the PFS are the user's; disks, quotas and everything of the buffer are not.
fn is_users(failure: &FileFailure) -> bool {
    use rustix::io::Errno;
    let users = [
        Errno::NOENT,
        Errno::ACCESS,
        Errno::PERM,
        Errno::ISDIR,
        Errno::NOTDIR,
        Errno::NAMETOOLONG,
        Errno::LOOP,
    ];
    failure.side == Side::Pfs && users.iter().any(|errno| errno.raw_os_error() == failure.errno)
}

fn advice(token: &str, stage: &Stage, first: &str) -> String {
    match stage.direction {
        Direction::In => first.to_owned(),
        Direction::Out => {
            format!("{first}; the data is kept in the buffer: then run `forebay stage retry {token}`")
        }
    }
}

fn cancelled_error(token: &str, stage: &Stage) -> ApiError {
    let message = format!("{} of {} was cancelled", directive(stage.direction), stage.source);
    let rest = match stage.direction {
        Direction::In => "call data_in again to go on".to_owned(),
        Direction::Out => {
            format!("the data is kept in the buffer: run `forebay stage retry {token}` to copy it")
        }
    };
    ApiError { code: "cancelled".into(), blame: Blame::User, message, advice: rest }
}

/// How people write a direction.
pub fn directive(direction: Direction) -> &'static str {
    match direction {
        Direction::In => "stage_in",
        Direction::Out => "stage_out",
    }
}

/// How a namespace is written in directives and list files.
pub fn buffer_name(buffer: &str, mode: AccessMode) -> String {
    format!("${}", super::paths::variable(buffer, mode))
}
