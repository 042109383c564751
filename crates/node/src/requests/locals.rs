//! `PUT`, `GET` and `DELETE /v1/locals`.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State};
use daemon::error::Refusal;
use daemon::http::Body;
use serde_json::{Value, json};
use wire::node::{LocalSpec, LocalStatus};

use super::same_id;
use crate::service::Node;

/// Makes a volume; replies once it can be used.
pub async fn create(
    State(node): State<Arc<Node>>,
    Path(id): Path<String>,
    Body(spec): Body<LocalSpec>,
) -> Result<Json<LocalStatus>, Refusal> {
    same_id(&id, &spec.id)?;
    Ok(Json(node.locals()?.create(spec).await?))
}

/// Lists the volumes.
pub async fn list(State(node): State<Arc<Node>>) -> Result<Json<Vec<LocalStatus>>, Refusal> {
    Ok(Json(node.locals()?.statuses()))
}

/// Takes a volume from its user.
pub async fn release(State(node): State<Arc<Node>>, Path(id): Path<String>) -> Result<Json<Value>, Refusal> {
    node.locals()?.release(&id)?;
    Ok(Json(json!({})))
}
