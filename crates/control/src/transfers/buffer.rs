//! What programs and people ask of a buffer itself: how it is, and how many stages run at once in it.

use std::sync::Arc;

use daemon::error::user;
use wire::control::{ApiError, BufferStatus, ErrorCode, Place, StageConcurrency};

use super::on_demand;
use super::place::locate;
use crate::app::App;
use crate::audit::Concerned;
use crate::rights::Rights;
use crate::site::Site;
use crate::state::instances;
use crate::state::transfers::WORKERS_OF_USER;

/// Sets how many stages of each user run at once in a buffer.
///
/// # Errors
/// There is no such buffer, or it is another user's; 0, or more than a user may have.
pub(crate) async fn set_concurrency<S: Site>(
    app: &Arc<App<S>>,
    rights: Rights,
    wanted: StageConcurrency,
) -> Result<Concerned, ApiError> {
    let located = locate(app, rights, wanted.place).await?;
    let (token, concurrency) = (located.space.token.clone(), wanted.concurrency);
    let owner = app.session(&token).await?.owner.uid;
    if !rights.cover(owner) {
        let message = format!("buffer {token} is another user's: you may not set how many of its stages run");
        return Err(user(ErrorCode::NotAllowed, message, "ask its owner, or an operator"));
    }
    if !(1..=WORKERS_OF_USER).contains(&concurrency) {
        let message = format!("{concurrency} stages at once cannot be had");
        return Err(user(ErrorCode::BadStage, message, format!("name 1 to {WORKERS_OF_USER}")));
    }
    app.database.transact(move |tx| instances::set_stage_concurrency(tx, &token, concurrency)).await?;
    on_demand::kick(app, &located.space.token).await?;
    Ok(Concerned::from(&located.job))
}

/// The buffer at a place.
///
/// # Errors
/// There is none.
pub(crate) async fn status<S: Site>(
    app: &App<S>,
    rights: Rights,
    place: Place,
) -> Result<BufferStatus, ApiError> {
    let located = locate(app, rights, place).await?;
    let session = app.session(&located.space.token).await?;
    let instance = crate::status::of(app, session, rights).await?.instance;
    let instance = instance.ok_or_else(|| crate::app::no_such_session(&located.space.token))?;
    Ok(BufferStatus { token: located.space.token, access_mode: located.space.access_mode, instance })
}
