//! The node's API: which request goes where. The types and their meaning are in [`wire::node`].

mod fragments;
mod health;
mod integrity;
mod locals;
mod metrics;
mod mounts;
mod stages;

use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::Method;
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::Response;
use axum::routing::{get, post, put};
use daemon::error::{bug, user};
use server::Caller;
use server::Refusal;
use wire::control::ErrorCode;

use crate::node::Node;

/// What everybody may read.
pub(crate) fn metrics_router(node: Arc<Node>) -> Router {
    Router::new().route("/metrics", get(metrics::metrics)).with_state(node)
}

/// Every route.
pub(crate) fn router(node: Arc<Node>) -> Router {
    Router::new()
        .route("/metrics", get(metrics::metrics))
        .route("/v1/health", get(health::health))
        .route("/v1/shutdown", post(health::shutdown))
        .route("/v1/fragments/{instance}", put(fragments::create).delete(fragments::delete))
        .route("/v1/fragments/{instance}/moved", put(fragments::moved))
        .route("/v1/fragments/{instance}/files/{fragment}", get(integrity::files))
        .route("/v1/fragments/{instance}/heard", put(fragments::heard))
        .route("/v1/fragments/{instance}/scrub", put(integrity::scrub).get(integrity::status))
        .route("/v1/fragments/{instance}/paths", put(integrity::paths))
        .route("/v1/fragments/{instance}/fsck", put(integrity::fsck))
        .route("/v1/mounts/{id}", put(mounts::create).delete(mounts::delete))
        .route("/v1/mounts/{id}/shared", put(mounts::share))
        .route("/v1/mounts/{id}/credential", put(mounts::renew))
        .route("/v1/locals", get(locals::list))
        .route("/v1/locals/{id}", put(locals::create).delete(locals::release))
        .route("/v1/stages/{id}", put(stages::create).get(stages::status).delete(stages::delete))
        .route("/v1/stages/{id}/control", put(stages::control))
        .route("/v1/stages/{id}/retry", put(stages::retry))
        .route("/v1/pfs/mounts", put(stages::mounts))
        .layer(from_fn(to_its_end))
        .layer(from_fn_with_state(Arc::clone(&node), only_control))
        .with_state(node)
}

/// A node does what control says, and root, and its own user; nobody else may even look.
async fn only_control(
    State(node): State<Arc<Node>>,
    caller: Caller,
    request: Request,
    next: Next,
) -> Result<Response, Refusal> {
    let own = rustix::process::geteuid().as_raw();
    if [Some(0), Some(own), node.control_uid].contains(&Some(caller.uid)) {
        return Ok(next.run(request).await);
    }
    let message = format!("user {} may not tell a node what to do", caller.uid);
    Err(Refusal(user(ErrorCode::NotControl, message, "ask the control service")))
}

/// What changes something is a task of its own: a caller that hangs up takes nothing away half done. Whoever asks again
/// finds what came of it.
async fn to_its_end(request: Request, next: Next) -> Result<Response, Refusal> {
    if request.method() == Method::GET {
        return Ok(next.run(request).await);
    }
    let asked = format!("{} {}", request.method(), request.uri().path());
    let done = tokio::spawn(next.run(request)).await;
    done.map_err(|error| Refusal(bug(ErrorCode::RequestPanicked, format!("{asked} did not finish: {error}"))))
}

/// The name in a path and the name in its body must be one.
fn same_id(path: &str, body: &str) -> Result<(), Refusal> {
    if path == body {
        return Ok(());
    }
    Err(Refusal(user(
        ErrorCode::BadRequest,
        format!("the path says {path}, the body {body}"),
        "use programs of one version",
    )))
}
