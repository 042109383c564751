//! Takes from nodes that are back what was to be taken while they were away: mounts of jobs that are over, fragments of
//! buffers that are gone.

use wire::control::ApiError;

use crate::control::Control;
use crate::node_api::{Release, Unmount};
use crate::site::Site;
use crate::state::leftovers::{self, Kind, Leftover};

/// One round over all that is noted.
///
/// # Errors
/// The database's. What a node still does not let go of stays noted.
pub async fn tidy<S: Site>(control: &Control<S>) -> Result<(), ApiError> {
    for leftover in control.database.transact(leftovers::all).await? {
        let online = |node: &str| control.site.nodes().iter().any(|view| view.name == node && view.online);
        if !online(&leftover.node) {
            continue;
        }
        match take(control, &leftover).await {
            Ok(()) => {
                tracing::info!(node = leftover.node, id = leftover.id, "taken from a node that is back");
                control.database.transact(move |tx| leftovers::delete(tx, &leftover)).await?;
            }
            Err(error) => tracing::warn!(node = leftover.node, id = leftover.id, %error, "still left behind"),
        }
    }
    Ok(())
}

async fn take<S: Site>(control: &Control<S>, leftover: &Leftover) -> Result<(), ApiError> {
    let Leftover { node, kind, id } = leftover;
    match kind {
        Kind::Mount => control.site.unmount(node, id, Unmount::Hurry).await,
        Kind::Fragment => control.site.delete_fragment(node, id).await,
        Kind::Stage => control.site.delete_stage(node, id).await,
        Kind::Local => control.site.release_local(node, id, Release::Drained).await,
        Kind::LocalGivenUp => control.site.release_local(node, id, Release::GivenUp).await,
    }
}
