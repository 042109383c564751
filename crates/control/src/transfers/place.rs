//! From the place that a caller names to the buffer, and the session that he asks for.

use daemon::error::user;
use model::buffer::BufferRef;
use model::phase::Phase;
use rusqlite::Transaction;
use wire::control::{ApiError, ErrorCode, Place};

use crate::app::{App, no_such_session};
use crate::rights::Rights;
use crate::site::Site;
use crate::state::sessions::{self, Session};
use crate::state::transfers::Space;
use crate::state::{self, activations, instances, registrations};

/// One namespace, and who asks for it.
#[derive(Clone, Debug)]
pub(super) struct Located {
    /// The namespace, with what the caller sees of it.
    pub space: Space,
    /// The buffer as the job knows it.
    pub buffer: BufferRef,
    /// The session that asks.
    pub job: Session,
}

/// Finds the buffer of a place, if the caller may use it.
///
/// # Errors
/// There is none, or none that is his.
pub(super) async fn locate<S: Site>(app: &App<S>, rights: Rights, place: Place) -> Result<Located, ApiError> {
    let wanted = place.clone();
    let found = app.database.transact(move |tx| find(tx, &wanted)).await?;
    let found = found.filter(|located| rights.cover(located.job.owner.uid));
    let mut found = found.ok_or_else(|| none(&place))?;
    if rights == Rights::Operator {
        found.space.owner = None;
    }
    if found.job.phase == Phase::Registered || found.job.phase == Phase::TornDown {
        return Err(none(&place));
    }
    Ok(found)
}

fn find(tx: &Transaction<'_>, place: &Place) -> state::Result<Option<Located>> {
    let located = |job: Session, buffer: BufferRef, access_mode| Located {
        space: Space { token: buffer.holder(&job.token).to_owned(), access_mode, owner: Some(job.owner.uid) },
        buffer,
        job,
    };
    let found = match place {
        Place::Session { token, persistent, access_mode } => sessions::find(tx, token)?
            .map(|job| located(job, persistent.clone().unwrap_or_default().into(), *access_mode)),
        Place::Mount { mountpoint, .. } => match activations::at(tx, mountpoint)? {
            Some((token, activation)) => {
                sessions::find(tx, &token)?.map(|job| located(job, activation.buffer, activation.access_mode))
            }
            None => None,
        },
    };
    let Some(found) = found else { return Ok(None) };
    let used = match &found.buffer {
        BufferRef::Own => true,
        BufferRef::Persistent(name) => registrations::buffers_of(tx, &found.job.token)?.contains(name),
    };
    let instance = instances::find(tx, &found.space.token)?;
    let fits = |instance: &instances::Instance| {
        let named = match place {
            Place::Mount { instance: id, .. } => instance.id == id.as_str(),
            Place::Session { .. } => true,
        };
        named && instance.access_modes.contains(&found.space.access_mode)
    };
    Ok((used && instance.as_ref().is_some_and(fits)).then_some(found))
}

fn none(place: &Place) -> ApiError {
    match place {
        Place::Mount { instance, mountpoint } => {
            let message = format!("no buffer of yours is mounted at {} ({instance})", mountpoint.display());
            user(ErrorCode::NoSuchBuffer, message, "`forebay status` lists those that there are")
        }
        Place::Session { token, persistent: None, .. } => no_such_session(token),
        Place::Session { token, persistent: Some(name), .. } => {
            let message = format!("session {token} uses no persistent buffer {name}");
            user(ErrorCode::NoSuchBuffer, message, "name one of its #DW persistentdw lines")
        }
    }
}
