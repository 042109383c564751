//! Where a session's token comes in: what a caller spelt is a token, or is refused.

use axum::extract::{FromRequestParts, Path};
use axum::http::request::Parts;
use daemon::error::user;
use model::Token;
use server::Refusal;
use wire::control::{ApiError, ErrorCode};

/// The token in a request's path.
pub(super) struct Named(pub(super) Token);

impl<S: Send + Sync> FromRequestParts<S> for Named {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Named, Refusal> {
        match Path::<String>::from_request_parts(parts, state).await {
            Ok(Path(token)) => Ok(Named(checked(&token)?)),
            Err(rejection) => Err(Refusal(refused(&format!(": {rejection}")))),
        }
    }
}

/// A token names files and parts of URLs.
///
/// # Errors
/// `bad_token`.
pub(super) fn checked(token: &str) -> Result<Token, ApiError> {
    token.parse().map_err(|_| refused(&format!(" {token:?}")))
}

fn refused(what: &str) -> ApiError {
    user(ErrorCode::BadToken, format!("invalid token{what}"), format!("use {}", Token::SPELLING))
}
