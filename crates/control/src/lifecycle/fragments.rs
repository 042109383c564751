//! The fragments of an instance on their nodes: made, given more namespaces, destroyed.
//!
//! **Invariant:** a fragment that was made is never made again; see [`crate::state::fragments`].

use model::NodeName;
use wire::advice::NEWER_DATABASE;
use wire::control::{ApiError, ErrorCode};
use wire::data::keys::is_former;
use wire::node::{FragmentSpec, FragmentStatus, StorageAddress};

use super::target::Described;
use super::{absent, encrypted, join_all, target};
use crate::advice;
use crate::app::App;
use crate::site::Site;
use crate::state::fragments;
use crate::state::instances::{self, Instance};
use crate::state::leftovers::{self, Leftover};

/// How often a node is asked for a fragment that it is still starting. It answers after half a minute.
pub(super) const ASKED_MAX: u32 = 10;

/// What each node is asked for, in order. A fragment that was made once is never made again.
///
/// # Errors
/// The database's.
pub(crate) async fn specs<S: Site>(
    app: &App<S>,
    of: &Described,
    peers: &[StorageAddress],
) -> Result<Vec<FragmentSpec>, ApiError> {
    let found = of.instance.clone();
    // A node takes one of another key for another's: `of` may be older than a change of the keys.
    let read = move |tx: &rusqlite::Transaction<'_>| {
        Ok((fragments::states(tx, &found.id)?, instances::with_present_keys(tx, &found)?))
    };
    let (states, instance) = app.database.transact(read).await?;
    let specs =
        target::fragments(&app.site, &Described { instance, ..of.clone() }, peers).into_iter().zip(states);
    Ok(specs.map(|(spec, (state, term))| FragmentSpec { missing: state.missing(), term, ..spec }).collect())
}

/// All fragments at once: an image takes its time. Those that were made before get the namespaces that they lack, and
/// the present keys.
///
/// # Errors
/// The first node that does not make its fragment, or that had made it and does not have it.
pub(crate) async fn make<S: Site>(app: &App<S>, of: &Described) -> Result<(), ApiError> {
    let made = made(app, of).await?;
    let found = of.instance.clone();
    let present = app.database.transact(move |tx| instances::with_present_keys(tx, &found)).await?;
    let mut nodes = present.nodes.iter().zip(made);
    match nodes.find(|(_, status)| is_former(present.key_step, status.key_step)) {
        None => Ok(()),
        Some((node, status)) => Err(key_behind(&present, node, status.key_step)),
    }
}

/// The database is a copy from before a change of the instance's key, whose step the node says.
pub(super) fn key_behind(instance: &Instance, node: &NodeName, step: u64) -> ApiError {
    let message = format!(
        "node {node} has key {step} of its part of {}, and control.db has key {}: it is a copy from before the key was \
         changed",
        instance.id, instance.key_step
    );
    daemon::error::site(ErrorCode::KeyBehind, message, NEWER_DATABASE)
}

/// The same; replies how they are, in order.
///
/// # Errors
/// As [`make`].
pub(crate) async fn made<S: Site>(app: &App<S>, of: &Described) -> Result<Vec<FragmentStatus>, ApiError> {
    let peers = target::addresses(app, &of.instance).await?;
    encrypted::check(&app.site, &of.instance, &of.instance.nodes)?;
    let specs = specs(app, of, &peers).await?;
    let all = of.instance.nodes.iter().zip(&specs).map(async |(node, spec)| {
        let made = make_one(app, node, spec).await;
        made.map_err(|error| advice::of_node(&app.site, (node, &of.token), &of.instance, error))
    });
    // Every one is waited for, also when one fails: what comes after must find them all settled.
    let made = join_all(all).await.into_iter().collect::<Result<_, ApiError>>()?;
    note_made(app, &of.instance).await?;
    Ok(made)
}

/// Notes that every fragment is there.
///
/// # Errors
/// The database's.
pub(crate) async fn note_made<S: Site>(app: &App<S>, instance: &Instance) -> Result<(), ApiError> {
    let id = instance.id.clone();
    app.database.transact(move |tx| fragments::note_made(tx, &id)).await?;
    app.note_made(&instance.id);
    Ok(())
}

async fn make_one<S: Site>(
    app: &App<S>,
    node: &NodeName,
    spec: &FragmentSpec,
) -> Result<FragmentStatus, ApiError> {
    let status = ask(app, node, spec, ASKED_MAX).await?;
    match &status.error {
        None => Ok(status),
        Some(reason) => {
            let message = format!("fragment {} of {} on node {node}: {reason}", spec.index, spec.instance);
            Err(daemon::error::site(ErrorCode::FragmentBroken, message, advice::log_of(&app.site, node)))
        }
    }
}

/// Asks a node for a fragment, so often while it is starting that.
///
/// # Errors
/// It cannot make it, or does not have it; it is still starting it.
pub(super) async fn ask<S: Site>(
    app: &App<S>,
    node: &NodeName,
    spec: &FragmentSpec,
    times: u32,
) -> Result<FragmentStatus, ApiError> {
    let mut asked = 1;
    loop {
        match app.site.create_fragment(node, spec).await {
            // The node has waited for it, too.
            Err(error) if error.code == ErrorCode::FragmentStarting && asked < times => asked += 1,
            answer => return answer,
        }
    }
}

/// Destroys every fragment that was made. On a cluster a node that does not answer is left behind: its fragment is
/// destroyed when it is back.
///
/// # Errors
/// A node does not let go; the instance must stay noted then.
pub(crate) async fn destroy<S: Site>(app: &App<S>, instance: &Instance) -> Result<(), ApiError> {
    app.forget_made(&instance.id);
    let all = instance.nodes.iter().map(async |node| {
        match app.site.delete_fragment(node, &instance.id).await {
            Err(error) if absent(&app.site, &error) => {
                tracing::warn!(?node, instance = ?instance.id, %error, "a fragment is left behind until its node is back");
                let left = Leftover::fragment(node, &instance.id);
                app.database.transact(move |tx| leftovers::add(tx, &left)).await
            }
            result => result,
        }
    });
    join_all(all).await.into_iter().collect()
}
