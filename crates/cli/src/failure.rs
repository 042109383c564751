//! Why a command ended without doing what it says, in the words that the user reads.

use std::path::{Path, PathBuf};

use model::Token;
use wire::control::{ApiError, Blame, ErrorCode};

use crate::exit_code::ExitCode;

/// A failure of a command of ours. `Display` is what the terminal shows, without the leading `forebay: `.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// We refused or could not go on.
    #[error("{message}; {advice}")]
    Refused {
        /// The process's exit status.
        exit: ExitCode,
        /// One line: what was tried, and why it failed.
        message: String,
        /// One line: what to do next.
        advice: String,
    },
    /// The script has errors, or the options that add to it.
    #[error("{}", lines.join("\n"))]
    Lines {
        /// The process's exit status.
        exit: ExitCode,
        /// `SCRIPT: line 3, column 12: …` or `forebay: --in a:b: …`, one for each.
        lines: Vec<String>,
    },
    /// The script is one for `sbatch` alone.
    #[error("{message}; {advice}")]
    ForSbatch {
        /// One line: why `forebay run` does not take it.
        message: String,
        /// One line: what to do next.
        advice: &'static str,
    },
    /// The control service refused.
    #[error(transparent)]
    Api(#[from] ApiError),
    /// The control service could not be started, or did not answer for a minute.
    #[error("forebay-control does not answer: {cause}; read {}, then repeat the command", log.display())]
    Unreachable {
        /// The last error, with what the log says last.
        cause: String,
        /// Its log.
        log: PathBuf,
    },
    /// The control service answered something that the API does not have.
    #[error("forebay-control and forebay do not fit together: {0}; install both from one release")]
    Garbled(String),
}

impl Failure {
    /// The command line is wrong.
    pub fn usage(message: impl Into<String>, advice: impl Into<String>) -> Failure {
        Failure::Refused { exit: ExitCode::Usage, message: message.into(), advice: advice.into() }
    }

    /// The machine cannot do it now.
    pub fn unavailable(message: impl Into<String>, advice: impl Into<String>) -> Failure {
        Failure::Refused { exit: ExitCode::Unavailable, message: message.into(), advice: advice.into() }
    }

    /// Something is to be read that cannot be.
    pub fn no_input(message: impl Into<String>, advice: impl Into<String>) -> Failure {
        Failure::Refused { exit: ExitCode::NoInput, message: message.into(), advice: advice.into() }
    }

    /// The user named a buffer that there is not.
    pub fn no_buffer(token: &Token) -> Failure {
        Failure::no_input(
            format!("there is no buffer {token}"),
            "`forebay status` lists those that there are",
        )
    }

    /// The script is wrong as a whole.
    pub fn script(message: impl Into<String>, advice: impl Into<String>) -> Failure {
        Failure::Refused { exit: ExitCode::Script, message: message.into(), advice: advice.into() }
    }

    /// The local file `path` could not be worked on.
    pub fn local(action: &str, path: &Path, error: &std::io::Error) -> Failure {
        Failure::unavailable(
            format!("{action} {}: {error}", path.display()),
            "look at the folder's permissions and at the room on its disk",
        )
    }

    /// Of a command that has no script: what would be the script's fault is the command line's.
    pub fn of_command_line(self) -> Failure {
        match self {
            Failure::Api(error) if ExitCode::of_refusal(&error) == ExitCode::Script => {
                Failure::usage(error.message, error.advice)
            }
            other => other,
        }
    }

    /// The process's exit status.
    pub fn exit_code(&self) -> ExitCode {
        match self {
            Failure::Refused { exit, .. } | Failure::Lines { exit, .. } => *exit,
            Failure::ForSbatch { .. } => ExitCode::Script,
            Failure::Api(error) => ExitCode::of_refusal(error),
            Failure::Unreachable { .. } => ExitCode::Unavailable,
            Failure::Garbled(_) => ExitCode::Bug,
        }
    }

    /// Whether `sbatch` takes such a script.
    pub fn is_for_sbatch(&self) -> bool {
        matches!(self, Failure::ForSbatch { .. })
    }

    /// What standard error shows: lines that name the script stand alone, others begin with `forebay: `.
    pub fn shown(&self) -> String {
        match self {
            Failure::Lines { .. } => self.to_string(),
            _ => format!("forebay: {self}"),
        }
    }

    /// The same for programs.
    pub fn as_api_error(&self) -> ApiError {
        let whole = |code, blame, advice: &str| ApiError {
            code,
            blame,
            message: self.to_string(),
            advice: advice.into(),
        };
        match self {
            Failure::Api(error) => error.clone(),
            Failure::Refused { exit, message, advice } => ApiError {
                code: ErrorCode::Refused,
                blame: if *exit == ExitCode::Unavailable { Blame::Site } else { Blame::User },
                message: message.clone(),
                advice: advice.clone(),
            },
            Failure::ForSbatch { advice, .. } => whole(ErrorCode::BadScript, Blame::User, advice),
            Failure::Lines { .. } => whole(ErrorCode::BadScript, Blame::User, "correct the script"),
            Failure::Unreachable { .. } => whole(ErrorCode::Unreachable, Blame::Site, "repeat the command"),
            Failure::Garbled(_) => whole(ErrorCode::Garbled, Blame::Forebay, "install one release"),
        }
    }
}
