//! [`ApiError`]s as HTTP replies.

use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use wire::control::{ApiError, Blame};

/// An [`ApiError`] as an HTTP reply: what handlers return.
#[derive(Clone, Debug)]
pub struct Refusal(pub ApiError);

impl From<ApiError> for Refusal {
    fn from(error: ApiError) -> Refusal {
        Refusal(error)
    }
}

impl Refusal {
    /// 404 for what is not there, else by whose fault it is.
    fn status(&self) -> StatusCode {
        match self.0.blame {
            _ if self.0.code.is_absence() => StatusCode::NOT_FOUND,
            Blame::User => StatusCode::BAD_REQUEST,
            Blame::Site => StatusCode::SERVICE_UNAVAILABLE,
            Blame::Forebay => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        // Who wraps the handlers reads why.
        (self.status(), Extension(self.0.code.clone()), Json(self.0)).into_response()
    }
}

#[cfg(test)]
mod tests {
    use daemon::error::{bug, site, user};
    use wire::control::ErrorCode;

    use super::*;

    #[test]
    fn the_status_says_whose_fault_it_is() {
        let status = |error: ApiError| Refusal(error).status().as_u16();
        assert_eq!(status(user(ErrorCode::BadName, "", "")), 400);
        assert_eq!(status(user(ErrorCode::NoSuchSession, "", "")), 404);
        assert_eq!(status(site(ErrorCode::NodeDisk, "", "")), 503);
        assert_eq!(status(bug(ErrorCode::StatePanicked, "")), 500);
    }
}
