//! What scripts have copied: `data_in` and `data_out`, one transfer after the other.
//!
//! A transfer's last report is in the database, so a call after a crash skips what is complete and follows what still
//! runs.

use daemon::error::{site, user};
use model::phase::{Direction, StageState};
use wire::control::{ApiError, Blame, DataOut, ErrorCode, FileFailure, Side, StageStatus};
use wire::node::StagePolicy;

use super::{runner, specification, unmade};
use crate::advice;
use crate::app::App;
use crate::lifecycle::buffers::{self, Buffer};
use crate::pool;
use crate::pool::kind::Step;
use crate::site::Site;
use crate::state::sessions::Session;
use crate::state::transfers::{self, Transfer};
use crate::token_queue::Cancelled;

/// Before the job or after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Course {
    /// After a failure none is begun any more: the job cannot start.
    In,
    /// What can be saved is, whatever fails.
    Out(DataOut),
}

impl Course {
    fn direction(self) -> Direction {
        match self {
            Course::In => Direction::In,
            Course::Out(_) => Direction::Out,
        }
    }
}

const UNMADE_IS_NOT_OWED: Course = Course::Out(DataOut { job_failed: true });

/// Makes every transfer of `course` that is not complete, in the script's order.
///
/// # Errors
/// The first failure, or `cancelled`.
pub(crate) async fn run<S: Site>(
    app: &App<S>,
    session: &Session,
    course: Course,
    mut cancelled: Cancelled,
) -> Result<(), ApiError> {
    let used = buffers::of(app, session).await?;
    let mut first_error = None;
    for transfer in all_of(app, session)
        .await?
        .into_iter()
        .filter(|transfer| transfer.direction == course.direction() && transfer.state != StageState::Complete)
    {
        let result = run_one(app, session, (&used, course), &transfer, &mut cancelled).await;
        let Err(error) = result else { continue };
        let stop = course == Course::In || error.code == ErrorCode::Cancelled;
        first_error.get_or_insert(error);
        if stop {
            break;
        }
    }
    first_error.map_or(Ok(()), Err)
}

/// Stops at the nodes what an earlier life of control left running.
///
/// # Errors
/// The node does not answer.
pub(crate) async fn stop_leftovers<S: Site>(app: &App<S>, session: &Session) -> Result<(), ApiError> {
    let all = all_of(app, session).await?;
    for transfer in all.iter().filter(|transfer| transfer.state == StageState::Active) {
        if let Some((_, error)) = runner::discard(app, transfer).await? {
            return Err(error);
        }
        note_cancelled(app, session, transfer).await?;
    }
    Ok(())
}

async fn all_of<S: Site>(app: &App<S>, session: &Session) -> Result<Vec<Transfer>, ApiError> {
    let token = session.token.clone();
    app.database.transact(move |tx| transfers::of_script(tx, &token)).await
}

async fn run_one<S: Site>(
    app: &App<S>,
    session: &Session,
    (used, course): (&[Buffer], Course),
    transfer: &Transfer,
    cancelled: &mut Cancelled,
) -> Result<(), ApiError> {
    let buffer = used.iter().find(|buffer| buffer.which == transfer.buffer);
    let kind = buffer.map(|buffer| pool::kind::<S>(buffer.described.instance.kind));
    if let Some(kind) = kind.filter(|kind| kind.drains_itself()) {
        return wait_drained(app, session, transfer, kind.drained(app, session), cancelled).await;
    }
    let alone = std::slice::from_ref(transfer);
    let order = specification::of(app, alone, StagePolicy::default()).await?;
    // Noted before it is started: a cancel after a crash must know that it may run.
    note(app, transfer, begun(transfer)).await?;
    // A node that stays away is no verdict: the transfer is still noted as active, and a later call goes on.
    match runner::run(app, alone, &order, told_to_stop(cancelled)).await? {
        Some(end) => {
            let end = if course == UNMADE_IS_NOT_OWED { unmade::forgiven(end) } else { end };
            note(app, transfer, end.clone()).await?;
            judge(session, transfer, &end)
        }
        None => {
            note_cancelled(app, session, transfer).await?;
            Err(cancelled_error(session, transfer))
        }
    }
}

