//! `PUT` and `DELETE /v1/mounts/{id}`.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::{Path, Query, State};
use serde::Deserialize;
use serde_json::{Value, json};
use server::Body;
use server::Refusal;
use wire::data::Credential;
use wire::node::{MountSpec, MountStatus};

use super::same_id;
use crate::mounts::Wanted;
use crate::node::Node;

/// How to unmount.
#[derive(Debug, Deserialize)]
pub(super) struct How {
    /// How many seconds files may stay open that are.
    #[serde(default)]
    grace_s: u64,
}

/// Mounts; replies once mounted.
pub(super) async fn create(
    State(node): State<Arc<Node>>,
    Path(id): Path<String>,
    Body(spec): Body<MountSpec>,
) -> Result<Json<MountStatus>, Refusal> {
    same_id(&id, &spec.id)?;
    Ok(Json(node.mounts()?.create(spec).await?))
}

/// Tells a mount that it does not have its namespace for itself any more; replies once it knows.
pub(super) async fn share(
    State(node): State<Arc<Node>>,
    Path(id): Path<String>,
) -> Result<Json<Value>, Refusal> {
    node.mounts()?.share(&id).await?;
    Ok(Json(json!({})))
}

/// Gives a mount another credential.
pub(super) async fn renew(
    State(node): State<Arc<Node>>,
    Path(id): Path<String>,
    Body(credential): Body<Credential>,
) -> Result<Json<Value>, Refusal> {
    node.mounts()?.renew(&id, credential).await?;
    Ok(Json(json!({})))
}

/// Unmounts; replies once unmounted.
pub(super) async fn delete(
    State(node): State<Arc<Node>>,
    Path(id): Path<String>,
    Query(how): Query<How>,
) -> Result<Json<Value>, Refusal> {
    let wanted = Wanted::UnmountedWithin(Duration::from_secs(how.grace_s));
    node.mounts()?.delete(&id, wanted).await?;
    Ok(Json(json!({})))
}
