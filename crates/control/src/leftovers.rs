//! Takes from nodes that are back what was to be taken while they were away: mounts of jobs that are over, fragments of
//! buffers that are gone, and such that other nodes have taken the places of. Tells them what they have not heard.
//!
//! **Invariant:** nothing of a living buffer is discarded while any part of that lacks something.

use model::{FragmentIndex, InstanceId, NodeName};
use wire::control::ApiError;
use wire::node::{Moved, StorageAddress};

use crate::app::App;
use crate::node_api::{Release, Unmount};
use crate::parts;
use crate::site::Site;
use crate::state::instances::{self, Instance};
use crate::state::leftovers::{self, Kind, Leftover};

/// One round over all that is noted.
///
/// # Errors
/// The database's. What a node still does not let go of stays noted.
pub(crate) async fn tidy<S: Site>(app: &App<S>) -> Result<(), ApiError> {
    for leftover in app.database.transact(leftovers::all).await? {
        let online = |node: &NodeName| app.site.nodes().iter().any(|view| view.name == *node && view.online);
        if !online(&leftover.node) {
            continue;
        }
        // Until it is gone, and no longer noted, nobody makes one of its name.
        let _alone = app.tidying.lock().await;
        let same = leftover.clone();
        if !app.database.transact(move |tx| leftovers::is_noted(tx, &same)).await? {
            continue;
        }
        if let Some(instance) = needed(app, &leftover).await? {
            if let Err(error) = tell(app, &leftover.node, &instance).await {
                let node = leftover.node;
                tracing::warn!(?node, id = leftover.id, %error, "cannot tell a node that it was given up");
            }
            continue;
        }
        match take(app, &leftover).await {
            Ok(()) => {
                tracing::info!(node = ?leftover.node, id = leftover.id, "taken from a node that is back");
                app.database.transact(move |tx| leftovers::delete(tx, &leftover)).await?;
            }
            Err(error) => {
                tracing::warn!(node = ?leftover.node, id = leftover.id, %error, "still left behind")
            }
        }
    }
    Ok(())
}

/// The buffer that it is a part of, if that lives and has use for it: the node was given up for lost, and those that
/// took its places are not whole.
async fn needed<S: Site>(app: &App<S>, leftover: &Leftover) -> Result<Option<Instance>, ApiError> {
    if leftover.kind != Kind::Fragment {
        return Ok(None);
    }
    let instance = living(app, &leftover.id).await?;
    let is_served_there = |instance: &Instance| instance.nodes.contains(&leftover.node);
    let is_whole = |instance: &Instance| parts::are_whole(instance, &app.nodes());
    Ok(instance.filter(|instance| is_served_there(instance) || !is_whole(instance)))
}

/// Tells a node that is noted as [`Kind::Unaware`] of the buffer; where that does not work now, [`tidy`] does it.
///
/// # Errors
/// The database's.
pub(crate) async fn told<S: Site>(
    app: &App<S>,
    node: &NodeName,
    instance: &Instance,
) -> Result<(), ApiError> {
    let leftover = Leftover { node: node.to_owned(), kind: Kind::Unaware, id: instance.id.to_string() };
    // Nobody tells it of an older state afterwards.
    let _alone = app.tidying.lock().await;
    if let Err(error) = tell(app, node, instance).await {
        tracing::warn!(?node, id = ?instance.id, %error, "cannot tell a node yet where the parts of a buffer are");
        return Ok(());
    }
    app.database.transact(move |tx| leftovers::delete(tx, &leftover)).await
}

/// Tells a node where the parts of the buffer are; it serves its own no more, if another has that.
///
/// # Errors
/// The node's, or that nobody knows where one of the parts is: it knows of the others then.
async fn tell<S: Site>(app: &App<S>, node: &NodeName, instance: &Instance) -> Result<(), ApiError> {
    let mut all = Ok(());
    for (fragment, holder) in FragmentIndex::of_each(&instance.nodes) {
        let told = match app
            .site
            .ensure_nodes(std::slice::from_ref(holder))
            .await
            .map(|found| found.into_iter().next())
        {
            // No other machine can use that one's sockets.
            Ok(Some(address)) => {
                let address = StorageAddress { unix: None, ..address };
                app.site.note_moved(node, &instance.id, &Moved { fragment, address }).await
            }
            Ok(None) => Ok(()),
            Err(error) => Err(error),
        };
        all = all.and(told);
    }
    all
}

/// Takes what is left of the name `id` from a node that is to make it anew, or [`tidy`] would take the new one. To be
/// called when the new one is noted: where this fails, that one is taken away like any other.
///
/// # Errors
/// The node's or the database's.
pub(crate) async fn clear<S: Site>(app: &App<S>, node: &NodeName, id: &str) -> Result<(), ApiError> {
    let is_of_this = |leftover: &Leftover| leftover.node == *node && leftover.id == id;
    let all = app.database.transact(leftovers::all).await?;
    for leftover in all.into_iter().filter(is_of_this) {
        let _alone = app.tidying.lock().await;
        // The note goes last: what is still there must not pass for the new one.
        take(app, &leftover).await?;
        app.database.transact(move |tx| leftovers::delete(tx, &leftover)).await?;
    }
    Ok(())
}

async fn living<S: Site>(app: &App<S>, id: &str) -> Result<Option<Instance>, ApiError> {
    let all = app.database.transact(instances::all).await?;
    Ok(all.into_iter().find(|instance| instance.id == id))
}

async fn take<S: Site>(app: &App<S>, leftover: &Leftover) -> Result<(), ApiError> {
    let Leftover { node, kind, id } = leftover;
    match kind {
        Kind::Mount => app.site.unmount(node, id, Unmount::AtOnce).await,
        Kind::Fragment => app.site.delete_fragment(node, &InstanceId::unchecked(id)).await,
        Kind::Stage => app.site.delete_stage(node, id).await,
        Kind::Local => app.site.release_local(node, id, Release::Drained).await,
        Kind::LocalGivenUp => app.site.release_local(node, id, Release::GivenUp).await,
        Kind::Unaware => match living(app, id).await? {
            Some(instance) => tell(app, node, &instance).await,
            None => Ok(()),
        },
    }
}
