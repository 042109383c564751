//! What a running stage tells others, and what others tell it: counters, failures, cancellation.
//!
//! **Invariant:** a stage is `complete` only if its source was walked to the end, every entry found is done, nothing
//! failed and nobody cancelled it.

mod tally;

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use model::{NodeName, phase::StageState};
use wire::control::{ApiError, Blame, FileFailure, Remark, StageNotes, StageProgress, StageStatus};
use wire::node::{StagePace, StagePolicy, StageSpec};

use crate::eta::Gauge;
use crate::lease::Lease;
use crate::pace::Pace;
use crate::stalls::Stalls;
use crate::verify;

pub(crate) use tally::Tally;

/// As many failures and as many remarks as a status lists.
const LISTED_MAX: usize = 100;

/// What a busy file system answers at the latest, as a rule.
const STALL_AFTER: Duration = Duration::from_secs(30);

/// The state of one run of a stage, shared by all its threads.
pub struct Monitor {
    pub(crate) policy: StagePolicy,
    started: Instant,
    entries_total: AtomicU64,
    entries_done: AtomicU64,
    bytes_total: AtomicU64,
    bytes_done: AtomicU64,
    bytes_verified: AtomicU64,
    bytes_moved: AtomicU64,
    bytes_to_verify: AtomicU64,
    entries_failed: AtomicU64,
    sources_missing: AtomicU64,
    planned: AtomicBool,
    cancelled: AtomicBool,
    buffer_full: AtomicBool,
    failures: Mutex<Vec<FileFailure>>,
    remarks: Mutex<Vec<Remark>>,
    remarks_total: AtomicU64,
    helpers: Mutex<BTreeMap<NodeName, u64>>,
    error: Mutex<Option<ApiError>>,
    gauge: Mutex<Gauge>,
    stall_after: Duration,
    pub(crate) pace: Pace,
    /// That of this process alone, which the limit of its node gives it.
    pub(crate) own_pace: Pace,
    pub(crate) stalls: Stalls,
    /// A mover's.
    pub(crate) lease: Lease,
}

impl Monitor {
    /// Of a run that starts now and is done like this.
    pub fn new(policy: &StagePolicy) -> Monitor {
        let monitor = Monitor {
            policy: policy.clone(),
            started: Instant::now(),
            entries_total: AtomicU64::new(0),
            entries_done: AtomicU64::new(0),
            bytes_total: AtomicU64::new(0),
            bytes_done: AtomicU64::new(0),
            bytes_verified: AtomicU64::new(0),
            bytes_moved: AtomicU64::new(0),
            bytes_to_verify: AtomicU64::new(0),
            entries_failed: AtomicU64::new(0),
            sources_missing: AtomicU64::new(0),
            planned: AtomicBool::new(false),
            cancelled: AtomicBool::new(false),
            buffer_full: AtomicBool::new(false),
            failures: Mutex::default(),
            remarks: Mutex::default(),
            remarks_total: AtomicU64::new(0),
            helpers: Mutex::default(),
            error: Mutex::default(),
            gauge: Mutex::default(),
            stall_after: STALL_AFTER,
            pace: Pace::default(),
            own_pace: Pace::default(),
            stalls: Stalls::default(),
            lease: Lease::default(),
        };
        monitor.pace.limit(policy.bandwidth_bytes_per_s);
        monitor
    }

    /// Names an operation in the status when it does not come back for so long. Default: 30 s.
    pub fn with_stall_after(self, stall_after: Duration) -> Monitor {
        Monitor { stall_after, ..self }
    }

    /// Changes the stage's pace.
    pub fn control(&self, pace: &StagePace) {
        self.pace.pause(pace.paused);
        self.pace.limit(pace.bandwidth_bytes_per_s.or(self.policy.bandwidth_bytes_per_s));
        self.own_pace.limit(pace.node_bandwidth_bytes_per_s);
    }

    /// Asks the stage to stop soon. What is copied so far stays, and a later run goes on from there.
    pub fn cancel(&self) {
        self.cancelled.store(true, Ordering::Relaxed);
    }

    /// What is known now of the stage that this is a run of.
    pub fn status(&self, stage: &StageSpec, state: StageState) -> StageStatus {
        let error = self.error.lock().expect("no thread panics with the lock").clone();
        let failures = self.failures.lock().expect("no thread panics with the lock").clone();
        StageStatus {
            id: stage.id.clone(),
            direction: stage.direction,
            kind: stage.kind,
            source: stage.source.clone(),
            destination: stage.destination.clone(),
            state,
            progress: self.estimated(),
            elapsed_ms: milliseconds(self.started.elapsed()),
            failures,
            error,
            notes: self.notes(),
        }
    }

    fn notes(&self) -> StageNotes {
        let helpers = self.helpers.lock().expect("no thread panics with the lock");
        StageNotes {
            paused: self.pace.is_paused(),
            stalled: self.stalls.longer_than(self.stall_after),
            remarks: self.remarks.lock().expect("no thread panics with the lock").clone(),
            remarks_total: self.remarks_total.load(Ordering::Relaxed),
            helpers: helpers.clone().into_iter().collect(),
        }
    }

    /// The counters and the time left.
    fn estimated(&self) -> StageProgress {
        let mut gauge = self.gauge.lock().expect("no thread panics with the lock");
        let progress = self.progress();
        let left = gauge.observe(self.started.elapsed(), self.pace.is_paused(), &progress);
        StageProgress { eta_ms: left.map(milliseconds), ..progress }
    }

