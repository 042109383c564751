//! What requests carry.

use std::time::Duration;

use axum::body::{Bytes, HttpBody};
use axum::extract::{FromRequest, Request};
use daemon::error::{bug, user};
use serde::de::DeserializeOwned;
use wire::control::ErrorCode;

use crate::refusal::Refusal;

/// The largest request, bytes: Slurm's largest batch script is 4 MiB, and JSON may escape some of it.
pub(crate) const REQUEST_BYTES_MAX: usize = 16 << 20;

/// A body that was announced comes within that time.
const BODY_WITHIN: Duration = Duration::from_secs(30);

/// A longer body is parsed beside the tasks that answer: it takes milliseconds.
const PARSED_HERE_MAX: usize = 64 << 10;

/// A JSON request body. One that does not parse is refused with an [`wire::control::ApiError`].
pub struct Body<T>(pub T);

impl<T: DeserializeOwned + Send + 'static, S: Send + Sync> FromRequest<S> for Body<T> {
    type Rejection = Refusal;

    async fn from_request(request: Request, state: &S) -> Result<Body<T>, Refusal> {
        let bytes = Bytes::from_request(request, state).await;
        let bytes = bytes.map_err(|e| bad(format!("read the request: {}", e.body_text())))?;
        let is_short = bytes.len() <= PARSED_HERE_MAX;
        let parse = move || {
            serde_json::from_slice(&bytes)
                .map(Body)
                .map_err(|e| bad(format!("the request body is not understood: {e}")))
        };
        if is_short {
            return parse();
        }
        let parsed = tokio::task::spawn_blocking(parse).await;
        parsed.map_err(|error| Refusal(bug(ErrorCode::RequestPanicked, error.to_string())))?
    }
}

fn bad(reason: String) -> Refusal {
    Refusal(user(ErrorCode::BadRequest, reason, "use programs of one Forebay version"))
}

/// How many bytes a body may have.
pub(crate) fn longest(body: &axum::body::Body) -> usize {
    let upper = body.size_hint().upper().and_then(|bytes| usize::try_from(bytes).ok());
    upper.unwrap_or(REQUEST_BYTES_MAX)
}

/// All of a body.
///
/// # Errors
/// It is too long, or it does not come.
pub(crate) async fn whole(body: axum::body::Body) -> Result<Bytes, Refusal> {
    let unread = |why: String| bad(format!("the request's body cannot be read: {why}"));
    let read = tokio::time::timeout(BODY_WITHIN, axum::body::to_bytes(body, REQUEST_BYTES_MAX)).await;
    let read = read.map_err(|_| unread(format!("it did not come within {} s", BODY_WITHIN.as_secs())))?;
    read.map_err(|error| unread(error.to_string()))
}
