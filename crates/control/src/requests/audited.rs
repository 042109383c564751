//! Requests that change something, in the audit log.

use axum::extract::{Request, State};
use axum::http::Method;
use axum::middleware::Next;
use axum::response::Response;
use server::Caller;
use wire::control::ErrorCode;

use super::{Handler, token};
use crate::audit::{Concerned, RequestEnd};
use crate::site::Site;

/// Writes down who asked for what, and how it was answered.
pub(super) async fn audited<S: Site>(
    State(handler): State<Handler<S>>,
    request: Request,
    next: Next,
) -> Response {
    if !handler.app.audit.is_kept() {
        return next.run(request).await;
    }
    let who = request.extensions().get::<Caller>().copied();
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    // Before: it may be gone when it is done.
    let concerned = concerned_by(&handler, &path).await;
    let mut line = Line { handler, who, method, path, concerned, status: None, error: None };
    // Who hangs up ends this here, and not what was asked for.
    let response = next.run(request).await;
    let said = response.extensions().get::<Concerned>().cloned();
    line.concerned = match said.or(line.concerned.take()) {
        None => concerned_by(&line.handler, &line.path).await,
        known => known,
    };
    line.error = response.extensions().get::<ErrorCode>().cloned();
    line.status = Some(response.status().as_u16());
    response
}

/// Written down when it is dropped, also where nobody waits for the answer.
struct Line<S: Site> {
    handler: Handler<S>,
    who: Option<Caller>,
    method: Method,
    path: String,
    concerned: Option<Concerned>,
    status: Option<u16>,
    error: Option<ErrorCode>,
}

impl<S: Site> Drop for Line<S> {
    fn drop(&mut self) {
        self.handler.app.audit.request(RequestEnd {
            who: self.who.map(Into::into),
            method: self.method.as_str(),
            path: &self.path,
            concerned: self.concerned.take(),
            status: self.status,
            error: self.error.as_ref().map(ErrorCode::as_str),
        });
    }
}

/// The session that the path of a request names, if there is one.
async fn concerned_by<S: Site>(handler: &Handler<S>, path: &str) -> Option<Concerned> {
    let token = token::checked(path.strip_prefix("/v1/sessions/")?.split('/').next()?).ok()?;
    let session = handler.app.session(&token).await.ok()?;
    Some(Concerned::from(&session))
}
