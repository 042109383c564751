//! Requests about nodes: they join, are drained, and leave.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State};
use daemon::error::{bug, user};
use model::NodeName;
use serde_json::{Value, json};
use server::Refusal;
use server::{Body, Caller};
use wire::control::{
    ApiError, Drain, ErrorCode, GiveUp, Lost, NodeRole, NodeStatus, RegisterNode, Registered,
};

use super::Handler;
use crate::lifecycle::{behind, lost, setup};
use crate::pool::Share;
use crate::site::{NodeView, Site};
use crate::state::activations;
use crate::state::nodes::{self, Known};

type Reply<T> = Result<Json<T>, Refusal>;

/// How often nodes say that they are there: after a restart control knows them all soon.
const AGAIN_S: u64 = 10;

/// A node joins, or says that it is still there.
pub(super) async fn register<S: Site>(
    State(handler): State<Handler<S>>,
    caller: Caller,
    Body(node): Body<RegisterNode>,
) -> Reply<Registered> {
    handler.rights(caller).require_operator("register a node")?;
    check(&handler, &node)?;
    let host = caller.address.map_or_else(|| nodes::HERE.to_owned(), |address| address.to_string());
    let lives = handler.app.site.lives(&node.name);
    let set = move |tx: &rusqlite::Transaction<'_>| {
        let before = nodes::find(tx, &node.name)?;
        Ok(match host_of(&node, before.as_ref(), &host, lives) {
            Ok(host) => Ok((nodes::set(tx, &node, host)?, behind::known(tx, &node.name)?)),
            Err(refused) => Err(refused),
        })
    };
    let (known, parts) = handler.app.database.transact(set).await??;
    handler.app.site.admit(known)?;
    Ok(Json(Registered { again_s: AGAIN_S, parts: Some(parts) }))
}

fn check<S: Site>(handler: &Handler<S>, node: &RegisterNode) -> Result<(), ApiError> {
    let refuse = |message: String, advice: &str| Err(user(ErrorCode::BadNode, message, advice));
    if node.name.check().is_err() {
        return refuse(
            format!("invalid name of a node {:?}", node.name),
            "use letters, digits, '_', '-' and '.'",
        );
    }
    let Some(setting) = handler.app.site.cluster() else { return Ok(()) };
    if !setting.nodes.is_empty() && !setting.nodes.contains(&node.name) {
        return refuse(
            format!("node {} is not one of this cluster's", node.name),
            "name it in `nodes` of control's configuration, if it is to be one",
        );
    }
    if let Some(pool) = &node.pool
        && setting.pools.iter().all(|known| known.name != *pool)
    {
        let message = format!("node {}: there is no pool {pool}", node.name);
        return refuse(message, "name a pool of control's configuration");
    }
    if node.roles.contains(&NodeRole::Compute) && node.mount_root != setting.mount_root {
        tracing::debug!(
            node = ?node.name,
            mount_root = %node.mount_root.display(),
            "the node mounts buffers elsewhere than jobs are told before they start"
        );
    }
    Ok(())
}

/// The host that is to count as the node's, where `host` asks for the name: of a node that lives, the one that had it
/// `before`. A host that reaches control in several ways is told by where its node is called.
///
/// # Errors
/// The node lives on another host.
fn host_of<'a>(
    node: &RegisterNode,
    before: Option<&'a Known>,
    host: &'a str,
    lives: bool,
) -> Result<&'a str, ApiError> {
    let Some(before) = before.filter(|before| !before.host.is_empty() && before.host != host) else {
        return Ok(host);
    };
    let said = |host: &str| match host {
        nodes::HERE => "control's own host".to_owned(),
        address => format!("host {address}"),
    };
    let (name, first, now) = (&node.name, said(&before.host), said(host));
    if !lives {
        tracing::warn!(node = ?name, before = first, now, "a node that did not answer is on another host now");
        return Ok(host);
    }
    if before.registration.address == node.address {
        return Ok(&before.host);
    }
    tracing::warn!(node = ?name, before = first, now, "another host asks for the name of a running node");
    let message = format!("node {name} lives on {first}, and {now} asks for its name");
    let advice = format!("give the node there a name of its own, or stop the one on {first} first");
    Err(user(ErrorCode::BadNode, message, advice))
}

/// Takes a node out of use for what comes next.
pub(super) async fn drain<S: Site>(
    State(handler): State<Handler<S>>,
    caller: Caller,
    Path(name): Path<NodeName>,
    Body(drain): Body<Drain>,
) -> Reply<NodeStatus> {
    let reason = if drain.reason.is_empty() { "drained".to_owned() } else { drain.reason };
    set_drained(&handler, caller, name, Some(reason)).await
}

