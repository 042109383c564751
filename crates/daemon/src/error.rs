//! [`ApiError`]s: how they are made, and how they become HTTP replies.

use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use wire::control::{ApiError, Blame};

/// The request, the script or the files that it names are wrong.
pub fn user(code: &str, message: impl Into<String>, advice: impl Into<String>) -> ApiError {
    error(Blame::User, code, message, advice)
}

/// The machine or its set-up is at fault.
pub fn site(code: &str, message: impl Into<String>, advice: impl Into<String>) -> ApiError {
    error(Blame::Site, code, message, advice)
}

/// Forebay is at fault. The advice asks for a report.
pub fn bug(code: &str, message: impl Into<String>) -> ApiError {
    error(
        Blame::Forebay,
        code,
        message,
        "this is a bug of Forebay: please report it with the files in its log folder",
    )
}

/// An error and all its causes in one line, for a message: `read /a: No such file or directory (os error 2)`.
pub fn chain(error: &dyn std::error::Error) -> String {
    let mut line = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        line = format!("{line}: {error}");
        cause = error.source();
    }
    line
}

fn error(blame: Blame, code: &str, message: impl Into<String>, advice: impl Into<String>) -> ApiError {
    ApiError { code: code.into(), blame, message: message.into(), advice: advice.into() }
}

/// An [`ApiError`] as an HTTP reply: what handlers return.
#[derive(Clone, Debug)]
pub struct Refusal(pub ApiError);

impl From<ApiError> for Refusal {
    fn from(error: ApiError) -> Refusal {
        Refusal(error)
    }
}

impl Refusal {
    /// 404 for `no_such_…`, else by whose fault it is.
    fn status(&self) -> StatusCode {
        match self.0.blame {
            _ if self.0.code.starts_with("no_such_") => StatusCode::NOT_FOUND,
            Blame::User => StatusCode::BAD_REQUEST,
            Blame::Site => StatusCode::SERVICE_UNAVAILABLE,
            Blame::Forebay => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        (self.status(), Json(self.0)).into_response()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_status_says_whose_fault_it_is() {
        let status = |error: ApiError| Refusal(error).status().as_u16();
        assert_eq!(status(user("bad_size", "", "")), 400);
        assert_eq!(status(user("no_such_session", "", "")), 404);
        assert_eq!(status(site("disk_full", "", "")), 503);
        assert_eq!(status(bug("impossible", "")), 500);
    }
}
