//! A point in a job script at which the job waits for the test.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::cluster::Running;
use crate::processes::wait_until;

/// Two files: the job makes the first and waits for the second.
pub struct Gate {
    reached: PathBuf,
    open: PathBuf,
}

impl Gate {
    /// A closed gate whose files lie in `folder`, outside any buffer.
    pub fn new(folder: &Path) -> Self {
        Self { reached: folder.join("gate-reached"), open: folder.join("gate-open") }
    }

    /// The lines of shell that wait; after two minutes they give up, so that a failed test leaves no process behind.
    pub fn commands(&self) -> String {
        let (reached, open) = (self.reached.display(), self.open.display());
        format!(
            "touch {reached}\nfor i in $(seq 2400); do [ -e {open} ] && break; sleep 0.05; done\n[ -e {open} ]\n"
        )
    }

    /// Waits until the job is there.
    #[track_caller]
    pub fn wait_reached(&self, job: &mut Running) {
        wait_until(Duration::from_secs(120), || self.reached.exists() || !job.is_running());
        assert!(self.reached.exists(), "the job ended or hangs before its gate:\n{}", job.output());
    }

    /// Lets the job go on.
    pub fn open(&self) {
        fs::write(&self.open, "").expect("the folder is ours");
    }
}
