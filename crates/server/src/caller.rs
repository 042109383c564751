//! Who calls: what the kernel says on a unix socket, what MUNGE says over TCP.

use std::net::IpAddr;
use std::sync::Arc;

use api::binding::BodyDigest;
use api::http::SCHEME;
use api::munge::{Identity, Munge, MungeError};
use api::proof::{Proof, nonce_in};
use axum::Json;
use axum::body::Body;
use axum::extract::{FromRequestParts, Request};
use axum::http::header::AUTHORIZATION;
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};
use daemon::error::{bug, chain, site, user};
use wire::control::{ApiError, ErrorCode};

use crate::body::{longest, whole};
use crate::connections::{Place, Working};
use crate::listen::OpenTo;
use crate::refusal::Refusal;

/// Who made a request. Handlers take it as an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caller {
    /// User id.
    pub uid: u32,
    /// Group id.
    pub gid: u32,
    /// The host that he calls from, as the network says; `None`: this one.
    pub address: Option<IpAddr>,
}

impl<S: Send + Sync> FromRequestParts<S> for Caller {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Caller, Refusal> {
        let known = parts.extensions.get::<Caller>().copied();
        known.ok_or_else(|| Refusal(bug(ErrorCode::NoCaller, "a request came through no listener")))
    }
}

/// How it is known who makes the requests of a connection.
pub(crate) enum Judge {
    /// The kernel says it.
    Kernel(OpenTo),
    /// A credential in each request.
    Munge {
        /// What checks it.
        munge: Munge,
        /// The service that it has to be made for.
        audience: String,
    },
    /// It is not asked.
    Nobody,
}

/// A request that may go on, for as long as it holds what it was given.
pub(crate) type Admitted = (Request, Option<Working>);

impl Judge {
    /// Lets a request through when it is known whose it is and it is his turn, with its whole body. `peer`: the
    /// kernel's word on the connection.
    ///
    /// # Errors
    /// What to reply instead.
    pub(crate) async fn admit(
        &self,
        place: &Arc<Place>,
        peer: Option<Caller>,
        request: Request,
    ) -> Result<Admitted, Response> {
        let refuse = IntoResponse::into_response;
        let (mut parts, body) = request.into_parts();
        let (caller, digest) = match self {
            Judge::Nobody => return Ok((Request::from_parts(parts, Body::empty()), None)),
            Judge::Kernel(open_to) => (let_in(*open_to, peer).map_err(refuse)?, None),
            Judge::Munge { munge, audience } => {
                let _turn = place.check().await;
                if let Some(nonce) = nonce_in(parts.uri.path()) {
                    return Err(prove(munge, audience, nonce).await.map(Json).into_response());
                }
                let (caller, digest) = identify(munge, audience, &parts).await.map_err(refuse)?;
                (Caller { address: place.address(), ..caller }, Some(digest))
            }
        };
        let working = place.work(caller.uid, longest(&body)).await;
        let working = working.ok_or_else(|| Refusal(closed()).into_response())?;
        let body = whole(body).await.map_err(refuse)?;
        if digest.is_some_and(|digest| !digest.fits(&body)) {
            return Err(refuse(refused(MungeError::Misused.to_string())));
        }
        parts.extensions.insert(caller);
        Ok((Request::from_parts(parts, Body::from(body)), Some(working)))
    }
}

fn let_in(open_to: OpenTo, peer: Option<Caller>) -> Result<Caller, Refusal> {
    let own = rustix::process::geteuid().as_raw();
    let known = peer.filter(|caller| may_call(caller.uid, own, open_to));
    let advice = "start your own with another --dir";
    known.ok_or_else(|| Refusal(user(ErrorCode::NotYours, "this service belongs to another user", advice)))
}

fn may_call(caller: u32, own: u32, open_to: OpenTo) -> bool {
    open_to == OpenTo::Everybody || caller == 0 || caller == own
}

/// Whoever asks may know that this is the service: he has not said yet who he is.
async fn prove(munge: &Munge, audience: &str, nonce: &str) -> Result<Proof, Refusal> {
    let (munge, audience, nonce) = (munge.clone(), audience.to_owned(), nonce.to_owned());
    let made = blocking(move || Proof::make(&munge, &audience, &nonce)).await?;
    made.map_err(|error| Refusal(site(ErrorCode::NoProof, chain(&error), "start munged on this machine")))
}

/// The library talks to munged and blocks.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, Refusal> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|error| Refusal(bug(ErrorCode::MungePanicked, error.to_string())))
}

/// Who makes the request with this head, and the body that it has to have.
async fn identify(munge: &Munge, audience: &str, head: &Parts) -> Result<(Caller, BodyDigest), Refusal> {
    let credential = head
        .headers
        .get(AUTHORIZATION)
        .and_then(|value| value.to_str().ok()?.strip_prefix(SCHEME).map(str::to_owned))
        .ok_or_else(|| refused("it has no MUNGE credential".to_owned()))?;
    let munge = munge.clone();
    let opened = blocking(move || munge.open(&credential)).await?;
    let (Identity { uid, gid }, payload) = opened.map_err(|error| refused(chain(&error)))?;
    let path = head.uri.path_and_query().map_or("/", |path| path.as_str());
    let digest = BodyDigest::of(&payload, audience, head.method.as_str(), path);
    let digest = digest.ok_or_else(|| refused(MungeError::Misused.to_string()))?;
    Ok((Caller { uid, gid, address: None }, digest))
}

fn refused(why: String) -> Refusal {
    let advice = "check that munged runs on both machines, with the same key and the same time";
    Refusal(user(ErrorCode::NotAuthenticated, format!("the request is not believed: {why}"), advice))
}

fn closed() -> ApiError {
    let advice = "wait until other programs' requests are answered";
    user(ErrorCode::TooManyConnections, "the connection was closed to make room for others", advice)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_root_and_the_own_user_may_call_unless_everybody_may() {
        assert!(may_call(0, 1000, OpenTo::Ourselves));
        assert!(may_call(1000, 1000, OpenTo::Ourselves));
        assert!(!may_call(1001, 1000, OpenTo::Ourselves));
        assert!(may_call(1001, 1000, OpenTo::Everybody));
    }
}
