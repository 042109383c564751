//! The control API: which request goes where, and who may ask it. The types and their meaning are in [`wire::control`].

mod audited;
mod by_hand;
mod integrity;
mod metrics;
mod nodes;
mod service;
mod sessions;
mod stages;
mod token;

use std::sync::Arc;

use axum::Router;
use axum::routing::{delete, get, post};
use model::Token;
use server::Caller;
use tokio::sync::Notify;
use wire::control::ApiError;

use crate::app::{App, no_such_session};
use crate::rights::{Policy, Rights};
use crate::site::Site;
use crate::state::sessions::Session;

/// What every request can use.
pub(crate) struct Handler<S> {
    /// The service.
    pub app: Arc<App<S>>,
    /// Who may do what.
    pub policy: Policy,
    /// Told when the process is to end.
    pub ending: Arc<Notify>,
}

impl<S> Clone for Handler<S> {
    fn clone(&self) -> Self {
        Handler { app: Arc::clone(&self.app), policy: self.policy.clone(), ending: Arc::clone(&self.ending) }
    }
}

impl<S: Site> Handler<S> {
    fn rights(&self, caller: Caller) -> Rights {
        self.policy.rights(caller)
    }

    /// The session, if the caller may touch it. Somebody else's is not there for him.
    async fn own(&self, caller: Caller, token: &Token) -> Result<Session, ApiError> {
        let session = self.app.session(token).await?;
        if self.rights(caller).cover(session.owner.uid) {
            Ok(session)
        } else {
            Err(no_such_session(&session.token))
        }
    }

    /// The same, to look only: persistent buffers that are shared are there for everybody.
    async fn visible(&self, caller: Caller, token: &Token) -> Result<Session, ApiError> {
        let session = self.app.session(token).await?;
        let visible = session.shared || self.rights(caller).cover(session.owner.uid);
        if visible { Ok(session) } else { Err(no_such_session(&session.token)) }
    }
}

/// What everybody may read.
pub(crate) fn metrics_router<S: Site>(handler: Handler<S>) -> Router {
    Router::new().route("/metrics", get(metrics::metrics::<S>)).with_state(handler)
}

/// Every route.
pub(crate) fn router<S: Site>(handler: Handler<S>) -> Router {
    let audit = axum::middleware::from_fn_with_state(handler.clone(), audited::audited::<S>);
    looking().merge(changing().route_layer(audit)).with_state(handler)
}

/// What changes nothing.
fn looking<S: Site>() -> Router<Handler<S>> {
    Router::new()
        .route("/metrics", get(metrics::metrics::<S>))
        .route("/v1/status", get(service::status::<S>))
        .route("/v1/objects", get(service::objects::<S>))
        .route("/v1/pools", get(service::pools::<S>))
        .route("/v1/job_process", post(service::job_process::<S>))
        .route("/v1/tokens", post(service::new_token::<S>))
        .route("/v1/sessions/{token}", get(sessions::status::<S>))
        .route("/v1/sessions/{token}/paths", get(sessions::paths::<S>))
        .route("/v1/sessions/{token}/real_size", get(sessions::real_size::<S>))
        .route("/v1/sessions/{token}/scrub", get(integrity::status::<S>))
        .route("/v1/stages/query", post(stages::query::<S>))
        .route("/v1/stages/list", post(stages::list::<S>))
        .route("/v1/stages/failed", post(stages::failed::<S>))
        .route("/v1/stages/buffer", post(stages::buffer::<S>))
        // Each node every ten seconds: that it is there.
        .route("/v1/nodes", post(nodes::register::<S>))
}

fn changing<S: Site>() -> Router<Handler<S>> {
    Router::new()
        .route("/v1/shutdown", post(service::shutdown::<S>))
        .route("/v1/persistent", post(service::create_persistent::<S>))
        .route("/v1/persistent/{name}/mount", post(by_hand::mount::<S>))
        .route("/v1/nodes/{name}", delete(nodes::forget::<S>))
        .route("/v1/nodes/{name}/drain", post(nodes::drain::<S>))
        .route("/v1/nodes/{name}/lost", post(nodes::lost::<S>))
        .route("/v1/nodes/{name}/resume", post(nodes::resume::<S>))
        .route("/v1/sessions/{token}/setup", post(sessions::setup::<S>))
        .route("/v1/sessions/{token}/data_in", post(sessions::data_in::<S>))
        .route("/v1/sessions/{token}/pre_run", post(sessions::pre_run::<S>))
        .route("/v1/sessions/{token}/post_run", post(sessions::post_run::<S>))
        .route("/v1/sessions/{token}/data_out", post(sessions::data_out::<S>))
        .route("/v1/sessions/{token}/teardown", post(sessions::teardown::<S>))
        .route("/v1/sessions/{token}/scrub", post(integrity::scrub::<S>))
        .route("/v1/sessions/{token}/fsck", post(integrity::fsck::<S>))
        .route("/v1/sessions/{token}/rekey", post(sessions::rekey::<S>))
        .route("/v1/sessions/{token}/cancel", post(sessions::cancel::<S>))
        .route("/v1/stages", post(stages::ask::<S>))
        .route("/v1/stages/change", post(stages::change::<S>))
        .route("/v1/stages/concurrency", post(stages::concurrency::<S>))
}
