//! What all threads of one run of a stage share, and the rules that all of them follow: when to stop, what to try
//! again, and where an entry is made before it has its name.

use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard};
use std::time::{Duration, Instant};

use model::Ino;
use model::phase::Direction;
use rustix::io::Errno;
use wire::control::{ApiError, ErrorCode, Side};
use wire::node::StagePolicy;

use crate::fault::{Cause, Fault};
use crate::journal::Journal;
use crate::manifest::Manifest;
use crate::monitor::Monitor;
use crate::shared::Shared;
use crate::sides::Sides;
use crate::tree::Placement;

/// How often to try again what may pass.
const RETRIES: u32 = 3;

/// How long the pause before the first retry is, where nobody chose.
pub(crate) const RETRY_PAUSE: Duration = Duration::from_millis(250);

/// How long a pause may be before a cancelled stage notices.
const NAP: Duration = Duration::from_millis(50);

/// How the names of parts end.
pub const PART_SUFFIX: &str = ".part";

/// How those end under which a target keeps what it has taken from a name, until it knows whose that is.
pub const TAKEN_SUFFIX: &str = ".taken";

pub(crate) struct Context {
    /// No other run with the same target has it.
    pub(crate) id: String,
    pub(crate) sides: Sides,
    /// How it is done. While the job runs, what can be copied now is; the rest is left to the stage at its end.
    pub(crate) policy: StagePolicy,
    /// Pause before the first retry; each later one is four times as long.
    pub(crate) retry_pause: Duration,
    pub(crate) shared: Shared,
    /// What is told of it, and has its pace.
    pub(crate) monitor: Arc<Monitor>,
    pub(crate) journal: Arc<Journal>,
    pub(crate) manifest: Manifest,
}

impl Context {
    /// For who copies entry by entry; nothing is written beside the journal.
    pub(crate) fn new(id: &str, sides: Sides, journal: Journal, monitor: &Arc<Monitor>) -> Context {
        Context {
            id: id.to_owned(),
            sides,
            policy: monitor.policy.clone(),
            retry_pause: RETRY_PAUSE,
            shared: Shared::default(),
            monitor: monitor.clone(),
            journal: Arc::new(journal),
            manifest: Manifest::default(),
        }
    }

    /// Records that an entry failed.
    pub(crate) fn fail(&self, fault: &Fault) {
        if self.policy.while_running {
            self.shared.pass_failed.store(true, Ordering::Relaxed);
            return tracing::debug!("stage {}: left to the end: {fault}", self.id);
        }
        // What was given up because the stage stops is no failure of that entry: a later run takes it up.
        let given_up = matches!(fault.cause, Cause::Stopped | Cause::FirstNameFailed { .. });
        if given_up && self.monitor.is_stopping() {
            return;
        }
        let no_room = fault.side == Side::Buffer && fault.errno() == Some(Errno::NOSPC);
        if no_room && self.sides.direction == Direction::In {
            self.monitor.note_buffer_full();
        }
        tracing::warn!("stage {}: {fault}", self.id);
        let failure = fault.failure(self.sides.direction);
        self.manifest.failure(&failure);
        self.monitor.failed(failure);
    }

    /// Names that were made and could not be synced may be gone after a power loss, whatever a second sync says: the
    /// stage is to be run again, which looks at every one.
    pub(crate) fn doubt_names(&self, fault: &Fault) {
        if self.policy.while_running || !fault.may_pass() {
            return;
        }
        let error = fault.stage_error(self.sides.direction);
        self.monitor.fail_stage(ApiError { code: ErrorCode::StageNamesUnsynced, ..error });
        self.monitor.cancel();
    }

    /// Records what the owner of the files should know and what is no failure.
    pub(crate) fn remark(&self, path: &str, text: &str) {
        tracing::info!("stage {}: {path}: {text}", self.id);
        self.journal.remark(path, text);
        self.manifest.remark(path, text);
        self.monitor.remark(path, text);
    }

    /// Runs `attempt` until it works, or fails in a way that does not pass, or has failed four times.
    pub(crate) fn retrying<T>(&self, mut attempt: impl FnMut() -> Result<T, Fault>) -> Result<T, Fault> {
        self.retrying_after(attempt(), attempt)
    }

    /// The same with a file that is open. One that became stale is to be opened anew, which is not this attempt's to
    /// do.
    pub(crate) fn retrying_open<T>(&self, mut attempt: impl FnMut() -> Result<T, Fault>) -> Result<T, Fault> {
        let is_stale = |fault: &Fault| fault.errno() == Some(Errno::STALE);
        let outcome = self.retrying(|| match attempt() {
            Err(fault) if is_stale(&fault) => Ok(Err(fault)),
            outcome => outcome.map(Ok),
        });
        outcome?
    }

    /// The same as [`Context::retrying`] after a first attempt, with this outcome.
    pub(crate) fn retrying_after<T>(
        &self,
        first: Result<T, Fault>,
        mut attempt: impl FnMut() -> Result<T, Fault>,
    ) -> Result<T, Fault> {
        let (mut outcome, mut pause) = (first, self.retry_pause);
        for _ in 0..RETRIES {
            match outcome {
                Err(fault) if self.may_pass(&fault) && !self.monitor.is_stopping() => {
                    self.remark(&fault.path, &format!("{}: {}; tried again", fault.operation, fault.cause));
                }
                outcome => return outcome,
            }
            self.sleep(pause);
            pause *= 4;
            outcome = attempt();
        }
        outcome.map_err(|fault| {
            self.in_vain().extend(fault.common_cause());
            Fault { exhausted: true, ..fault }
        })
    }

