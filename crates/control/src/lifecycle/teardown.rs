//! `teardown`: release everything, unless that would destroy what the script wants staged out.
//!
//! Without `hurry` the data of a session that was ever mounted is kept until every `stage_out` is complete.

use daemon::error::user;
use model::Token;
use model::phase::{Direction, Phase, StageState};
use wire::control::{ApiError, ErrorCode, StageStatus, Teardown};

use super::mounts::unmount_all;
use super::post_run::manner;
use super::{Done, absent, quarantine, target};
use crate::app::App;
use crate::pool;
use crate::site::Site;
use crate::state::leftovers;
use crate::state::sessions::{self, Session};
use crate::state::transfers::{self, Transfer};
use crate::state::{self, activations, instances, registrations};
use crate::transfers::{discard, job_end, while_running};

/// Releases, or notes why the data is kept.
///
/// # Errors
/// A node does not let go; called again it goes on.
pub(crate) async fn run<S: Site>(app: &App<S>, token: &Token, how: Teardown) -> Result<Done, ApiError> {
    let session = app.session(token).await?;
    if session.phase == Phase::TornDown {
        return Ok(Done::Already);
    }
    check_unused(app, &session).await?;
    unmount_all(app, &session, manner(&app.site, how.hurry)).await?;
    let name = token.to_owned();
    let read = move |tx: &rusqlite::Transaction<'_>| {
        Ok((instances::find(tx, &name)?, transfers::of_script(tx, &name)?))
    };
    let (instance, stages) = app.database.transact(read).await?;
    if let Some(owed) = owed(app, &session).await?
        && !is_given_up(token, &owed, how.hurry)
    {
        return keep(app, &session, &owed).await;
    }
    job_end::forget(app, &session).await?;
    if let Some(instance) = &instance
        && app.site.cluster().is_none()
    {
        target::addresses(app, instance).await?;
    }
    let drains = instance.as_ref().is_some_and(while_running::by_passes::<S>);
    for stage in
        stages.iter().filter(|stage| was_started(stage) || (drains && while_running::is_drained(stage)))
    {
        discard_stage(app, stage).await?;
    }
    if let Some(instance) = &instance {
        pool::kind(instance.kind).discard(app, &session, instance, how.hurry).await?;
    }
    app.site.remove_mount_folder(token);
    let name = token.to_owned();
    let finish = move |tx: &rusqlite::Transaction<'_>| {
        instances::delete(tx, &name)?;
        transfers::delete_all(tx, &name)?;
        activations::delete(tx, &name)?;
        registrations::delete(tx, &name)?;
        sessions::set_kept(tx, &name, None)?;
        sessions::set_phase(tx, &name, Phase::TornDown)?;
        sessions::prune(tx)
    };
    app.database.transact(finish).await?;
    Ok(Done::Now)
}

/// Whether what is owed is given up, as it is in a `hurry`: then it is named before anything of it is gone.
fn is_given_up(token: &Token, StageStatus { source, destination, .. }: &StageStatus, hurry: bool) -> bool {
    if hurry {
        tracing::warn!(
            ?token,
            source,
            destination,
            "torn down in a hurry: what is not staged out is given up"
        );
    }
    hurry
}

/// A stage-out whose data would be lost, of the script or on demand: the job could write, and its files are not all at
/// their destination.
///
/// # Errors
/// The database's.
pub(crate) async fn owed<S: Site>(app: &App<S>, session: &Session) -> Result<Option<StageStatus>, ApiError> {
    if !session.was_mounted {
        return Ok(None);
    }
    let token = session.token.clone();
    let read = move |tx: &rusqlite::Transaction<'_>| {
        let mut all = transfers::of_script(tx, &token)?;
        all.extend(transfers::any_owed(tx, &token)?);
        let owed =
            |stage: &&Transfer| stage.direction == Direction::Out && stage.state != StageState::Complete;
        Ok(all.iter().find(owed).map(Transfer::status))
    };
    app.database.transact(read).await
}

fn was_cancelled(stage: &StageStatus) -> bool {
    stage.error.as_ref().is_some_and(|error| error.code == ErrorCode::Cancelled)
}

fn was_started(stage: &Transfer) -> bool {
    !matches!(stage.state, StageState::Pending | StageState::Deferred)
}

/// A persistent buffer stays while jobs use it.
async fn check_unused<S: Site>(app: &App<S>, session: &Session) -> Result<(), ApiError> {
    if !session.persistent {
        return Ok(());
    }
    let name = session.token.clone();
    let read = move |tx: &rusqlite::Transaction<'_>| {
        let users = registrations::users_of(tx, &name)?;
        let by_hand =
            users.iter().map(|token| sessions::find(tx, token)).collect::<state::Result<Vec<_>>>()?;
        let by_hand = by_hand.into_iter().flatten().find(|user| !user.is_managed());
        Ok((users, by_hand.map(|user| user.token)))
    };
    let (users, by_hand) = app.database.transact(read).await?;
    if users.is_empty() {
        return Ok(());
    }
    let message = format!("the persistent buffer {} is used by {}", session.token, users.join(", "));
    let mount = by_hand.map(|token| format!("; its owner ends the mount with `forebay rm {token}`"));
    let advice = format!("wait for the end of these jobs, or cancel them{}", mount.unwrap_or_default());
    Err(user(ErrorCode::BufferInUse, message, advice))
}

async fn discard_stage<S: Site>(app: &App<S>, stage: &Transfer) -> Result<(), ApiError> {
    match discard(app, stage).await? {
        None => Ok(()),
        Some((left, error)) if absent(&app.site, &error) => {
            app.database.transact(move |tx| leftovers::add(tx, &left)).await
        }
        Some((_, error)) => Err(error),
    }
}

async fn keep<S: Site>(app: &App<S>, session: &Session, stage: &StageStatus) -> Result<Done, ApiError> {
    let reason = stage.error.as_ref().map(|error| error.message.clone());
    let failure = || stage.failures.first().map(|failure| failure.message.clone());
    let why = reason.or_else(failure).unwrap_or_else(|| "it was not tried".to_owned());
    let kept = format!("the stage_out of {} to {} is not complete: {why}", stage.source, stage.destination);
    // Its manager is told that the teardown succeeded: it would ask again for ever.
    if session.is_of_job() {
        // What was cut short, not refused, is finished by ourselves.
        let finish = session.phase == Phase::Unmounted && was_cancelled(stage);
        quarantine::rename(app, session, ("kept", kept), finish).await?;
        return Ok(Done::Already);
    }
    tracing::warn!(token = ?session.token, kept, "data kept");
    let (token, unmounted) = (session.token.clone(), session.phase == Phase::Mounted);
    let note = move |tx: &rusqlite::Transaction<'_>| {
        if unmounted {
            sessions::set_phase(tx, &token, Phase::Unmounted)?;
        }
        sessions::set_kept(tx, &token, Some(&kept))
    };
    app.database.transact(note).await?;
    // Not a completed teardown: it takes no time in the summary.
    Ok(Done::Already)
}
