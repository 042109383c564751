//! Stages on demand: `/v1/stages…`. Whoever owns the session that asks may.

use axum::Json;
use axum::extract::State;
use serde_json::{Value, json};
use server::Refusal;
use server::{Body, Caller};
use wire::control::{
    BufferStatus, FailedStage, Place, StageChange, StageConcurrency, StageCounts, StageQuery, StageRequest,
    StageStatus, StageTickets,
};

use super::Handler;
use crate::site::Site;
use crate::transfers::asked;

type Reply<T> = Result<Json<T>, Refusal>;

/// Accepts stages.
pub(super) async fn ask<S: Site>(
    State(handler): State<Handler<S>>,
    caller: Caller,
    Body(request): Body<StageRequest>,
) -> Reply<StageTickets> {
    Ok(Json(asked::ask(&handler.app, handler.rights(caller), request).await?))
}

/// Counts them.
pub(super) async fn query<S: Site>(
    State(handler): State<Handler<S>>,
    caller: Caller,
    Body(query): Body<StageQuery>,
) -> Reply<StageCounts> {
    Ok(Json(asked::counts(&handler.app, handler.rights(caller), query).await?))
}

/// Describes them.
pub(super) async fn list<S: Site>(
    State(handler): State<Handler<S>>,
    caller: Caller,
    Body(query): Body<StageQuery>,
) -> Reply<Vec<StageStatus>> {
    Ok(Json(asked::list(&handler.app, handler.rights(caller), query).await?))
}

/// The files that failed.
pub(super) async fn failed<S: Site>(
    State(handler): State<Handler<S>>,
    caller: Caller,
    Body(query): Body<StageQuery>,
) -> Reply<Vec<FailedStage>> {
    Ok(Json(asked::failed(&handler.app, handler.rights(caller), query).await?))
}

/// Revokes, activates, terminates or retries.
pub(super) async fn change<S: Site>(
    State(handler): State<Handler<S>>,
    caller: Caller,
    Body(how): Body<StageChange>,
) -> Reply<StageCounts> {
    Ok(Json(asked::change(&handler.app, handler.rights(caller), how).await?))
}

/// Sets how many run at once.
pub(super) async fn concurrency<S: Site>(
    State(handler): State<Handler<S>>,
    caller: Caller,
    Body(wanted): Body<StageConcurrency>,
) -> Reply<Value> {
    asked::set_concurrency(&handler.app, handler.rights(caller), wanted).await?;
    Ok(Json(json!({})))
}

/// The buffer at a place.
pub(super) async fn buffer<S: Site>(
    State(handler): State<Handler<S>>,
    caller: Caller,
    Body(place): Body<Place>,
) -> Reply<BufferStatus> {
    Ok(Json(asked::buffer(&handler.app, handler.rights(caller), place).await?))
}
