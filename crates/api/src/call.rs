//! Why a call of a service has no result.

use std::io;

use wire::control::{ApiError, ErrorCode};

use crate::endpoint::Endpoint;
use crate::munge::MungeError;

/// Why a call has no result. The text is one line for people who run a program.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// There is no socket, nobody listens on it, or the connection broke before the whole reply came. The service may
    /// or may not have acted: repeat the call, which is idempotent.
    #[error("no service answers at {endpoint} ({cause}); ask an administrator to start it")]
    Unreachable {
        /// Where it was looked for.
        endpoint: Endpoint,
        /// Why.
        cause: io::Error,
    },
    /// The service refused.
    #[error(transparent)]
    Refused(#[from] ApiError),
    /// The reply is not what the API promises, as from another version.
    #[error("the reply to {path} is not understood ({reason}); use programs of one Forebay version")]
    Garbled {
        /// What was asked.
        path: String,
        /// What is wrong with it.
        reason: String,
    },
    /// This process cannot prove who it is.
    #[error("{0}; ask an administrator to start munged on this machine")]
    Unproven(#[from] MungeError),
}

impl CallError {
    /// Whether the service knows no session of that token that has anything.
    pub fn is_no_session(&self) -> bool {
        let gone = [ErrorCode::NoSuchSession, ErrorCode::Released];
        matches!(self, CallError::Refused(error) if gone.contains(&error.code))
    }

    /// What went wrong, without advice: for a message that names the service and says what to do.
    pub fn reason(&self) -> String {
        match self {
            CallError::Unreachable { cause, .. } => cause.to_string(),
            CallError::Refused(error) => error.message.clone(),
            CallError::Garbled { path, reason } => format!("{reason}, in the reply to {path}"),
            CallError::Unproven(error) => error.to_string(),
        }
    }
}
