//! Nodes that do not have the present key of a buffer, as where an old copy of a node's folder was put back: such a
//! node hears at its start which of its parts are not to be served, and is brought the present key when it is seen.
//!
//! **Invariant:** no node is told of a key while that is being changed but by who changes it.

use model::{InstanceId, NodeName};
use rusqlite::Transaction;
use wire::control::{ApiError, KnownPart};
use wire::node::FragmentStatus;

use super::target::Described;
use super::{buffers, fragments};
use crate::app::App;
use crate::site::{NodeView, Site};
use crate::state::leftovers::{self, Kind};
use crate::state::{self, instances, sessions};

/// What a node is told of the parts that it has, or had.
///
/// # Errors
/// The database's.
pub(crate) fn known(tx: &Transaction<'_>, node: &NodeName) -> state::Result<Vec<KnownPart>> {
    // Each node asks again and again: this looks at no more than its own.
    let all = instances::steps_on(tx, node)?.into_iter();
    let mut parts: Vec<KnownPart> =
        all.map(|(instance, key_step)| KnownPart { instance, key_step, given_up: false }).collect();
    let left = leftovers::all(tx)?.into_iter();
    let given_up = left.filter(|left| left.kind == Kind::Fragment && left.node == *node);
    for left in given_up {
        if parts.iter().all(|part| part.instance != *left.id) {
            let instance = InstanceId::unchecked(left.id);
            parts.push(KnownPart { instance, key_step: 0, given_up: true });
        }
    }
    Ok(parts)
}

/// Brings the present keys to the nodes that are seen to have earlier ones.
///
/// # Errors
/// The database's. Whoever is not told now is told in the next round.
pub(crate) async fn tell<S: Site>(app: &App<S>) -> Result<(), ApiError> {
    let Ok(_alone) = app.rekeying.try_lock() else { return Ok(()) };
    let read = |tx: &Transaction<'_>| {
        let mut all = Vec::new();
        for token in instances::with_changed_keys(tx)? {
            if let Some(session) = sessions::find(tx, &token)? {
                all.extend(buffers::describe(tx, &session)?);
            }
        }
        Ok(all)
    };
    let nodes = app.nodes();
    for of in app.database.transact(read).await? {
        for view in nodes.iter().filter(|view| is_behind(&of, view)) {
            tell_one(app, &of, &view.name).await?;
        }
    }
    Ok(())
}

fn is_behind(of: &Described, view: &NodeView) -> bool {
    let mut parts = view.health.iter().filter(|_| view.online).flat_map(|health| &health.fragments);
    let is_made = of.instance.made.iter().all(|made| *made);
    // One that starts would be waited for; one that cannot be served takes no key.
    let takes_keys = |part: &FragmentStatus| !part.starting && (part.error.is_none() || part.retried);
    let is_earlier = |part: &FragmentStatus| {
        part.instance == of.instance.id && part.key_step < of.instance.key_step && takes_keys(part)
    };
    is_made && of.instance.nodes.contains(&view.name) && parts.any(is_earlier)
}

async fn tell_one<S: Site>(app: &App<S>, of: &Described, name: &NodeName) -> Result<(), ApiError> {
    let specs = fragments::specs(app, of, &[]).await?;
    let of_node = of.instance.nodes.iter().zip(&specs).find(|(node, _)| *node == name);
    let Some((node, spec)) = of_node else { return Ok(()) };
    match fragments::ask(app, node, spec, 1).await {
        // A release that cannot change keys takes none.
        Ok(status) if status.key_step < spec.key_step => {}
        Ok(_) => {
            tracing::info!(?node, instance = ?spec.instance, "brought a node the present key of a buffer")
        }
        Err(error) => {
            tracing::warn!(?node, instance = ?spec.instance, %error, "a node has an earlier key of a buffer");
        }
    }
    Ok(())
}
