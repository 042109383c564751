//! `/v1/fragments/{instance}/scrub`, `paths` and `fsck`: whether what is stored is what was written.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State};
use model::{FragmentIndex, Ino, InstanceId};
use server::Body;
use server::Refusal;
use wire::node::{FsckReport, FsckSpec, PartFiles, ScrubSpec, ScrubStatus};

use crate::node::Node;

/// Starts a scrub.
pub(super) async fn scrub(
    State(node): State<Arc<Node>>,
    Path(instance): Path<InstanceId>,
    Body(spec): Body<ScrubSpec>,
) -> Result<Json<ScrubStatus>, Refusal> {
    Ok(Json(node.storage()?.scrub(instance, Some(spec)).await?))
}

/// How it stands.
pub(super) async fn status(
    State(node): State<Arc<Node>>,
    Path(instance): Path<InstanceId>,
) -> Result<Json<ScrubStatus>, Refusal> {
    Ok(Json(node.storage()?.scrub(instance, None).await?))
}

/// Where files are.
pub(super) async fn paths(
    State(node): State<Arc<Node>>,
    Path(instance): Path<InstanceId>,
    Body(inos): Body<Vec<(u32, Ino)>>,
) -> Result<Json<Vec<Option<String>>>, Refusal> {
    Ok(Json(node.storage()?.paths(instance, inos).await?))
}

/// Which files have data in a fragment.
pub(super) async fn files(
    State(node): State<Arc<Node>>,
    Path((instance, fragment)): Path<(InstanceId, FragmentIndex)>,
) -> Result<Json<PartFiles>, Refusal> {
    Ok(Json(node.storage()?.files_on(instance, fragment).await?))
}

/// Compares metadata and objects.
pub(super) async fn fsck(
    State(node): State<Arc<Node>>,
    Path(instance): Path<InstanceId>,
    Body(spec): Body<FsckSpec>,
) -> Result<Json<FsckReport>, Refusal> {
    Ok(Json(node.storage()?.fsck(instance, spec).await?))
}
