//! When the job's time ends. Slurm is asked, as it may be changed while the job runs, and prints what the job's output
//! is to say of it (`scontrol notify`).

use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};

use model::Token;

/// The end of a job's time.
pub(crate) struct Deadline {
    /// Slurm's number of the job.
    slurm_job: Option<Token>,
    /// Seconds since 1970; 0: not known.
    end: AtomicU64,
}

impl Deadline {
    /// That of Slurm's job; `end` is what is known at the start.
    pub(crate) fn new(slurm_job: Option<Token>, end: Option<u64>) -> Deadline {
        Deadline { slurm_job, end: AtomicU64::new(end.unwrap_or_default()) }
    }

    /// Seconds since 1970.
    pub(crate) fn end(&self) -> Option<u64> {
        Some(self.end.load(Ordering::Relaxed)).filter(|end| *end > 0)
    }

    /// Asks Slurm.
    pub(crate) fn ask(&self) {
        let Some(job) = &self.slurm_job else { return };
        let mut command = Command::new("squeue");
        command.args(["--noheader", "--format=%e", "--jobs", job.as_str()]).env("SLURM_TIME_FORMAT", "%s");
        let Ok(output) = command.stdin(Stdio::null()).output() else { return };
        // A job that is over, or has no end, gives no number: what was known stays.
        if let Ok(end) = String::from_utf8_lossy(&output.stdout).trim().parse() {
            self.end.store(end, Ordering::Relaxed);
        }
    }

    /// Says so in the log, and in the job's output.
    pub(crate) fn warn(&self, text: &str) {
        tracing::warn!("{text}");
        let Some(job) = &self.slurm_job else { return };
        let told =
            Command::new("scontrol").args(["notify", job.as_str(), text]).stdin(Stdio::null()).output();
        if !told.is_ok_and(|output| output.status.success()) {
            tracing::warn!("cannot print that in the job's output (scontrol notify)");
        }
    }
}
