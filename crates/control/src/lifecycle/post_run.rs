//! `post_run`: fence the clients and unmount. What they held is written back, unless in a hurry.
//!
//! A workload manager calls this while processes of the job may still run and write. The mounts leave the tree at once;
//! files that are open may stay so for the grace period, then the mount's process is ended: nothing of the job writes
//! during the stage-out.

use model::Token;
use model::phase::Phase;
use wire::control::{ApiError, PostRun};

use super::mounts::{Which, unmount_of};
use super::{Done, require_set_up};
use crate::app::App;
use crate::node_api::Unmount;
use crate::site::Site;
use crate::state::sessions;

/// Unmounts. Also takes away what a `pre_run` left that did not finish.
///
/// # Errors
/// A node does not let go.
pub(crate) async fn run<S: Site>(app: &App<S>, token: &Token, how: PostRun) -> Result<Done, ApiError> {
    let session = app.session(token).await?;
    require_set_up(&session)?;
    let which = how.mountpoint.as_deref().map_or(Which::All, Which::At);
    let stays = unmount_of(app, &session, which, manner(&app.site, how.hurry)).await?;
    if session.phase != Phase::Mounted {
        return Ok(Done::Already);
    }
    if stays {
        return Ok(Done::Now);
    }
    let token = token.to_owned();
    app.database.transact(move |tx| sessions::set_phase(tx, &token, Phase::Unmounted)).await?;
    Ok(Done::Now)
}

/// How mounts are taken away here.
pub(crate) fn manner(site: &impl Site, hurry: bool) -> Unmount {
    match site.cluster() {
        _ if hurry => Unmount::AtOnce,
        Some(setting) => Unmount::WithinSeconds(setting.fence_grace_s),
        None => Unmount::AtOnce,
    }
}
