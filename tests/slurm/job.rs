//! One batch job as Slurm shows it.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tests::processes::wait_until;

use crate::site::Site;

/// Longer than any phase of any job here, also on two busy cores, and than Slurm's 60 s before it stages in again.
pub const PHASE_LIMIT: Duration = Duration::from_secs(150);

/// Slurm answers in milliseconds; more often would only take time from the jobs.
const POLL_PERIOD: Duration = Duration::from_millis(100);

/// A job.
pub struct Job<'a> {
    /// The cluster that it is on.
    pub site: &'a Site,
    /// Its id.
    pub id: u32,
    /// The folder that it was submitted from, with its script and output.
    pub folder: PathBuf,
}

impl Job<'_> {
    /// A field of `scontrol show job`, as `JobState`; empty where it has none.
    pub fn field(&self, name: &str) -> String {
        let id = self.id.to_string();
        let text = self.site.on("head", &["scontrol", "--oneliner", "show", "job", &id]).stdout;
        let key = format!("{name}=");
        let value = text.split(' ').find_map(|word| word.strip_prefix(key.as_str()));
        value.unwrap_or_default().trim().to_owned()
    }

    /// Waits until the buffer is in a state, as `staging-in`.
    #[track_caller]
    pub fn wait_buffer(&self, state: &str) {
        self.wait(&format!("buffer state {state}"), || self.field("BurstBufferState") == state);
    }

    /// Waits until the job is in a state, as `RUNNING`.
    #[track_caller]
    pub fn wait_state(&self, state: &str) {
        self.wait(&format!("state {state}"), || self.field("JobState") == state);
    }

    /// Waits until the job has ended and Slurm has released its buffer; returns its last state.
    #[track_caller]
    pub fn wait_end(&self) -> String {
        let mut last = String::new();
        self.wait("its end", || {
            let id = self.id.to_string();
            let text = self.site.on("head", &["scontrol", "--oneliner", "show", "job", &id]).stdout;
            let value =
                |key: &str| text.split(' ').find_map(|word| word.strip_prefix(key)).unwrap_or_default();
            last = value("JobState=").trim().to_owned();
            let ended = matches!(
                last.as_str(),
                "COMPLETED" | "FAILED" | "CANCELLED" | "TIMEOUT" | "NODE_FAIL" | "OUT_OF_MEMORY"
            );
            // A teardown that ended while slurmctld was down is over, but shown as long as the job is.
            let released = matches!(value("BurstBufferState=").trim(), "complete" | "teardown" | "");
            ended && released && !self.is_in_buffer_list()
        });
        last
    }

    /// Waits for a regular end: completed, with exit status 0.
    #[track_caller]
    pub fn wait_success(&self) {
        let state = self.wait_end();
        assert_eq!(
            (state.as_str(), self.field("ExitCode").as_str()),
            ("COMPLETED", "0:0"),
            "{}",
            self.output()
        );
    }

    /// Waits until something else holds; `what` names it.
    #[track_caller]
    pub fn wait_until(&self, what: &str, condition: impl FnMut() -> bool) {
        self.wait(what, condition);
    }

    /// Waits until `scontrol show job` has these words, and returns all that it shows.
    #[track_caller]
    pub fn wait_shown(&self, words: &[&str]) -> String {
        let mut shown = String::new();
        self.wait(&format!("show {words:?}"), || {
            let id = self.id.to_string();
            shown = self.site.on("head", &["scontrol", "show", "job", &id]).stdout;
            words.iter().all(|word| shown.contains(word))
        });
        shown
    }

    /// `scancel`, with `--hurry` or without.
    pub fn cancel(&self, options: &[&str]) {
        let id = self.id.to_string();
        let outcome = self.site.on("head", &[&["scancel"], options, &[id.as_str()]].concat());
        assert!(outcome.status.success(), "{}", outcome.stderr);
    }

    /// What the job printed, without what srun says when Slurm has not yet put the step before away.
    pub fn output(&self) -> String {
        let text = read(&self.folder.join(format!("{}.out", self.id)));
        let is_of_srun = |line: &str| {
            line.starts_with("srun: ")
                && ["step creation temporarily disabled", "Step created for job"]
                    .iter()
                    .any(|words| line.contains(words))
        };
        text.split_inclusive('\n').filter(|line| !is_of_srun(line)).collect()
    }

    fn is_in_buffer_list(&self) -> bool {
        let list = self.site.on("head", &["scontrol", "show", "burstbuffer"]).stdout;
        list.split_whitespace().any(|word| word == format!("JobID={}", self.id))
    }

    #[track_caller]
    fn wait(&self, what: &str, mut condition: impl FnMut() -> bool) {
        let come = wait_until(PHASE_LIMIT, || {
            let come = condition();
            if !come {
                std::thread::sleep(POLL_PERIOD);
            }
            come
        });
        let id = self.id.to_string();
        let shown = || self.site.on("head", &["scontrol", "show", "job", &id]).stdout;
        assert!(come, "job {id} does not come to {what}:\n{}\n{}", shown(), self.output());
    }
}

/// A file as text, empty where there is none.
pub fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_default()
}
