//! Requests that belong to no session.

use axum::Json;
use axum::extract::State;
use daemon::error::user;
use server::Refusal;
use server::{Body, Caller};
use wire::control::{
    ApiError, CreatePersistent, JobProcess, JobSummary, NewToken, Objects, PoolStatus, SessionStatus,
    ShutdownReply, Status,
};

use super::{Door, nodes};
use crate::dispatch::Request;
use crate::lifecycle::job_process;
use crate::objects;
use crate::rights::Rights;
use crate::site::Site;
use crate::state::counters::{self, Counter};
use crate::state::sessions;

type Reply<T> = Result<Json<T>, Refusal>;

/// Everything that the caller may see.
pub async fn status<S: Site>(State(door): State<Door<S>>, caller: Caller) -> Reply<Status> {
    let (control, rights) = (&door.control, door.rights(caller));
    let mut all = Vec::new();
    for session in control.database.transact(sessions::living).await? {
        if session.shared || rights.cover(session.owner.uid) {
            all.push(crate::status::of(&door.control, session).await?);
        }
    }
    Ok(Json(Status {
        pools: job_process::pools(control).await?,
        nodes: nodes::describe_all(&door).await?,
        sessions: all,
    }))
}

/// The same as numbered objects.
pub async fn objects<S: Site>(State(door): State<Door<S>>, caller: Caller) -> Reply<Objects> {
    let (control, rights) = (std::sync::Arc::clone(&door.control), door.rights(caller));
    let views = control.nodes();
    let busy = std::sync::Arc::clone(&control);
    let read =
        move |tx: &rusqlite::Transaction<'_>| objects::read(tx, &views, rights, |token| busy.running(token));
    let objects = control.database.transact(read).await?;
    Ok(Json(Objects {
        pools: job_process::pools(&control).await?,
        nodes: nodes::describe_all(&door).await?,
        ..objects
    }))
}

/// The pools.
pub async fn pools<S: Site>(State(door): State<Door<S>>) -> Reply<Vec<PoolStatus>> {
    Ok(Json(job_process::pools(&door.control).await?))
}

/// Ends the service after this reply, if nothing needs it.
pub async fn shutdown<S: Site>(State(door): State<Door<S>>, caller: Caller) -> Reply<ShutdownReply> {
    door.rights(caller).require_operator("stop the service")?;
    let reply = door.control.shutdown().await?;
    if reply.busy.is_none() {
        door.ending.notify_one();
    }
    Ok(Json(reply))
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

/// Creates a persistent buffer.
pub async fn create_persistent<S: Site>(
    State(door): State<Door<S>>,
    caller: Caller,
    Body(create): Body<CreatePersistent>,
) -> Reply<SessionStatus> {
    let rights = door.rights(caller);
    rights.require_manager("create a buffer")?;
    check_owner(rights, create.owner.uid)?;
    let name = create.name.clone();
    door.control.run(&name, Request::Create(Box::new(create))).await?;
    Ok(Json(crate::status::of_token(&door.control, &name).await?))
}

/// A workload manager acts for users, and root is none: who can speak for its user must not copy files as root.
pub fn check_owner(rights: Rights, owner: u32) -> Result<(), ApiError> {
    if rights == Rights::Manager && owner == 0 {
        let advice = "use an ordinary account for jobs";
        return Err(user("not_allowed", "a workload manager cannot make buffers for root", advice));
    }
    Ok(())
}
