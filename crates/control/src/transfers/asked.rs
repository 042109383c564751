//! What programs (libdatawarp) and people (`forebay stage`) ask of transfers while a buffer lives.

use std::sync::Arc;
use std::time::{Duration, Instant};

use daemon::error::{bug, user};
use model::buffer::BufferRef;
use model::phase::{AccessMode, Direction, Phase, StageKind, StageState};
use wire::control::{
    ApiError, Change, ErrorCode, FailedStage, PAIRS_MAX, StageChange, StageCounts, StageDue, StagePair,
    StageQuery, StageRequest, StageScope, StageStatus, StageTickets,
};

use super::place::{Located, locate};
use super::{on_demand, paths, pieces, specification};
use crate::app::App;
use crate::audit::Concerned;
use crate::rights::Rights;
use crate::site::Site;
use crate::state::transfers::{self, ON_DEMAND_MAX, Origin, Transfer};

/// A reply is never held back for longer, so that nobody takes the silence for a death.
const WAIT_MAX: Duration = Duration::from_secs(30);

/// Between two looks of one who waits: a thousand ranks may wait while a thousand files are staged.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// As many stages are noted at once: others wait meanwhile for the database.
const NOTED_AT_ONCE: usize = 500;

/// Bytes of a list of stages, far below what callers take.
const LIST_BYTES_MAX: usize = 8 << 20;

/// As many files that failed are listed.
const FAILED_MAX: usize = 10_000;

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
    let owner = located.job.owner.uid;
    let noting = {
        let (app, token) = (Arc::clone(app), located.space.token.clone());
        // It goes on when the caller goes away. What control's death cuts off, the caller asks for again.
        tokio::spawn(async move {
            let ids = note(&app, rights, owner, asked).await?;
            app.on_demand.changed();
            on_demand::kick(&app, &token).await.map(|()| ids)
        })
    };
    let ids = noting.await.map_err(|error| bug(ErrorCode::FunctionPanicked, error.to_string()))??;
    Ok((Concerned::from(&located.job), StageTickets { ids }))
}

/// Notes stages of the user `owner`; replies their ids.
async fn note<S: Site>(
    app: &App<S>,
    rights: Rights,
    owner: u32,
    asked: Vec<Transfer>,
) -> Result<Vec<String>, ApiError> {
    // While this turn lasts nobody takes the room that there is.
    let _turn = app.user_queues.wait(rights).await;
    let count = asked.len() as u64;
    if !app.database.transact(move |tx| transfers::make_room(tx, owner, count)).await? {
        let message = format!("you have {ON_DEMAND_MAX} stages under way, in all buffers together");
        return Err(user(
            ErrorCode::TooManyStages,
            message,
            "wait for some of them, or stage a directory at once",
        ));
    }
    let mut ids = Vec::new();
    for some in asked.chunks(NOTED_AT_ONCE) {
        let some = some.to_vec();
        let note = move |tx: &rusqlite::Transaction<'_>| {
            let noted =
                some.iter().map(|one| Ok(Transfer { number: transfers::add(tx, one)?, ..one.clone() }));
            let noted = noted.collect::<crate::state::Result<Vec<Transfer>>>()?;
            Ok(noted.iter().map(|one| one.id(one.token.as_str())).collect::<Vec<String>>())
        };
        ids.append(&mut app.database.transact(note).await?);
    }
    Ok(ids)
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
    let scope = paths::of_scope(&query.scope)?;
    loop {
        changes.mark_unchanged();
        let counts = count(app, rights, &located, scope.clone()).await?;
        let left = deadline.saturating_duration_since(Instant::now());
        if counts.pending == 0 || left.is_zero() {
            return Ok(counts);
        }
        let _ = tokio::time::timeout(left, changes.changed()).await;
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

async fn count<S: Site>(
    app: &App<S>,
    rights: Rights,
    located: &Located,
    scope: StageScope,
) -> Result<StageCounts, ApiError> {
    let mut sum = StageCounts::default();
    for piece in pieces::of(scope) {
        let space = located.space.clone();
        let _turn = app.user_queues.wait(rights).await;
        sum.add(app.database.transact(move |tx| transfers::count(tx, &space, &piece)).await?);
    }
    Ok(sum)
}

/// Describes stages, perhaps when they have ended: at most so many that a reply has room for them.
///
/// # Errors
/// There is no such buffer.
pub(crate) async fn list<S: Site>(
    app: &App<S>,
    rights: Rights,
    query: StageQuery,
) -> Result<Vec<StageStatus>, ApiError> {
    if query.wait_ms > 0 {
        counts(app, rights, query.clone()).await?;
    }
    let located = locate(app, rights, query.place.clone()).await?;
    let after = query.after.as_deref().and_then(Transfer::number_in).unwrap_or(0);
    let scope = paths::of_scope(&query.scope)?;
    let found = pieces::first_page(app, rights, &located.space, (scope, after)).await?;
    let mut bytes = 0;
    let has_room = |status: &StageStatus| {
        let is_first = bytes == 0;
        bytes += serde_json::to_vec(status).map_or(0, |text| text.len());
        is_first || bytes <= LIST_BYTES_MAX
    };
    Ok(found.iter().map(Transfer::status).take_while(has_room).collect())
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
    let mut failed = Vec::new();
    for piece in pieces::of(paths::of_scope(&query.scope)?) {
        let mut after = 0;
        while failed.len() < FAILED_MAX {
            let found = pieces::page(app, rights, &located.space, (&piece, after), transfers::named).await?;
            let Some(last) = found.last() else { break };
            after = last.number;
            let of_failed = found.iter().filter(|one| one.state == StageState::Failed);
            failed.extend(of_failed.flat_map(paths::failures));
        }
    }
    failed.truncate(FAILED_MAX);
    Ok(failed)
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
    let concerned = |one: &Transfer| match how.change {
        Change::Revoke | Change::Activate => one.state == StageState::Deferred,
        Change::Terminate => one.state != StageState::Complete,
        Change::Retry => one.state == StageState::Failed,
    };
    let (mut sum, mut running) = (StageCounts::default(), Vec::new());
    for piece in pieces::of(paths::of_scope(&how.scope)?) {
        let mut after = 0;
        loop {
            let found = pieces::page(app, rights, &located.space, (&piece, after), transfers::named).await?;
            let Some(last) = found.last() else { break };
            after = last.number;
            let found: Vec<Transfer> = found.into_iter().filter(|one| concerned(one)).collect();
            sum.add(transfers::counts(&found));
            match how.change {
                Change::Revoke | Change::Terminate => {
                    running.append(&mut on_demand::forget_waiting(app, found).await?);
                }
                Change::Activate | Change::Retry => on_demand::set_waiting(app, &found).await?,
            }
        }
    }
    on_demand::forget(app, &running).await?;
    if matches!(how.change, Change::Activate | Change::Retry) {
        on_demand::kick(app, &located.space.token).await?;
    }
    app.on_demand.changed();
    Ok((Concerned::from(&located.job), sum))
}