/// Puts a node to use again.
pub(super) async fn resume<S: Site>(
    State(handler): State<Handler<S>>,
    caller: Caller,
    Path(name): Path<NodeName>,
) -> Reply<NodeStatus> {
    set_drained(&handler, caller, name, None).await
}

/// Gives up a node with all that it has: others take its places.
pub(super) async fn lost<S: Site>(
    State(handler): State<Handler<S>>,
    caller: Caller,
    Path(name): Path<NodeName>,
    Body(asked): Body<GiveUp>,
) -> Reply<Lost> {
    handler.rights(caller).require_operator("give up a node")?;
    // It goes on when the caller goes away: what is given up and has no other place yet must not stay so.
    let app = Arc::clone(&handler.app);
    let given_up = tokio::spawn(async move { lost::run(&app, &name, &asked).await });
    Ok(Json(given_up.await.map_err(|error| bug(ErrorCode::LostPanicked, error.to_string()))??))
}

/// Forgets a node that is gone for good.
pub(super) async fn forget<S: Site>(
    State(handler): State<Handler<S>>,
    caller: Caller,
    Path(name): Path<NodeName>,
) -> Reply<Value> {
    handler.rights(caller).require_operator("forget a node")?;
    let node = find(&handler, &name).await?;
    if node.online || node.fragments > 0 || node.activations > 0 {
        let message =
            format!("node {name} is in use: {} fragments, {} mounts", node.fragments, node.activations);
        let advice = "drain it, remove what is on it, and stop it";
        return Err(user(ErrorCode::NodeInUse, message, advice).into());
    }
    handler.app.site.forget(&name);
    handler.app.database.transact(move |tx| nodes::delete(tx, &name)).await?;
    Ok(Json(json!({})))
}

async fn set_drained<S: Site>(
    handler: &Handler<S>,
    caller: Caller,
    name: NodeName,
    drained: Option<String>,
) -> Reply<NodeStatus> {
    handler.rights(caller).require_operator("drain or resume a node")?;
    let wanted = name.clone();
    let set = move |tx: &rusqlite::Transaction<'_>| nodes::set_drained(tx, &wanted, drained.as_deref());
    let known = handler.app.database.transact(set).await?.ok_or_else(|| no_such_node(&name))?;
    handler.app.site.admit(known)?;
    Ok(Json(find(handler, &name).await?))
}

async fn find<S: Site>(handler: &Handler<S>, name: &NodeName) -> Result<NodeStatus, ApiError> {
    let all = describe_all(handler).await?;
    all.into_iter().find(|node| node.name == *name).ok_or_else(|| no_such_node(name))
}

fn no_such_node(name: &NodeName) -> ApiError {
    user(ErrorCode::NoSuchNode, format!("there is no node {name}"), "`forebay status` lists the nodes")
}

/// Every node for people.
///
/// # Errors
/// The database's.
pub(super) async fn describe_all<S: Site>(handler: &Handler<S>) -> Result<Vec<NodeStatus>, ApiError> {
    let views = handler.app.site.nodes();
    let seen = views.clone();
    let read = move |tx: &rusqlite::Transaction<'_>| {
        Ok((setup::shares(tx, &seen)?, activations::mounted_by_node(tx)?))
    };
    let (shares, mounts) = handler.app.database.transact(read).await?;
    let default = handler.app.site.cluster().and_then(|setting| setting.pools.first().cloned());
    let default = default.map(|pool| pool.name);
    let describe = |view: NodeView| {
        let activations = mounts.iter().find(|(node, _)| *node == view.name).map_or(0, |(_, count)| *count);
        describe(view, &shares, activations, default.as_deref())
    };
    Ok(views.into_iter().map(describe).collect())
}

fn describe(view: NodeView, shares: &[Share], activations: u32, default: Option<&str>) -> NodeStatus {
    let on_it = || {
        shares.iter().flat_map(|share| {
            share.nodes.iter().filter(|node| **node == view.name).map(|_| share.fragment_bytes())
        })
    };
    let registration = view.registration.as_ref();
    let pool = registration.map(|node| node.pool.clone().or_else(|| default.map(str::to_owned)));
    let stores = view.has(NodeRole::Storage);
    NodeStatus {
        online: view.online,
        last_error: view.last_error.clone(),
        roles: [NodeRole::Storage, NodeRole::Compute].into_iter().filter(|role| view.has(*role)).collect(),
        pool: pool.unwrap_or_else(|| Some(crate::pool::LOCAL_POOL.to_owned())).filter(|_| stores),
        drained: view.drained.clone(),
        address: registration.map(|node| node.address.clone()).unwrap_or_default(),
        capacity_bytes: registration.map_or(0, |node| node.capacity_bytes),
        allocated_bytes: on_it().sum(),
        fragments: u32::try_from(on_it().count()).unwrap_or(u32::MAX),
        activations,
        name: view.name,
    }
}
