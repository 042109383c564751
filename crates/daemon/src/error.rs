//! [`ApiError`]s: how they are made.

use wire::control::{ApiError, Blame, ErrorCode};

/// The request, the script or the files that it names are wrong.
pub fn user(code: ErrorCode, message: impl Into<String>, advice: impl Into<String>) -> ApiError {
    error(Blame::User, code, message, advice)
}

/// The machine or its set-up is at fault.
pub fn site(code: ErrorCode, message: impl Into<String>, advice: impl Into<String>) -> ApiError {
    error(Blame::Site, code, message, advice)
}

/// Forebay is at fault. The advice asks for a report.
pub fn bug(code: ErrorCode, message: impl Into<String>) -> ApiError {
    error(
        Blame::Forebay,
        code,
        message,
        "this is a bug of Forebay: please report it with the files in its log folder",
    )
}

/// An error and all its causes in one line, for a message: `read /a: No such file or directory`.
pub fn chain(error: &dyn std::error::Error) -> String {
    let mut line = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        line = format!("{line}: {error}");
        cause = error.source();
    }
    wire::without_numbers(&line)
}

fn error(blame: Blame, code: ErrorCode, message: impl Into<String>, advice: impl Into<String>) -> ApiError {
    ApiError { code, blame, message: wire::without_numbers(&message.into()), advice: advice.into() }
}
