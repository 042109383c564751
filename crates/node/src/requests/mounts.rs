//! `PUT` and `DELETE /v1/mounts/{id}`.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, Query, State};
use daemon::error::Refusal;
use daemon::http::Body;
use serde::Deserialize;
use serde_json::{Value, json};
use wire::node::{MountSpec, MountStatus};

use super::same_id;
use crate::mounts::Wanted;
use crate::service::Node;

/// How to unmount.
#[derive(Debug, Deserialize)]
pub struct How {
    /// At once, even where files are open.
    #[serde(default)]
    hurry: bool,
}

/// Mounts; replies once mounted.
pub async fn create(
    State(node): State<Arc<Node>>,
    Path(id): Path<String>,
    Body(spec): Body<MountSpec>,
) -> Result<Json<MountStatus>, Refusal> {
    same_id(&id, &spec.id)?;
    Ok(Json(node.compute()?.mounts.create(spec).await?))
}

/// Unmounts; replies once unmounted.
pub async fn delete(
    State(node): State<Arc<Node>>,
    Path(id): Path<String>,
    Query(how): Query<How>,
) -> Result<Json<Value>, Refusal> {
    let wanted = if how.hurry { Wanted::UnmountedNow } else { Wanted::Unmounted };
    node.compute()?.mounts.delete(&id, wanted).await?;
    Ok(Json(json!({})))
}