/// The nodes of the job copy by themselves what they owe.
async fn wait_drained<S: Site>(
    app: &App<S>,
    session: &Session,
    transfer: &Transfer,
    drained: Step<'_>,
    cancelled: &mut Cancelled,
) -> Result<(), ApiError> {
    let started = std::time::Instant::now();
    note(app, transfer, begun(transfer)).await?;
    let drained = tokio::select! {
        drained = drained => drained,
        () = told_to_stop(cancelled) => Err(cancelled_error(session, transfer)),
    };
    let state = if drained.is_ok() { StageState::Complete } else { StageState::Failed };
    let elapsed_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
    let end = StageStatus { state, elapsed_ms, error: drained.err(), ..transfer.untouched() };
    note(app, transfer, end.clone()).await?;
    judge(session, transfer, &end)
}

/// Completes when the caller's stop arrives, if ever.
pub(crate) async fn told_to_stop(cancelled: &mut Cancelled) {
    if cancelled.wait_for(|stop| *stop).await.is_err() {
        std::future::pending::<()>().await;
    }
}

/// A status without what an earlier attempt left.
fn begun(transfer: &Transfer) -> StageStatus {
    StageStatus { state: StageState::Active, ..transfer.untouched() }
}

async fn note<S: Site>(app: &App<S>, transfer: &Transfer, report: StageStatus) -> Result<(), ApiError> {
    let number = transfer.number;
    app.database.transact(move |tx| transfers::set_report(tx, number, &report)).await
}

async fn note_cancelled<S: Site>(
    app: &App<S>,
    session: &Session,
    transfer: &Transfer,
) -> Result<(), ApiError> {
    let (number, error) = (transfer.number, cancelled_error(session, transfer));
    let note = move |tx: &rusqlite::Transaction<'_>| match transfers::find(tx, number)? {
        Some(last) => transfers::set_report(tx, number, &last.failed(error.clone())),
        None => Ok(()),
    };
    app.database.transact(note).await
}

fn judge(session: &Session, transfer: &Transfer, end: &StageStatus) -> Result<(), ApiError> {
    if end.state == StageState::Complete {
        return Ok(());
    }
    if let Some(error) = &end.error {
        return Err(ApiError {
            advice: with_what_is_kept(session, transfer, &error.advice),
            ..error.clone()
        });
    }
    let what = format!("{} of {}", directive(transfer.direction), end.source);
    let Some(first) = end.failures.first() else {
        let message = format!("{what} failed without a reason");
        return Err(site(
            ErrorCode::StageFailed,
            message,
            with_what_is_kept(
                session,
                transfer,
                "repeat it; each node's log says of its worker how it ended",
            ),
        ));
    };
    let failed = end.progress.entries_failed.max(1);
    let message = format!(
        "{what}: {failed} of {} entries failed; the first: {}",
        end.progress.entries_total.max(failed),
        first.message
    );
    let error = if is_users(first) { user } else { site };
    Err(error(ErrorCode::StageFailed, message, with_what_is_kept(session, transfer, &first.advice)))
}

/// Names on the PFS and rights on either side are the user's; disks, quotas and all else of the buffer are not.
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
    let rights = [Errno::ACCESS, Errno::PERM];
    let theirs = if failure.side == Side::Pfs { &users[..] } else { &rights };
    theirs.iter().any(|errno| errno.raw_os_error() == failure.errno)
}

fn with_what_is_kept(session: &Session, transfer: &Transfer, first: &str) -> String {
    match transfer.direction {
        Direction::In => first.to_owned(),
        Direction::Out => format!("{first}; {}", advice::kept_until(session)),
    }
}

fn cancelled_error(session: &Session, transfer: &Transfer) -> ApiError {
    let source = transfer.source();
    let message = format!("{} of {source} was cancelled", directive(transfer.direction));
    let advice = match transfer.direction {
        Direction::In => "call data_in again to go on".to_owned(),
        Direction::Out => advice::kept_until(session),
    };
    ApiError { code: ErrorCode::Cancelled, blame: Blame::User, message, advice }
}

/// How people write a direction.
fn directive(direction: Direction) -> &'static str {
    match direction {
        Direction::In => "stage_in",
        Direction::Out => "stage_out",
    }
}
