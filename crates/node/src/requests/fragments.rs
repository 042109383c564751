//! `PUT` and `DELETE /v1/fragments/{instance}`, where fragments of other nodes are now, and what control has heard.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State};
use model::InstanceId;
use serde_json::{Value, json};
use server::Body;
use server::Refusal;
use wire::node::{FragmentSpec, FragmentStatus, Moved};

use super::same_id;
use crate::node::Node;

/// Makes and serves a fragment.
pub(super) async fn create(
    State(node): State<Arc<Node>>,
    Path(instance): Path<InstanceId>,
    Body(spec): Body<FragmentSpec>,
) -> Result<Json<FragmentStatus>, Refusal> {
    same_id(instance.as_str(), spec.instance.as_str())?;
    Ok(Json(node.storage()?.create(spec).await?))
}

/// Notes that another node has a fragment in place of one that is lost; if that was here, it is out of use from now on.
pub(super) async fn moved(
    State(node): State<Arc<Node>>,
    Path(instance): Path<InstanceId>,
    Body(moved): Body<Moved>,
) -> Result<Json<Value>, Refusal> {
    node.note_moved(&instance, &moved)?;
    if let Ok(storage) = node.storage() {
        storage.give_up(instance, moved).await?;
    }
    Ok(Json(json!({})))
}

/// Control knows of doubts about copies of what a fragment has.
pub(super) async fn heard(
    State(node): State<Arc<Node>>,
    Path(instance): Path<InstanceId>,
    Body(doubts): Body<Vec<u64>>,
) -> Result<Json<Value>, Refusal> {
    node.storage()?.hear(instance, doubts).await?;
    Ok(Json(json!({})))
}

/// Destroys a fragment.
pub(super) async fn delete(
    State(node): State<Arc<Node>>,
    Path(instance): Path<InstanceId>,
) -> Result<Json<Value>, Refusal> {
    node.storage()?.delete(instance).await?;
    Ok(Json(json!({})))
}
