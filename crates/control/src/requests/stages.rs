//! Stages on demand: `/v1/stages…`. Whoever owns the session that asks may.

use axum::extract::State;
use axum::{Extension, Json};
use serde_json::{Value, json};
use server::Refusal;
use server::{Body, Caller};
use wire::control::{
    BufferStatus, FailedStage, Place, StageChange, StageConcurrency, StageCounts, StageQuery, StageRequest,
    StageStatus, StageTickets,
};

use super::Handler;
use crate::audit::Concerned;
use crate::site::Site;
use crate::transfers::{asked, buffer};

type Reply<T> = Result<Json<T>, Refusal>;

/// With the session, which the path does not name.
type Audited<T> = Result<(Extension<Concerned>, Json<T>), Refusal>;

/// Accepts stages.
pub(super) async fn ask<S: Site>(
    State(handler): State<Handler<S>>,
    caller: Caller,
    Body(request): Body<StageRequest>,
) -> Audited<StageTickets> {
    let (concerned, tickets) = asked::ask(&handler.app, handler.rights(caller), request).await?;
    Ok((Extension(concerned), Json(tickets)))
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
) -> Audited<StageCounts> {
    let (concerned, counts) = asked::change(&handler.app, handler.rights(caller), how).await?;
    Ok((Extension(concerned), Json(counts)))
}

/// Sets how many run at once.
pub(super) async fn concurrency<S: Site>(
    State(handler): State<Handler<S>>,
    caller: Caller,
    Body(wanted): Body<StageConcurrency>,
) -> Audited<Value> {
    let concerned = buffer::set_concurrency(&handler.app, handler.rights(caller), wanted).await?;
    Ok((Extension(concerned), Json(json!({}))))
}

/// The buffer at a place.
pub(super) async fn buffer<S: Site>(
    State(handler): State<Handler<S>>,
    caller: Caller,
    Body(place): Body<Place>,
) -> Reply<BufferStatus> {
    Ok(Json(buffer::status(&handler.app, handler.rights(caller), place).await?))
}
