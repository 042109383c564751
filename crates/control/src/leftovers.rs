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
        // Until it is gone, and no longer noted, nobody makes one of its name.
        let _alone = control.tidying.lock().await;
        let same = leftover.clone();
        if !control.database.transact(move |tx| leftovers::is_noted(tx, &same)).await? {
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

/// Takes what is left of the name `id` from a node that is to make it anew, or [`tidy`] would take the new one. To be
/// called when the new one is noted: where this fails, that one is taken away like any other.
///
/// # Errors
/// The node's or the database's.
pub async fn clear<S: Site>(control: &Control<S>, node: &str, id: &str) -> Result<(), ApiError> {
    let is_of_this = |leftover: &Leftover| (leftover.node.as_str(), leftover.id.as_str()) == (node, id);
    let all = control.database.transact(leftovers::all).await?;
    for leftover in all.into_iter().filter(is_of_this) {
        let _alone = control.tidying.lock().await;
        // The note goes last: what is still there must not pass for the new one.
        take(control, &leftover).await?;
        control.database.transact(move |tx| leftovers::delete(tx, &leftover)).await?;
    }
    Ok(())
}

async fn take<S: Site>(control: &Control<S>, leftover: &Leftover) -> Result<(), ApiError> {
    let Leftover { node, kind, id } = leftover;
    match kind {
        Kind::Mount => control.site.unmount(node, id, Unmount::AtOnce).await,
        Kind::Fragment => control.site.delete_fragment(node, id).await,
        Kind::Stage => control.site.delete_stage(node, id).await,
        Kind::Local => control.site.release_local(node, id, Release::Drained).await,
        Kind::LocalGivenUp => control.site.release_local(node, id, Release::GivenUp).await,
    }
}
