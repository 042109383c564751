//! Requests of one session: `/v1/sessions/{token}…`. Each runs or joins its function and replies when that is done.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use daemon::error::bug;
use model::Token;
use server::Refusal;
use server::{Body, Caller};
use wire::control::{
    DataOut, ErrorCode, Paths, PostRun, PreRun, RealSize, Rekeyed, SessionStatus, Setup, Teardown,
    TeardownReply,
};

use super::Handler;
use super::service::check_owner;
use super::token::Named;
use crate::dispatch::Request;
use crate::lifecycle;
use crate::site::Site;
use crate::status;

type Reply<T> = Result<Json<T>, Refusal>;

/// How far the session is.
pub(super) async fn status<S: Site>(
    State(handler): State<Handler<S>>,
    caller: Caller,
    Named(token): Named,
) -> Reply<SessionStatus> {
    handler.visible(caller, &token).await?;
    Ok(Json(status::of_token(&handler.app, &token, handler.rights(caller)).await?))
}

/// Allocates.
pub(super) async fn setup<S: Site>(
    State(handler): State<Handler<S>>,
    caller: Caller,
    Named(token): Named,
    Body(setup): Body<Setup>,
) -> Reply<SessionStatus> {
    let rights = handler.rights(caller);
    rights.require_manager("set up a buffer")?;
    check_owner(rights, &setup.owner).await?;
    run(&handler, caller, &token, Request::Setup(Box::new(setup))).await
}

/// Stages in.
pub(super) async fn data_in<S: Site>(
    State(handler): State<Handler<S>>,
    caller: Caller,
    Named(token): Named,
) -> Reply<SessionStatus> {
    handler.own(caller, &token).await?;
    run(&handler, caller, &token, Request::DataIn).await
}

/// Mounts.
pub(super) async fn pre_run<S: Site>(
    State(handler): State<Handler<S>>,
    caller: Caller,
    Named(token): Named,
    Body(how): Body<PreRun>,
) -> Reply<SessionStatus> {
    handler.rights(caller).require_manager("mount a buffer")?;
    run(&handler, caller, &token, Request::PreRun(how)).await
}

/// Unmounts.
pub(super) async fn post_run<S: Site>(
    State(handler): State<Handler<S>>,
    caller: Caller,
    Named(token): Named,
    Body(how): Body<PostRun>,
) -> Reply<SessionStatus> {
    handler.rights(caller).require_manager("unmount a buffer")?;
    run(&handler, caller, &token, Request::PostRun(how)).await
}

/// Stages out.
pub(super) async fn data_out<S: Site>(
    State(handler): State<Handler<S>>,
    caller: Caller,
    Named(token): Named,
    Body(how): Body<DataOut>,
) -> Reply<SessionStatus> {
    handler.own(caller, &token).await?;
    run(&handler, caller, &token, Request::DataOut(how)).await
}

/// Releases everything, or says why not.
pub(super) async fn teardown<S: Site>(
    State(handler): State<Handler<S>>,
    caller: Caller,
    Named(token): Named,
    Body(how): Body<Teardown>,
) -> Reply<TeardownReply> {
    handler.own(caller, &token).await?;
    Ok(Json(handler.app.teardown(&token, how).await?))
}

/// Stops a running `data_in` or `data_out`.
pub(super) async fn cancel<S: Site>(
    State(handler): State<Handler<S>>,
    caller: Caller,
    Named(token): Named,
) -> Reply<SessionStatus> {
    handler.own(caller, &token).await?;
    handler.app.cancel(&token).await?;
    Ok(Json(status::of_token(&handler.app, &token, handler.rights(caller)).await?))
}

/// Gives its buffer another key.
pub(super) async fn rekey<S: Site>(
    State(handler): State<Handler<S>>,
    caller: Caller,
    Named(token): Named,
) -> Reply<Rekeyed> {
    handler.rights(caller).require_operator("change the key of a buffer")?;
    let session = handler.own(caller, &token).await?;
    // It goes on when the caller goes away: whoever has the former key is not to be left with it.
    let app = Arc::clone(&handler.app);
    let changed = tokio::spawn(async move { lifecycle::rekey::run(&app, &session.token).await });
    Ok(Json(changed.await.map_err(|error| bug(ErrorCode::FunctionPanicked, error.to_string()))??))
}

/// The job's environment.
pub(super) async fn paths<S: Site>(
    State(handler): State<Handler<S>>,
    caller: Caller,
    Named(token): Named,
) -> Reply<Paths> {
    let session = handler.own(caller, &token).await?;
    Ok(Json(lifecycle::paths::paths(&handler.app, &session.token).await?))
}

/// What was really allocated.
pub(super) async fn real_size<S: Site>(
    State(handler): State<Handler<S>>,
    caller: Caller,
    Named(token): Named,
) -> Reply<RealSize> {
    let session = handler.own(caller, &token).await?;
    Ok(Json(lifecycle::paths::real_size(&handler.app, &session.token).await?))
}

async fn run<S: Site>(
    handler: &Handler<S>,
    caller: Caller,
    token: &Token,
    request: Request,
) -> Reply<SessionStatus> {
    handler.app.run(token, request).await?;
    Ok(Json(status::of_token(&handler.app, token, handler.rights(caller)).await?))
}