    /// The status at the end: complete or failed, whatever the invariant above says.
    pub fn verdict(&self, stage: &StageSpec) -> StageStatus {
        if self.cancelled.load(Ordering::Relaxed) {
            self.fail_stage(cancelled());
        }
        let status = self.status(stage, StageState::Failed);
        let StageProgress { entries_total, entries_done, entries_failed, planned, .. } = status.progress;
        let complete =
            planned && entries_failed == 0 && entries_done == entries_total && status.error.is_none();
        StageStatus { state: if complete { StageState::Complete } else { StageState::Failed }, ..status }
    }

    /// The failure of the stage as a whole; the first one stays.
    pub fn fail_stage(&self, error: ApiError) {
        self.error.lock().expect("no thread panics with the lock").get_or_insert(error);
    }

    pub(crate) fn progress(&self) -> StageProgress {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        // What is done is read before what is to be done, so that a reader never sees more done than there is.
        let (entries_done, bytes_done) = (get(&self.entries_done), get(&self.bytes_done));
        StageProgress {
            entries_done,
            bytes_done,
            bytes_verified: get(&self.bytes_verified),
            bytes_moved: get(&self.bytes_moved),
            entries_failed: get(&self.entries_failed),
            sources_missing: get(&self.sources_missing),
            planned: self.planned.load(Ordering::Acquire),
            entries_total: get(&self.entries_total),
            bytes_total: get(&self.bytes_total),
            bytes_to_verify: get(&self.bytes_to_verify),
            eta_ms: None,
        }
    }

    /// An entry was found; so many bytes are to be copied.
    pub(crate) fn found(&self, bytes: u64) {
        self.bytes_to_verify.fetch_add(verify::bytes(self.policy.verify, bytes), Ordering::Relaxed);
        self.bytes_total.fetch_add(bytes, Ordering::Relaxed);
        self.entries_total.fetch_add(1, Ordering::Relaxed);
    }

    /// Bytes were really copied, whatever becomes of the attempt.
    pub(crate) fn moved(&self, bytes: u64) {
        self.bytes_moved.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn remark(&self, path: &str, text: &str) {
        self.remarks_total.fetch_add(1, Ordering::Relaxed);
        let mut remarks = self.remarks.lock().expect("no thread panics with the lock");
        if remarks.len() < LISTED_MAX {
            remarks.push(Remark { path: path.to_owned(), text: text.to_owned() });
        }
    }

    pub(crate) fn done(&self) {
        self.entries_done.fetch_add(1, Ordering::Relaxed);
    }

    /// Another storage node has copied so much.
    pub(crate) fn helped(&self, node: &NodeName, bytes: u64) {
        let mut helpers = self.helpers.lock().expect("no thread panics with the lock");
        match helpers.get_mut(node) {
            Some(all) => *all += bytes,
            None => drop(helpers.insert(node.to_owned(), bytes)),
        }
    }

    /// Whether so much was found, in one way or the other.
    pub(crate) fn has_found(&self, bytes: u64, entries: u64) -> bool {
        self.bytes_total.load(Ordering::Relaxed) >= bytes
            || self.entries_total.load(Ordering::Relaxed) >= entries
    }

    /// Takes the remarks that are listed, as (path, text).
    pub(crate) fn take_remarks(&self) -> Vec<(String, String)> {
        let remarks = std::mem::take(&mut *self.remarks.lock().expect("no thread panics with the lock"));
        remarks.into_iter().map(|remark| (remark.path, remark.text)).collect()
    }

    pub(crate) fn planned(&self) {
        self.planned.store(true, Ordering::Release);
    }

    /// Lists the fault that ends the stage as a whole, so that its errno is known.
    pub(crate) fn name_failure(&self, failure: FileFailure) {
        self.failures.lock().expect("no thread panics with the lock").push(failure);
    }

    /// A source that was named is not there.
    pub(crate) fn source_missing(&self) {
        self.sources_missing.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn failed(&self, failure: FileFailure) {
        self.entries_failed.fetch_add(1, Ordering::Relaxed);
        let mut failures = self.failures.lock().expect("no thread panics with the lock");
        if failures.len() < LISTED_MAX {
            failures.push(failure);
        }
    }

    /// Whether anything failed.
    pub(crate) fn has_failures(&self) -> bool {
        self.entries_failed.load(Ordering::Relaxed) > 0
            || self.error.lock().expect("no thread panics with the lock").is_some()
    }

    /// The buffer has no room for more: the rest is only counted, so that the error can say how much there is.
    pub(crate) fn note_buffer_full(&self) {
        self.buffer_full.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_buffer_full(&self) -> bool {
        self.buffer_full.load(Ordering::Relaxed)
    }

    pub(crate) fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed)
    }

    /// Whether nothing more is to be copied.
    pub(crate) fn is_stopping(&self) -> bool {
        self.is_cancelled() || self.is_buffer_full() || self.lease.is_over()
    }
}

fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

fn cancelled() -> ApiError {
    ApiError {
        code: wire::control::ErrorCode::Cancelled,
        blame: Blame::User,
        message: "the stage was cancelled".to_owned(),
        advice: "start it again to go on where it stopped".to_owned(),
    }
}
