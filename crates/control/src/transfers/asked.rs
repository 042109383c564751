//! What programs (libdatawarp) and people (`forebay stage`) ask of transfers while a buffer lives.

use std::sync::Arc;
use std::time::{Duration, Instant};

use daemon::error::user;
use model::buffer::BufferRef;
use model::phase::{AccessMode, Direction, Phase, StageKind, StageState};
use wire::control::{
    ApiError, BufferStatus, Change, ErrorCode, FailedStage, PAIRS_MAX, Place, StageChange, StageConcurrency,
    StageCounts, StageDue, StagePair, StageQuery, StageRequest, StageScope, StageStatus, StageTickets,
};

use super::place::{Located, locate};
use super::{on_demand, paths, specification};
use crate::app::App;
use crate::audit::Concerned;
use crate::rights::Rights;
use crate::site::Site;
use crate::state::instances;
use crate::state::transfers::{self, ON_DEMAND_MAX, Origin, Space, Transfer};

/// A reply is never held back for longer, so that nobody takes the silence for a death.
const WAIT_MAX: Duration = Duration::from_secs(30);

/// Between two looks of one who waits: a thousand ranks may wait while a thousand files are staged.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// Accepts stages.
///
/// # Errors
/// The buffer, a path, or what cannot be staged; nothing is accepted then.
pub(crate) async fn ask<S: Site>(
    app: &Arc<App<S>>,
    rights: Rights,
    request: StageRequest,
) -> Result<(Concerned, StageTickets), ApiError> {
    let located = locate(app, rights, request.place.clone()).await?;
    check(app, &located, &request)?;
    let asked = request.pairs.iter().map(|pair| asked(&located, &request, pair));
    let mut asked = asked.collect::<Result<Vec<Transfer>, ApiError>>()?;
    note_mounts(app, &mut asked).await?;
    let token = located.space.token.clone();
    let note = move |tx: &rusqlite::Transaction<'_>| {
        if !transfers::make_room(tx, &token, asked.len() as u64)? {
            return Ok(None);
        }
        let numbers =
            asked.iter().map(|one| Ok(Transfer { number: transfers::add(tx, one)?, ..one.clone() }));
        let noted = numbers.collect::<crate::state::Result<Vec<Transfer>>>()?;
        Ok(Some(noted.iter().map(|one| one.id(one.token.as_str())).collect()))
    };
    let Some(ids) = app.database.transact(note).await? else {
        let message = format!("buffer {} has {} stages under way", located.space.token, ON_DEMAND_MAX);
        return Err(user(
            ErrorCode::TooManyStages,
            message,
            "wait for some of them, or stage a directory at once",
        ));
    };
    app.on_demand.changed();
    on_demand::kick(app, &located.space.token).await?;
    Ok((Concerned::from(&located.job), StageTickets { ids }))
}

/// The transfer that a pair asks for.
fn asked(located: &Located, request: &StageRequest, pair: &StagePair) -> Result<Transfer, ApiError> {
    let (buffer_path, pfs_path) = paths::of_pair(request, pair)?;
    Ok(Transfer {
        number: 0,
        token: located.space.token.clone(),
        job: Some(located.job.token.clone()),
        origin: Origin::OnDemand { size_hint: pair.size_hint, ino: pair.ino },
        direction: request.direction,
        kind: request.kind,
        buffer: BufferRef::Own,
        access_mode: located.space.access_mode,
        buffer_path,
        pfs_path,
        pfs_mount: None,
        owner: located.job.owner.clone(),
        state: transfers::waiting(request.due),
        report: None,
    })
}

/// What is asked for with one call lies on few file systems, but nobody knows before.
async fn note_mounts<S: Site>(app: &App<S>, asked: &mut [Transfer]) -> Result<(), ApiError> {
    let Some(first) = asked.first() else { return Ok(()) };
    let node = specification::node_of(app, first).await?;
    let paths: Vec<_> = asked.iter().map(|one| one.pfs_path.clone()).collect();
    let found = specification::mounts_of(app, node.as_ref(), &paths).await;
    asked.iter_mut().zip(found).for_each(|(one, mount)| one.pfs_mount = mount);
    Ok(())
}

fn check<S: Site>(app: &App<S>, located: &Located, request: &StageRequest) -> Result<(), ApiError> {
    let job = &located.job;
    if located.space.access_mode == AccessMode::Private && app.site.cluster().is_some() {
        let message = "a private namespace cannot be staged: every node has one of its own";
        return Err(user(
            ErrorCode::PrivateStage,
            message,
            "stage with $DW_JOB_STRIPED and copy within the job",
        ));
    }
    if job.phase >= Phase::StagedOut {
        let message = format!("session {} is staged out already", job.token);
        return Err(user(ErrorCode::WrongPhase, message, "start a new session"));
    }
    if matches!(request.kind, StageKind::List | StageKind::Any) || request.pairs.len() > PAIRS_MAX {
        let message = format!("at most {PAIRS_MAX} files or directories can be asked for at once");
        return Err(user(ErrorCode::BadStage, message, "ask for the files of a list one by one"));
    }
    if request.direction == Direction::In && request.due == StageDue::AtJobEnd {
        return Err(user(
            ErrorCode::BadStage,
            "only a stage-out can wait for the end of the job",
            "stage in now",
        ));
    }
    Ok(())
}

