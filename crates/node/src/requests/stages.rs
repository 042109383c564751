//! `PUT`, `GET` and `DELETE /v1/stages/{id}`, `PUT /v1/stages/{id}/control` and `PUT /v1/stages/{id}/retry`.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State};
use serde_json::{Value, json};
use server::Body;
use server::Refusal;
use wire::control::StageStatus;
use wire::node::{StageControl, StageSpec};

use super::same_id;
use crate::service::Node;

/// Starts a stage; replies at once.
pub async fn create(
    State(node): State<Arc<Node>>,
    Path(id): Path<String>,
    Body(spec): Body<StageSpec>,
) -> Result<Json<StageStatus>, Refusal> {
    same_id(&id, &spec.id)?;
    Ok(Json(node.stages().create(spec).await?))
}

/// Starts a stage that failed again; replies at once.
pub async fn retry(
    State(node): State<Arc<Node>>,
    Path(id): Path<String>,
    Body(spec): Body<StageSpec>,
) -> Result<Json<StageStatus>, Refusal> {
    same_id(&id, &spec.id)?;
    Ok(Json(node.stages().retry(spec).await?))
}

/// How far a stage is.
pub async fn status(
    State(node): State<Arc<Node>>,
    Path(id): Path<String>,
) -> Result<Json<StageStatus>, Refusal> {
    Ok(Json(node.stages().status(&id)?))
}

/// Pauses a stage, lets it go on, or limits it.
pub async fn control(
    State(node): State<Arc<Node>>,
    Path(id): Path<String>,
    Body(control): Body<StageControl>,
) -> Result<Json<StageStatus>, Refusal> {
    Ok(Json(node.stages().control(&id, control).await?))
}

/// Stops and forgets a stage.
pub async fn delete(State(node): State<Arc<Node>>, Path(id): Path<String>) -> Result<Json<Value>, Refusal> {
    node.stages().delete(&id).await?;
    Ok(Json(json!({})))
}