    /// Whether a fault is worth another try.
    fn may_pass(&self, fault: &Fault) -> bool {
        let in_vain = |cause| self.in_vain().contains(&cause);
        !self.policy.while_running && fault.may_pass() && !fault.common_cause().is_some_and(in_vain)
    }

    pub(crate) fn in_vain(&self) -> MutexGuard<'_, Vec<(Side, i32)>> {
        self.shared.in_vain.lock().expect("no thread panics with the lock")
    }

    /// Waits until the stage may read so many bytes from the PFS or write them there, wherever that is done.
    pub(crate) fn pace(&self, bytes: u64) {
        self.monitor.pace.take(bytes, || self.monitor.is_stopping());
    }

    /// The same of bytes that this process moves itself: its node has a limit, too.
    pub(crate) fn pace_here(&self, bytes: u64) {
        self.monitor.own_pace.take(bytes, || self.monitor.is_stopping());
        self.pace(bytes);
    }

    /// Waits until so many bytes may be read back from one side: those of the PFS are under its limit.
    pub(crate) fn pace_reading(&self, side: Side, bytes: u64) {
        if side == Side::Pfs {
            self.pace(bytes);
        }
    }

    /// The same of bytes that this process reads itself.
    pub(crate) fn pace_reading_here(&self, side: Side, bytes: u64) {
        if side == Side::Pfs {
            self.pace_here(bytes);
        }
    }

    /// How this process makes entries. A mover may outlive its coordinator, and then must not touch what a later run
    /// has made under the same names: it makes parts in buffers as well, and only the coordinator, of which there is
    /// one, gives them their names.
    fn placement(&self) -> Placement {
        if self.shared.mover.is_empty() { self.sides.target.placement() } else { Placement::Renamed }
    }

    /// Whether parts are made at the target, by this process or by movers.
    pub(crate) fn makes_parts(&self) -> bool {
        self.placement() == Placement::Renamed || self.shared.helped
    }

    /// Where an entry that is to become `target` is made: beside it under a name of ours, or right there.
    pub(crate) fn workplace(&self, target: &Path) -> PathBuf {
        match self.placement() {
            Placement::InPlace => target.to_owned(),
            Placement::Renamed => {
                self.announce(target);
                let part = self.shared.parts.fetch_add(1, Ordering::Relaxed);
                target.with_file_name(format!(
                    "{}{}{part}{PART_SUFFIX}",
                    self.part_prefix(),
                    self.shared.mover
                ))
            }
        }
    }

    /// Has it in the journal that a part of what is to become `target` is made beside it.
    pub(crate) fn announce(&self, target: &Path) {
        if !self.makes_parts() {
            return;
        }
        if let Some(folder) = target.parent() {
            self.journal
                .hold(folder, || self.sides.target.find(folder).map_or(Ino(0), |found| found.attr.ino));
        }
    }

    /// Whether a name is that of a part that an earlier run of this stage left behind.
    pub(crate) fn is_leftover(&self, name: &[u8]) -> bool {
        self.is_part(name) && !name.starts_with(self.part_prefix().as_bytes())
    }

    /// Whether a name is that of a part of this stage's, also of this run.
    pub(crate) fn is_part(&self, name: &[u8]) -> bool {
        name.starts_with(self.stage_prefix().as_bytes()) && name.ends_with(PART_SUFFIX.as_bytes())
    }

    /// Whether a name is one under which an earlier run of this stage's has left what it had taken from another.
    pub(crate) fn is_taken(&self, name: &[u8]) -> bool {
        let is_own = name.starts_with(self.part_prefix().as_bytes());
        name.starts_with(self.stage_prefix().as_bytes()) && name.ends_with(TAKEN_SUFFIX.as_bytes()) && !is_own
    }

    /// Removes a part, now or at the end of the run.
    pub(crate) fn give_up(&self, part: PathBuf) {
        let removed = self.sides.target.remove(&part);
        let mut strays = self.shared.strays.lock().expect("no thread panics with the lock");
        match removed {
            Ok(()) => {}
            // It was never made, or its folder has another path now.
            Err(Errno::NOENT | Errno::NOTDIR) => strays.missed = true,
            Err(_) => strays.paths.push(part),
        }
    }

    /// Whether a path is that of a part of this run's that this mover has made.
    pub(crate) fn is_of_mover(&self, path: &Path, mover: &str) -> bool {
        let prefix = format!("{}{mover}", self.part_prefix());
        path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(prefix.as_bytes()))
    }

    fn stage_prefix(&self) -> String {
        format!(".forebay.{}.", self.id.replace('/', "_"))
    }

    fn part_prefix(&self) -> String {
        format!("{}{}-", self.stage_prefix(), self.journal.run())
    }

    pub(crate) fn sleep(&self, pause: Duration) {
        let end = Instant::now() + pause;
        while Instant::now() < end && !self.monitor.is_stopping() {
            std::thread::sleep(NAP.min(end.saturating_duration_since(Instant::now())));
        }
    }
}
