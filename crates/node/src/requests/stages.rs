//! `PUT`, `GET` and `DELETE /v1/stages/{id}`, `PUT /v1/stages/{id}/control` and `PUT /v1/stages/{id}/retry`;
//! `PUT /v1/pfs/mounts`: what paths of the PFS are on.

use std::path::PathBuf;
use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State};
use daemon::error::bug;
use disk::mount_table::{self, Mount};
use serde_json::{Value, json};
use server::Body;
use server::Refusal;
use wire::control::{ErrorCode, StageStatus};
use wire::node::{PfsMount, StageControl, StageSpec};

use super::same_id;
use crate::node::Node;

/// Starts a stage; replies at once.
pub(super) async fn create(
    State(node): State<Arc<Node>>,
    Path(id): Path<String>,
    Body(spec): Body<StageSpec>,
) -> Result<Json<StageStatus>, Refusal> {
    same_id(&id, &spec.id)?;
    Ok(Json(node.stages().create(spec).await?))
}

/// Starts a stage that failed again; replies at once.
pub(super) async fn retry(
    State(node): State<Arc<Node>>,
    Path(id): Path<String>,
    Body(spec): Body<StageSpec>,
) -> Result<Json<StageStatus>, Refusal> {
    same_id(&id, &spec.id)?;
    Ok(Json(node.stages().retry(spec).await?))
}

/// How far a stage is.
pub(super) async fn status(
    State(node): State<Arc<Node>>,
    Path(id): Path<String>,
) -> Result<Json<StageStatus>, Refusal> {
    Ok(Json(node.stages().status(&id)?))
}

/// Pauses a stage, lets it go on, or limits it.
pub(super) async fn control(
    State(node): State<Arc<Node>>,
    Path(id): Path<String>,
    Body(control): Body<StageControl>,
) -> Result<Json<StageStatus>, Refusal> {
    Ok(Json(node.stages().control(&id, control).await?))
}

/// Stops and forgets a stage.
pub(super) async fn delete(
    State(node): State<Arc<Node>>,
    Path(id): Path<String>,
) -> Result<Json<Value>, Refusal> {
    node.stages().delete(&id).await?;
    Ok(Json(json!({})))
}

/// What paths of the PFS are on here. A file system may keep who looks waiting.
pub(super) async fn mounts(Body(paths): Body<Vec<PathBuf>>) -> Result<Json<Vec<Option<PfsMount>>>, Refusal> {
    let looked = tokio::task::spawn_blocking(|| paths.into_iter().map(mount_of).collect()).await;
    Ok(Json(looked.map_err(|error| Refusal(bug(ErrorCode::LookupPanicked, error.to_string())))?))
}

fn mount_of(path: PathBuf) -> Option<PfsMount> {
    let Mount { mountpoint, kind, .. } = mount_table::holding(&path)
        .inspect_err(|error| tracing::warn!("look for what {} is on: {error}", path.display()))
        .ok()?;
    Some(PfsMount { path, mountpoint, kind })
}
