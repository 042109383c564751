//! The control API: which request goes where. The types and their meaning are in [`wire::control`].

mod service;
mod sessions;

use std::sync::Arc;

use axum::Router;
use axum::routing::{get, post};
use tokio::sync::Notify;

use crate::control::Control;
use crate::site::Site;

/// What every request can use.
pub struct Door<S> {
    /// The service.
    pub control: Arc<Control<S>>,
    /// Told when the process is to end.
    pub ending: Arc<Notify>,
}

impl<S> Clone for Door<S> {
    fn clone(&self) -> Self {
        Door { control: Arc::clone(&self.control), ending: Arc::clone(&self.ending) }
    }
}

/// Every route.
pub fn router<S: Site>(door: Door<S>) -> Router {
    Router::new()
        .route("/v1/status", get(service::status::<S>))
        .route("/v1/shutdown", post(service::shutdown::<S>))
        .route("/v1/job_process", post(service::job_process::<S>))
        .route("/v1/tokens", post(service::new_token::<S>))
        .route("/v1/sessions/{token}", get(sessions::status::<S>))
        .route("/v1/sessions/{token}/setup", post(sessions::setup::<S>))
        .route("/v1/sessions/{token}/data_in", post(sessions::data_in::<S>))
        .route("/v1/sessions/{token}/paths", get(sessions::paths::<S>))
        .route("/v1/sessions/{token}/pre_run", post(sessions::pre_run::<S>))
        .route("/v1/sessions/{token}/post_run", post(sessions::post_run::<S>))
        .route("/v1/sessions/{token}/data_out", post(sessions::data_out::<S>))
        .route("/v1/sessions/{token}/teardown", post(sessions::teardown::<S>))
        .route("/v1/sessions/{token}/real_size", get(sessions::real_size::<S>))
        .route("/v1/sessions/{token}/cancel", post(sessions::cancel::<S>))
        .with_state(door)
}
