//! Every exit status that `forebay` gives of its own, in one place; `docs/CLI_ABI.md` shows the same table.
//!
//! The numbers follow sysexits.h where it has one. A job's own status passes through unchanged, so a caller that must
//! tell the two apart reads `--json`.

use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

use serde::{Deserialize, Serialize};
use wire::control::{ApiError, Blame, ErrorCode};

/// What a refusal that is the user's fault is about, by its code, where that is not the script or something that it
/// asks for: what was named is not there, or may not be read.
const NOTHING_TO_READ: [ErrorCode; 5] = [
    ErrorCode::SourceUnreadable,
    ErrorCode::NoSuchSession,
    // It is there, for others.
    ErrorCode::NotAllowed,
    ErrorCode::StageSource,
    ErrorCode::StageSourceRemoved,
];

/// How a command of ours ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExitCode {
    /// The command did what it says (`EX_OK`).
    Success = 0,
    /// The command line is wrong (`EX_USAGE`).
    Usage = 64,
    /// The batch script or something that it asks for is wrong (`EX_DATAERR`).
    Script = 65,
    /// A file that was to be read could not be: the script, or a `stage_in` source (`EX_NOINPUT`).
    NoInput = 66,
    /// The machine or a service of ours cannot do it now (`EX_UNAVAILABLE`).
    Unavailable = 69,
    /// A bug of ours (`EX_SOFTWARE`).
    Bug = 70,
    /// The job succeeded, its stage-out did not: the data is kept in the buffer (`EX_IOERR`).
    StageOut = 74,
    /// Another process works on the same buffer (`EX_TEMPFAIL`).
    Busy = 75,
    /// Cancelled by a signal: 128 + SIGINT, as a shell would say.
    Cancelled = 130,
}

impl ExitCode {
    /// All, as the manual lists them.
    #[cfg(test)]
    const ALL: [ExitCode; 9] = [
        ExitCode::Success,
        ExitCode::Usage,
        ExitCode::Script,
        ExitCode::NoInput,
        ExitCode::Unavailable,
        ExitCode::Bug,
        ExitCode::StageOut,
        ExitCode::Busy,
        ExitCode::Cancelled,
    ];

    /// The number that the process exits with.
    pub fn number(self) -> u8 {
        self as u8
    }

    /// By whose fault it is that the control service refused.
    pub fn of_refusal(error: &ApiError) -> ExitCode {
        match error.blame {
            Blame::User if NOTHING_TO_READ.contains(&error.code) => ExitCode::NoInput,
            Blame::User => ExitCode::Script,
            Blame::Site => ExitCode::Unavailable,
            Blame::Forebay => ExitCode::Bug,
        }
    }

    /// The same of a `stage_in` that failed. One that is too large for the buffer, or whose list or destination is
    /// wrong, is the script's fault.
    pub fn of_stage_in(error: &ApiError) -> ExitCode {
        match error.blame {
            Blame::User if error.code == ErrorCode::StageFailed => ExitCode::NoInput,
            _ => ExitCode::of_refusal(error),
        }
    }
}

/// How a job's script, or a rank, ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JobExit {
    /// It exited with this status.
    Status(u8),
    /// This signal killed it.
    Signal(u8),
}

impl JobExit {
    /// What `wait` said.
    pub fn of(status: ExitStatus) -> JobExit {
        let byte = |number: i32| u8::try_from(number).unwrap_or(u8::MAX);
        match (status.code(), status.signal()) {
            (Some(code), _) => JobExit::Status(byte(code)),
            (None, signal) => JobExit::Signal(byte(signal.unwrap_or(0))),
        }
    }

    /// As a shell reports it: the status, or 128 + signal.
    pub fn number(self) -> u8 {
        match self {
            JobExit::Status(status) => status,
            JobExit::Signal(signal) => 128u8.saturating_add(signal),
        }
    }

    /// Whether it exited with status 0.
    pub fn succeeded(self) -> bool {
        self == JobExit::Status(0)
    }
}

impl std::fmt::Display for JobExit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            JobExit::Status(status) => write!(f, "exit status {status}"),
            JobExit::Signal(signal) => write!(f, "killed by signal {signal}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_is_reported_as_a_shell_does() {
        assert_eq!(JobExit::of(ExitStatus::from_raw(9)).number(), 137);
        assert_eq!(JobExit::of(ExitStatus::from_raw(3 << 8)).number(), 3);
        assert!(JobExit::of(ExitStatus::from_raw(0)).succeeded());
        assert!(!JobExit::Signal(0).succeeded());
    }

    #[test]
    fn a_refusal_says_whose_fault_it_is() {
        let error =
            |blame| ApiError { code: ErrorCode::Refused, blame, message: "m".into(), advice: "a".into() };
        assert_eq!(ExitCode::of_refusal(&error(Blame::User)), ExitCode::Script);
        let user = |code| ApiError { code, ..error(Blame::User) };
        for code in NOTHING_TO_READ {
            let refused = user(code);
            assert_eq!(ExitCode::of_refusal(&refused), ExitCode::NoInput, "{}", refused.code);
            assert_eq!(ExitCode::of_stage_in(&refused), ExitCode::NoInput, "{}", refused.code);
        }
        assert_eq!(ExitCode::of_stage_in(&user(ErrorCode::StageFailed)), ExitCode::NoInput);
        for code in
            [ErrorCode::BufferFull, ErrorCode::StageList, ErrorCode::StagePath, ErrorCode::StageDestination]
        {
            let refused = user(code);
            assert_eq!(ExitCode::of_stage_in(&refused), ExitCode::Script, "{}", refused.code);
        }
        assert_eq!(ExitCode::of_refusal(&error(Blame::Site)), ExitCode::Unavailable);
        assert_eq!(ExitCode::of_refusal(&error(Blame::Forebay)), ExitCode::Bug);
    }

    #[test]
    fn the_table_in_the_manual_is_this_one() {
        let manual = include_str!("../../../docs/CLI_ABI.md");
        let section = manual.split("\n## ").find(|section| section.starts_with("Exit statuses\n")).unwrap();
        let first_cell = |line: &str| line.strip_prefix("| ")?.split(" | ").next()?.parse::<u8>().ok();
        let listed: Vec<u8> = section.lines().filter_map(first_cell).collect();
        assert_eq!(listed, ExitCode::ALL.map(ExitCode::number));
    }
}
