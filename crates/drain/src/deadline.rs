//! When the job's time ends, and what is done when the drain will not be ready by then: it drops its bandwidth limit,
//! its node takes its low rank away, and it says so in the job's output.
//!
//! Slurm is asked for the time, as it may be changed while the job runs, and prints the warning (`scontrol notify`).
//! Only one of a job's nodes warns.

use std::fs::File;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::drain::Drain;
use crate::wait::late;

/// How often the drain's end is compared with the job's.
const PERIOD: Duration = Duration::from_secs(1);

/// How often Slurm is asked for the job's end, while there is something to copy.
const ASK_PERIOD: Duration = Duration::from_secs(120);

/// The file in the session's folder that the node makes which warns.
const WARNED: &str = "warned";

/// The end of a job's time.
pub struct Deadline {
    /// Slurm's number of the job.
    slurm_job: Option<String>,
    /// Seconds since 1970; 0: not known.
    end: AtomicU64,
}

impl Deadline {
    /// That of Slurm's job; `end` is what is known at the start.
    pub fn new(slurm_job: Option<String>, end: Option<u64>) -> Deadline {
        Deadline { slurm_job, end: AtomicU64::new(end.unwrap_or_default()) }
    }

    /// Seconds since 1970.
    pub fn end(&self) -> Option<u64> {
        Some(self.end.load(Ordering::Relaxed)).filter(|end| *end > 0)
    }

    /// Asks Slurm.
    fn ask(&self) {
        let Some(job) = &self.slurm_job else { return };
        let mut command = Command::new("squeue");
        command.args(["--noheader", "--format=%e", "--jobs", job]).env("SLURM_TIME_FORMAT", "%s");
        let Ok(output) = command.stdin(Stdio::null()).output() else { return };
        // A job that is over, or has no end, gives no number: what was known stays.
        if let Ok(end) = String::from_utf8_lossy(&output.stdout).trim().parse() {
            self.end.store(end, Ordering::Relaxed);
        }
    }

    fn warn(&self, text: &str) {
        tracing::warn!("{text}");
        let Some(job) = &self.slurm_job else { return };
        let told = Command::new("scontrol").args(["notify", job, text]).stdin(Stdio::null()).output();
        if !told.is_ok_and(|output| output.status.success()) {
            tracing::warn!("scontrol notify does not print that in the job's output");
        }
    }
}

impl Drain {
    /// Compares the drain's end with the job's, for ever.
    pub(crate) fn watch_deadline(&self) {
        let (mut asked, mut warned) = (None::<Instant>, false);
        loop {
            std::thread::sleep(PERIOD);
            let mut status = self.status();
            if status.bytes_left == 0 {
                continue;
            }
            if asked.is_none_or(|asked| asked.elapsed() > ASK_PERIOD) {
                self.deadline.ask();
                asked = Some(Instant::now());
                status.deadline = self.deadline.end();
            }
            let Some(missing) = late(&status) else { continue };
            self.hurry();
            if !std::mem::replace(&mut warned, true)
                && File::create_new(self.board.folder().join(WARNED)).is_ok()
            {
                self.deadline.warn(&format!(
                    "forebay: WARNING: node {} has {} to drain and at this rate will not be ready by the job's time limit: \
                     about {missing} s are missing. It gives way to nobody any more; what is left then is drained after the job",
                    self.host,
                    model::size::display(status.bytes_left),
                ));
            }
        }
    }
}
