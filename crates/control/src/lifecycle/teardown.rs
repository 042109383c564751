//! `teardown`: release everything, unless that would destroy what the script wants staged out.
//!
//! Without `hurry` the data of a session that was ever mounted is kept until every `stage_out` is complete.

use model::phase::{Direction, Phase, StageState};
use wire::control::{ApiError, Teardown};

use super::mounts::unmount_all;
use super::setup::destroy_fragments;
use super::staging::STAGE_NODE;
use super::{Done, target};
use crate::control::Control;
use crate::site::Site;
use crate::state::sessions::{self, Session};
use crate::state::stages::{self, Stage};
use crate::state::{activations, instances};

/// Releases, or notes why the data is kept.
///
/// # Errors
/// A node does not let go; called again it goes on.
pub async fn run<S: Site>(control: &Control<S>, token: &str, how: Teardown) -> Result<Done, ApiError> {
    let session = control.session(token).await?;
    if session.phase == Phase::TornDown {
        return Ok(Done::Already);
    }
    unmount_all(control, token, how.hurry).await?;
    let name = token.to_owned();
    let read =
        move |tx: &rusqlite::Transaction<'_>| Ok((instances::find(tx, &name)?, stages::of(tx, &name)?));
    let (instance, stages) = control.database.transact(read).await?;
    if let Some(stage) = owed(&session, &stages).filter(|_| !how.hurry && instance.is_some()) {
        return keep(control, &session, stage).await;
    }
    if let Some(instance) = instance {
        target::addresses(control, &instance).await?;
        for stage in stages.iter().filter(|stage| was_started(stage)) {
            control.site.delete_stage(STAGE_NODE, &stage.id(token)).await?;
        }
        destroy_fragments(control, &instance).await?;
    }
    control.site.remove_mount_folder(token);
    let name = token.to_owned();
    let finish = move |tx: &rusqlite::Transaction<'_>| {
        instances::delete(tx, &name)?;
        stages::delete(tx, &name)?;
        activations::delete(tx, &name)?;
        sessions::set_kept(tx, &name, None)?;
        sessions::set_phase(tx, &name, Phase::TornDown)?;
        sessions::prune(tx)
    };
    control.database.transact(finish).await?;
    Ok(Done::Now)
}

/// A `stage_out` whose data would be lost: the job could write, and its files are not all at their destination.
fn owed<'a>(session: &Session, stages: &'a [Stage]) -> Option<&'a Stage> {
    let owed = |stage: &&Stage| stage.direction == Direction::Out && stage.state != StageState::Complete;
    stages.iter().find(owed).filter(|_| session.was_mounted)
}

fn was_started(stage: &Stage) -> bool {
    !matches!(stage.state, StageState::Pending | StageState::Deferred)
}

async fn keep<S: Site>(control: &Control<S>, session: &Session, stage: &Stage) -> Result<Done, ApiError> {
    let reason = stage.status(&session.token).error.map(|error| error.message);
    let failure = || {
        stage.report.as_ref()?.failures.first().map(|f| format!("{} {}: {}", f.operation, f.path, f.message))
    };
    let why = reason.or_else(failure).unwrap_or_else(|| "it was not tried".to_owned());
    let kept = format!("the stage_out of {} to {} is not complete: {why}", stage.source, stage.destination);
    tracing::warn!(token = session.token, kept, "data kept");
    let (token, unmounted) = (session.token.clone(), session.phase == Phase::Mounted);
    let note = move |tx: &rusqlite::Transaction<'_>| {
        if unmounted {
            sessions::set_phase(tx, &token, Phase::Unmounted)?;
        }
        sessions::set_kept(tx, &token, Some(&kept))
    };
    control.database.transact(note).await?;
    // Not a completed teardown: it takes no time in the summary.
    Ok(Done::Already)
}