/// Counts stages, perhaps when they have ended.
///
/// # Errors
/// There is no such buffer.
pub(crate) async fn counts<S: Site>(
    app: &App<S>,
    rights: Rights,
    query: StageQuery,
) -> Result<StageCounts, ApiError> {
    let located = locate(app, rights, query.place.clone()).await?;
    let deadline = Instant::now() + Duration::from_millis(query.wait_ms).min(WAIT_MAX);
    let mut changes = app.on_demand.changes();
    loop {
        changes.mark_unchanged();
        let counts = read(app, &located, &query.scope, transfers::count).await?;
        let left = deadline.saturating_duration_since(Instant::now());
        if counts.pending == 0 || left.is_zero() {
            return Ok(counts);
        }
        let _ = tokio::time::timeout(left, changes.changed()).await;
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

/// Describes stages, perhaps when they have ended.
///
/// # Errors
/// There is no such buffer.
pub(crate) async fn list<S: Site>(
    app: &App<S>,
    rights: Rights,
    query: StageQuery,
) -> Result<Vec<StageStatus>, ApiError> {
    counts(app, rights, query.clone()).await?;
    let located = locate(app, rights, query.place.clone()).await?;
    let found = read(app, &located, &query.scope, transfers::telling).await?;
    Ok(found.iter().map(Transfer::status).collect())
}

/// Lists the files that failed; of a folder as many as its stage has listed.
///
/// # Errors
/// There is no such buffer.
pub(crate) async fn failed<S: Site>(
    app: &App<S>,
    rights: Rights,
    query: StageQuery,
) -> Result<Vec<FailedStage>, ApiError> {
    let located = locate(app, rights, query.place.clone()).await?;
    let found = read(app, &located, &query.scope, transfers::named).await?;
    Ok(found.iter().filter(|one| one.state == StageState::Failed).flat_map(paths::failures).collect())
}

/// Revokes, activates, terminates or retries stages; replies how many, as they were before.
///
/// # Errors
/// There is no such buffer, or a node does not stop a stage.
pub(crate) async fn change<S: Site>(
    app: &Arc<App<S>>,
    rights: Rights,
    how: StageChange,
) -> Result<(Concerned, StageCounts), ApiError> {
    let located = locate(app, rights, how.place.clone()).await?;
    let found = read(app, &located, &how.scope, transfers::named).await?;
    let concerned = |one: &Transfer| match how.change {
        Change::Revoke | Change::Activate => one.state == StageState::Deferred,
        Change::Terminate => one.state != StageState::Complete,
        Change::Retry => one.state == StageState::Failed,
    };
    let found: Vec<Transfer> = found.into_iter().filter(|one| concerned(one)).collect();
    let counts = transfers::counts(&found);
    match how.change {
        Change::Revoke | Change::Terminate => on_demand::forget(app, &found).await?,
        Change::Activate | Change::Retry => {
            on_demand::set_waiting(app, &found).await?;
            on_demand::kick(app, &located.space.token).await?;
        }
    }
    app.on_demand.changed();
    Ok((Concerned::from(&located.job), counts))
}

/// Sets how many stages of a buffer run at once.
///
/// # Errors
/// There is no such buffer; 0.
pub(crate) async fn set_concurrency<S: Site>(
    app: &Arc<App<S>>,
    rights: Rights,
    wanted: StageConcurrency,
) -> Result<Concerned, ApiError> {
    let located = locate(app, rights, wanted.place).await?;
    if wanted.concurrency == 0 {
        return Err(user(ErrorCode::BadStage, "no stage could run", "name at least 1"));
    }
    let (token, concurrency) = (located.space.token.clone(), wanted.concurrency);
    app.database.transact(move |tx| instances::set_stage_concurrency(tx, &token, concurrency)).await?;
    on_demand::kick(app, &located.space.token).await?;
    Ok(Concerned::from(&located.job))
}

/// The buffer at a place.
///
/// # Errors
/// There is none.
pub(crate) async fn buffer<S: Site>(
    app: &App<S>,
    rights: Rights,
    place: Place,
) -> Result<BufferStatus, ApiError> {
    let located = locate(app, rights, place).await?;
    let session = app.session(&located.space.token).await?;
    let instance = crate::status::of(app, session).await?.instance;
    let instance = instance.ok_or_else(|| crate::app::no_such_session(&located.space.token))?;
    Ok(BufferStatus { token: located.space.token, access_mode: located.space.access_mode, instance })
}

/// Asks one of the state's questions about a scope.
async fn read<S: Site, R: Send + 'static>(
    app: &App<S>,
    located: &Located,
    scope: &StageScope,
    question: fn(&rusqlite::Transaction<'_>, &Space, &StageScope) -> crate::state::Result<R>,
) -> Result<R, ApiError> {
    let space = located.space.clone();
    let scope = paths::of_scope(scope)?;
    app.database.transact(move |tx| question(tx, &space, &scope)).await
}
