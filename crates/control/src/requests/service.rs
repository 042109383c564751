//! Requests that belong to no session.

use axum::extract::State;
use axum::{Extension, Json};
use daemon::error::user;
use model::Token;
use server::Refusal;
use server::{Body, Caller};
use wire::control::{
    ApiError, CreatePersistent, ErrorCode, JobProcess, JobSummary, NewToken, Objects, Owner, PoolStatus,
    SessionStatus, ShutdownReply, Status,
};

use super::{Handler, nodes, token};
use crate::audit::Concerned;
use crate::dispatch::Request;
use crate::lifecycle::job_process;
use crate::objects;
use crate::rights::Rights;
use crate::site::Site;
use crate::state::counters::{self, Counter};
use crate::state::sessions;

type Reply<T> = Result<Json<T>, Refusal>;

/// Everything that the caller may see.
pub(super) async fn status<S: Site>(State(handler): State<Handler<S>>, caller: Caller) -> Reply<Status> {
    let (app, rights) = (&handler.app, handler.rights(caller));
    let mut all = Vec::new();
    for session in app.database.transact(sessions::living).await? {
        if session.shared || rights.cover(session.owner.uid) {
            all.push(crate::status::of(&handler.app, session, rights).await?);
        }
    }
    Ok(Json(Status {
        pools: job_process::pools(app).await?,
        nodes: nodes::describe_all(&handler).await?,
        sessions: all,
    }))
}

/// The same as numbered objects.
pub(super) async fn objects<S: Site>(State(handler): State<Handler<S>>, caller: Caller) -> Reply<Objects> {
    let (app, rights) = (std::sync::Arc::clone(&handler.app), handler.rights(caller));
    let views = app.nodes();
    let busy = std::sync::Arc::clone(&app);
    let read =
        move |tx: &rusqlite::Transaction<'_>| objects::read(tx, &views, rights, |token| busy.running(token));
    let objects = {
        let _turn = app.user_queues.wait(rights).await;
        app.database.transact(read).await?
    };
    Ok(Json(Objects {
        pools: job_process::pools(&app).await?,
        nodes: nodes::describe_all(&handler).await?,
        ..objects
    }))
}

/// The pools.
pub(super) async fn pools<S: Site>(State(handler): State<Handler<S>>) -> Reply<Vec<PoolStatus>> {
    Ok(Json(job_process::pools(&handler.app).await?))
}

/// Ends the service after this reply, if nothing needs it.
pub(super) async fn shutdown<S: Site>(
    State(handler): State<Handler<S>>,
    caller: Caller,
) -> Reply<ShutdownReply> {
    handler.rights(caller).require_operator("stop the service")?;
    let reply = handler.app.shutdown().await?;
    if reply.busy.is_none() {
        handler.ending.notify_one();
    }
    Ok(Json(reply))
}

/// Would this script be accepted?
pub(super) async fn job_process<S: Site>(
    State(handler): State<Handler<S>>,
    Body(request): Body<JobProcess>,
) -> Reply<JobSummary> {
    Ok(Json(job_process::run(&handler.app, request).await?))
}

/// A token that no session has.
pub(super) async fn new_token<S: Site>(State(handler): State<Handler<S>>) -> Reply<NewToken> {
    let draw = |tx: &rusqlite::Transaction<'_>| loop {
        // Digits only.
        let token = Token::unchecked(counters::next(tx, Counter::Token)?.to_string());
        if sessions::find(tx, &token)?.is_none() {
            return Ok(token);
        }
    };
    Ok(Json(NewToken { token: handler.app.database.transact(draw).await? }))
}

/// Creates a persistent buffer.
pub(super) async fn create_persistent<S: Site>(
    State(handler): State<Handler<S>>,
    caller: Caller,
    Body(create): Body<CreatePersistent>,
) -> Result<(Extension<Concerned>, Json<SessionStatus>), Refusal> {
    let rights = handler.rights(caller);
    rights.require_manager("create a buffer")?;
    check_owner(rights, &create.owner).await?;
    let name = token::checked(&create.name)?;
    handler.app.run(&name, Request::Create(Box::new(create))).await?;
    let concerned = Concerned::from(&handler.app.session(&name).await?);
    Ok((Extension(concerned), Json(crate::status::of_token(&handler.app, &name, rights).await?)))
}

/// A workload manager acts for users, and root is none: who can speak for its user must not copy files as root, nor
/// with the rights of a group that is not the user's.
pub(super) async fn check_owner(rights: Rights, owner: &Owner) -> Result<(), ApiError> {
    if rights != Rights::Manager {
        return Ok(());
    }
    let Owner { uid, gid } = *owner;
    let refused = |message: String, advice| Err(user(ErrorCode::NotAllowed, message, advice));
    if uid == 0 {
        let message = "a workload manager cannot make buffers for root".to_owned();
        return refused(message, "use an ordinary account for jobs");
    }
    let groups = tokio::task::spawn_blocking(move || daemon::groups::known(uid)).await;
    let is_of_user = match groups.map_err(std::io::Error::other).and_then(|groups| groups) {
        Ok(Some(groups)) => groups.contains(&gid),
        // Control's host may not know the site's users. Root's group is no user's that nobody knows.
        Ok(None) => gid != 0,
        Err(error) => {
            tracing::warn!(uid, %error, "cannot look up the groups of a user with id -G");
            gid != 0
        }
    };
    if is_of_user {
        return Ok(());
    }
    let message = format!("user {uid} is not in group {gid} on control's host");
    refused(message, "submit the job with one of the user's groups, as `id -G` lists them")
}
