//! From what went wrong to the errno that a C program gets.

use std::io;

use api::CallError;
use rustix::io::Errno;
use wire::control::{ApiError, Blame, ErrorCode};

/// Why a function failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// An errno of the system, or one that says it best.
    #[error("{0}")]
    Errno(#[from] Errno),
    /// Looking at files.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// Control.
    #[error(transparent)]
    Call(#[from] CallError),
}

impl Error {
    /// What the function returns.
    pub fn code(&self) -> i32 {
        -self.errno().raw_os_error()
    }

    /// The errno.
    pub fn errno(&self) -> Errno {
        match self {
            Error::Errno(errno) => *errno,
            Error::Io(error) => Errno::from_io_error(error).unwrap_or(Errno::IO),
            Error::Call(error) => of_call(error),
        }
    }
}

fn of_call(error: &CallError) -> Errno {
    match error {
        CallError::Unreachable { .. } => Errno::HOSTUNREACH,
        CallError::Unproven(_) => Errno::ACCESS,
        CallError::Garbled { .. } => Errno::PROTO,
        CallError::Refused(error) => of_refusal(error),
    }
}

fn of_refusal(error: &ApiError) -> Errno {
    match (&error.code, error.blame) {
        // It is mounted here, so it is there: for somebody else.
        (
            ErrorCode::NoSuchBuffer | ErrorCode::NoSuchSession | ErrorCode::NotAllowed | ErrorCode::NotYours,
            _,
        ) => Errno::PERM,
        (ErrorCode::PrivateStage, _) => Errno::OPNOTSUPP,
        (ErrorCode::TooManyStages, _) => Errno::AGAIN,
        (_, Blame::User) => Errno::INVAL,
        (_, Blame::Site | Blame::Forebay) => Errno::IO,
    }
}
