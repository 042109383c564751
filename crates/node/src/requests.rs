//! The node's API: which request goes where. The types and their meaning are in [`wire::node`].

mod fragments;
mod health;
mod mounts;
mod stages;

use std::sync::Arc;

use axum::Router;
use axum::routing::{get, post, put};
use daemon::error::{Refusal, user};

use crate::service::Node;

/// Every route.
pub fn router(node: Arc<Node>) -> Router {
    Router::new()
        .route("/v1/health", get(health::health))
        .route("/v1/shutdown", post(health::shutdown))
        .route("/v1/fragments/{instance}", put(fragments::create).delete(fragments::delete))
        .route("/v1/mounts/{id}", put(mounts::create).delete(mounts::delete))
        .route("/v1/stages/{id}", put(stages::create).get(stages::status).delete(stages::delete))
        .with_state(node)
}

/// The name in a path and the name in its body must be one.
fn same_id(path: &str, body: &str) -> Result<(), Refusal> {
    if path == body {
        return Ok(());
    }
    Err(Refusal(user(
        "bad_request",
        format!("the path says {path}, the body {body}"),
        "use programs of one version",
    )))
}
