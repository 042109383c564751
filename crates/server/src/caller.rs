//! Who calls: what the kernel says on a unix socket, what MUNGE says over TCP.

use std::sync::Arc;

use api::http::SCHEME;
use api::munge::{Identity, Munge, binding};
use api::proof::{Proof, nonce_in};
use axum::Json;
use axum::body::Body;
use axum::extract::{FromRequestParts, Request, State};
use axum::http::header::AUTHORIZATION;
use axum::http::request::Parts;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use daemon::error::{bug, chain, site, user};
use wire::control::ErrorCode;

use crate::refusal::Refusal;

/// The largest request, bytes: Slurm's largest batch script is 4 MiB, and JSON may escape some of it.
pub(super) const REQUEST_BYTES_MAX: usize = 16 << 20;

/// Who made a request. Handlers take it as an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caller {
    /// User id.
    pub uid: u32,
    /// Group id.
    pub gid: u32,
}

impl<S: Send + Sync> FromRequestParts<S> for Caller {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Caller, Refusal> {
        let known = parts.extensions.get::<Caller>().copied();
        known.ok_or_else(|| Refusal(bug(ErrorCode::NoCaller, "a request came through no listener")))
    }
}

/// How requests over TCP are checked.
pub(super) struct Check {
    pub munge: Munge,
    pub audience: String,
}

/// Lets a request through that has a good credential, and says whose it is.
pub(super) async fn check(State(check): State<Arc<Check>>, request: Request, next: Next) -> Response {
    if let Some(nonce) = nonce_in(request.uri().path()) {
        return prove(check, nonce.to_owned()).await.map(Json).into_response();
    }
    match identify(check, request).await {
        Ok(request) => next.run(request).await,
        Err(refusal) => refusal.into_response(),
    }
}

/// Whoever asks may know that this is the service: he has not said yet who he is.
async fn prove(check: Arc<Check>, nonce: String) -> Result<Proof, Refusal> {
    let made = blocking(move || Proof::make(&check.munge, &check.audience, &nonce)).await?;
    made.map_err(|error| Refusal(site(ErrorCode::NoProof, chain(&error), "start munged on this machine")))
}

/// The library talks to munged and blocks.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, Refusal> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|error| Refusal(bug(ErrorCode::MungePanicked, error.to_string())))
}

async fn identify(check: Arc<Check>, request: Request) -> Result<Request, Refusal> {
    let (mut parts, body) = request.into_parts();
    let credential = parts
        .headers
        .get(AUTHORIZATION)
        .and_then(|value| value.to_str().ok()?.strip_prefix(SCHEME).map(str::to_owned))
        .ok_or_else(|| refused("it has no MUNGE credential".to_owned()))?;
    let body = axum::body::to_bytes(body, REQUEST_BYTES_MAX).await;
    let body = body.map_err(|error| refused(format!("its body cannot be read: {error}")))?;
    let path = parts.uri.path_and_query().map_or("/", |path| path.as_str());
    let bound = binding(&check.audience, parts.method.as_str(), path, &body);
    let decoded = blocking(move || check.munge.decode(&credential, &bound)).await?;
    let Identity { uid, gid } = decoded.map_err(|error| refused(chain(&error)))?;
    parts.extensions.insert(Caller { uid, gid });
    Ok(Request::from_parts(parts, Body::from(body)))
}

fn refused(why: String) -> Refusal {
    let advice = "check that munged runs on both machines, with the same key and the same time";
    Refusal(user(ErrorCode::NotAuthenticated, format!("the request is not believed: {why}"), advice))
}
