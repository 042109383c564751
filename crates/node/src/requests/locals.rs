//! `PUT`, `GET` and `DELETE /v1/locals`.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, Query, State};
use serde::Deserialize;
use serde_json::{Value, json};
use server::Body;
use server::Refusal;
use wire::node::{LocalSpec, LocalStatus};

use super::same_id;
use crate::node::Node;

/// Makes a volume; replies once it can be used.
pub(super) async fn create(
    State(node): State<Arc<Node>>,
    Path(id): Path<String>,
    Body(spec): Body<LocalSpec>,
) -> Result<Json<LocalStatus>, Refusal> {
    same_id(&id, &spec.id)?;
    Ok(Json(node.locals()?.create(spec).await?))
}

/// Lists the volumes.
pub(super) async fn list(State(node): State<Arc<Node>>) -> Result<Json<Vec<LocalStatus>>, Refusal> {
    Ok(Json(node.locals()?.statuses()))
}

/// How a volume is released.
#[derive(Deserialize)]
pub(super) struct How {
    /// Nothing of it is drained.
    #[serde(default)]
    discard: bool,
}

/// Takes a volume from its user.
pub(super) async fn release(
    State(node): State<Arc<Node>>,
    Path(id): Path<String>,
    Query(how): Query<How>,
) -> Result<Json<Value>, Refusal> {
    node.locals()?.release(&id, how.discard).await?;
    Ok(Json(json!({})))
}
