//! What a life's end is told with.

use std::time::Duration;

use wire::control::SessionStatus;

use crate::exit_code::JobExit;
use crate::run_record::{Job, RunRecord};

/// What the summary says beyond the ending.
#[derive(Debug, Default)]
pub struct Told {
    /// The session as it last was.
    pub status: Option<SessionStatus>,
    /// How the script ended in this run or an earlier one, and how long it ran.
    pub job: Option<(JobExit, Duration)>,
    /// The script was started, in this run or an earlier one.
    pub started: bool,
    /// It has come to its own end, so that what it made is whole.
    pub ended: bool,
    /// How long teardown took, if the buffer was released.
    pub teardown: Option<Duration>,
    /// Why the buffer is kept, if it is.
    pub kept: Option<String>,
}

impl Told {
    /// Of a life that begins, or goes on, with `record`.
    pub fn of(record: &RunRecord) -> Told {
        let job = match record.job {
            Job::Ended { exit, elapsed_ms } => Some((exit, Duration::from_millis(elapsed_ms))),
            Job::NotStarted | Job::Started { .. } => None,
        };
        Told { job, started: record.job != Job::NotStarted, ended: job.is_some(), ..Told::default() }
    }
}
