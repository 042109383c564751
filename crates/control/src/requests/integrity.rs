//! Whether what a session's buffer stores is what was written: its nodes are asked, and their answers put together.

use std::time::{Duration, Instant};

use axum::Json;
use axum::extract::State;
use daemon::error::user;
use model::{FragmentIndex, Ino, NodeName, Token};
use server::Refusal;
use server::{Body, Caller};
use wire::control::{ApiError, ErrorCode};
use wire::node::{Damage, FsckReport, FsckSpec, PartTrouble, ScrubSpec, ScrubStatus};

use super::Handler;
use super::token::Named;
use crate::advice;
use crate::site::{NodeView, Site};
use crate::state::instances::{self, Instance};

/// How long to wait for nodes that have not yet said what has come of a scrub or a repair.
const HEARD_WITHIN: Duration = Duration::from_secs(3);

/// Between two looks at that.
const HEARD_PAUSE: Duration = Duration::from_millis(50);

type Reply<T> = Result<Json<T>, Refusal>;

/// Starts a scrub on every node that has none running.
pub(super) async fn scrub<S: Site>(
    State(handler): State<Handler<S>>,
    caller: Caller,
    Named(token): Named,
    Body(spec): Body<ScrubSpec>,
) -> Reply<ScrubStatus> {
    Ok(Json(together(&handler, caller, &token, Some(spec)).await?))
}

/// How it stands.
pub(super) async fn status<S: Site>(
    State(handler): State<Handler<S>>,
    caller: Caller,
    Named(token): Named,
) -> Reply<ScrubStatus> {
    Ok(Json(together(&handler, caller, &token, None).await?))
}

/// Compares the metadata with the objects.
pub(super) async fn fsck<S: Site>(
    State(handler): State<Handler<S>>,
    caller: Caller,
    Named(token): Named,
    Body(spec): Body<FsckSpec>,
) -> Reply<FsckReport> {
    let (token, instance) = instance(&handler, caller, &token).await?;
    let (mut sum, mut of_others) = (FsckReport::default(), Vec::new());
    for (part, node) in FragmentIndex::of_each(&instance.nodes) {
        match handler.app.site.fsck(node, &instance.id, spec).await {
            Ok(mut one) => {
                of_others.append(&mut one.unseen);
                sum.add(one);
            }
            Err(error) => sum.unseen.push(unseen(&handler, &instance, (part, node, &token), error)),
        }
    }
    // Of a part that several could not look at, its own node knows best why.
    for other in of_others {
        if sum.unseen.iter().all(|known| known.part != other.part) {
            sum.unseen.push(other);
        }
    }
    hear(&handler, &instance).await;
    Ok(Json(sum))
}

/// Waits until the instance's nodes have said how they are since this was called: what was found and mended shows in
/// the status at once. For a moment at most: it is seen later as well.
async fn hear<S: Site>(handler: &Handler<S>, instance: &Instance) {
    let begun = Instant::now();
    let is_old = |view: &NodeView| {
        let is_of_it = view.online && instance.nodes.contains(&view.name);
        is_of_it && view.asked.is_some_and(|asked| asked < begun)
    };
    while begun.elapsed() < HEARD_WITHIN && handler.app.site.nodes().iter().any(is_old) {
        tokio::time::sleep(HEARD_PAUSE).await;
    }
}

async fn together<S: Site>(
    handler: &Handler<S>,
    caller: Caller,
    token: &Token,
    spec: Option<ScrubSpec>,
) -> Result<ScrubStatus, ApiError> {
    let (token, instance) = instance(handler, caller, token).await?;
    let mut sum = ScrubStatus::sum();
    for (part, node) in FragmentIndex::of_each(&instance.nodes) {
        let one = match handler.app.site.scrub(node, &instance.id, spec).await {
            Ok(one) => one,
            Err(error) => {
                sum.unseen.push(unseen(handler, &instance, (part, node, &token), error));
                continue;
            }
        };
        let error = one.error.map(|error| format!("node {node}: {error}"));
        sum.add(ScrubStatus { error, ..one });
    }
    if !sum.running {
        hear(handler, &instance).await;
        name(handler, &instance, &mut sum.damaged).await;
        name(handler, &instance, &mut sum.unverified).await;
    }
    Ok(sum)
}

/// A part whose node does not answer for it: the others are looked at all the same.
fn unseen<S: Site>(
    handler: &Handler<S>,
    of: &Instance,
    (part, node, token): (FragmentIndex, &NodeName, &Token),
    error: ApiError,
) -> PartTrouble {
    let error = advice::of_node(&handler.app.site, (node, token), of, error);
    PartTrouble { part, node: node.to_owned(), why: error.message, advice: error.advice }
}

/// Adds paths: each namespace's home knows its own. One that does not answer is among the parts that were not looked
/// at.
async fn name<S: Site>(handler: &Handler<S>, instance: &Instance, damaged: &mut [Damage]) {
    if damaged.is_empty() {
        return;
    }
    let inos: Vec<(u32, Ino)> = damaged.iter().map(|damage| (damage.namespace, damage.ino)).collect();
    for node in &instance.nodes {
        let Ok(paths) = handler.app.site.paths(node, &instance.id, &inos).await else { continue };
        for (damage, path) in damaged.iter_mut().zip(paths) {
            damage.path = damage.path.take().or(path);
        }
    }
}

/// The session, and its instance.
async fn instance<S: Site>(
    handler: &Handler<S>,
    caller: Caller,
    token: &Token,
) -> Result<(Token, Instance), ApiError> {
    let token = handler.own(caller, token).await?.token;
    let wanted = token.clone();
    let find = move |tx: &rusqlite::Transaction<'_>| instances::find(tx, &wanted);
    let found = handler.app.database.transact(find).await?.filter(|instance| !instance.nodes.is_empty());
    match found {
        Some(instance) => Ok((token, instance)),
        None => {
            let message = format!("session {token} has no buffer whose bytes storage nodes keep");
            Err(user(ErrorCode::NoInstance, message, "`forebay status` shows what it has"))
        }
    }
}
