//! `GET /v1/health` and `POST /v1/shutdown`.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use serde_json::{Value, json};
use server::Refusal;
use wire::node::NodeHealth;

use crate::node::Node;

/// What the node says of itself.
pub(super) async fn health(State(node): State<Arc<Node>>) -> Result<Json<NodeHealth>, Refusal> {
    Ok(Json(node.health().await?))
}

/// Ends the node after this reply.
pub(super) async fn shutdown(State(node): State<Arc<Node>>) -> Json<Value> {
    node.stopping.notify_one();
    Json(json!({}))
}
