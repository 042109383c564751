//! Requests that belong to no session.

use axum::Json;
use axum::extract::State;
use daemon::error::{Refusal, bug};
use daemon::http::Body;
use wire::control::{JobProcess, JobSummary, NewToken, NodeStatus, ShutdownReply, Status};

use super::Door;
use crate::lifecycle::job_process;
use crate::site::{NodeView, Site};
use crate::state::counters::{self, Counter};
use crate::state::sessions;

type Reply<T> = Result<Json<T>, Refusal>;

/// Everything an operator sees.
pub async fn status<S: Site>(State(door): State<Door<S>>) -> Reply<Status> {
    let control = &door.control;
    let mut all = Vec::new();
    for session in control.database.transact(sessions::living).await? {
        all.push(control.describe(session).await?);
    }
    Ok(Json(Status {
        pools: vec![job_process::pool_status(control).await?],
        nodes: control.site.nodes().into_iter().map(describe).collect(),
        sessions: all,
    }))
}

fn describe(view: NodeView) -> NodeStatus {
    NodeStatus { name: view.name, online: view.online, last_error: view.last_error, ..NodeStatus::default() }
}

/// Ends the service after this reply, if nothing needs it. Goes on when the caller goes away.
pub async fn shutdown<S: Site>(State(door): State<Door<S>>) -> Reply<ShutdownReply> {
    let done = tokio::spawn(async move {
        let reply = door.control.shutdown().await?;
        if reply.busy.is_none() {
            door.ending.notify_one();
        }
        Ok(Json(reply))
    });
    done.await.map_err(|error| bug("shutdown_panicked", error.to_string()))?
}

/// Would this script be accepted?
pub async fn job_process<S: Site>(
    State(door): State<Door<S>>,
    Body(request): Body<JobProcess>,
) -> Reply<JobSummary> {
    Ok(Json(job_process::run(&door.control, request).await?))
}

/// A token that no session has.
pub async fn new_token<S: Site>(State(door): State<Door<S>>) -> Reply<NewToken> {
    let draw = |tx: &rusqlite::Transaction<'_>| loop {
        let token = counters::next(tx, Counter::Token)?.to_string();
        if sessions::find(tx, &token)?.is_none() {
            return Ok(token);
        }
    };
    Ok(Json(NewToken { token: door.control.database.transact(draw).await? }))
}
