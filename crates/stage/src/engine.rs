//! One run of a stage: a planner, workers, and a verdict.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use client::Operations;
use model::phase::{Direction, StageState};
use model::{FragmentIndex, Ino};
use wire::control::{ApiError, Blame, ErrorCode, StageStatus};
use wire::data::Creator;
use wire::node::StageSpec;

use crate::at::At;
use crate::batch;
use crate::buffer::Buffer;
use crate::context::{Context, RETRY_PAUSE};
use crate::copier::Here;
use crate::folder;
use crate::journal::Journal;
use crate::manifest::Manifest;
use crate::monitor::Monitor;
use crate::mounted::{self, Mounts, NotMounted};
use crate::movers;
use crate::named;
use crate::orphans;
use crate::plan;
use crate::queue::CloseOnDrop;
use crate::remote::{RemoteNode, RemoteWorkers};
use crate::run::Run;
use crate::shared::Shared;
use crate::sides::{self, Side, Sides};
use crate::strays;
use crate::times;
use crate::tree::{Source, Target};

/// As many workers as one stage has at most: files are in turn read, written, synced and read back, so that a few more
/// than the processors keep both sides busy; a multiple of that only makes disks seek.
const WORKERS_MAX: usize = 8;

/// Both sides of a stage and how it works.
pub struct Engine {
    direction: Direction,
    source: Arc<dyn Source>,
    target: Arc<dyn Target>,
    retry_pause: Duration,
    workers: usize,
    /// The fragment that is on this host.
    here: Option<FragmentIndex>,
    remote_nodes: Arc<Vec<RemoteNode>>,
    at: Arc<At>,
}

impl Engine {
    /// Stages between the PFS, below `roots` as of [`sides::open`], and the buffer behind `namespace`.
    pub fn new<N: Operations + 'static>(
        spec: &StageSpec,
        roots: &[PathBuf],
        namespace: impl Into<Arc<N>>,
    ) -> Engine {
        let creator = Creator { uid: spec.owner.uid, gid: spec.owner.gid, umask: 0 };
        let buffer = Buffer::<N>::new(namespace, &spec.buffer_name, creator);
        Engine::between(spec.direction, sides::open(spec, roots), Arc::new(buffer))
    }

    /// Stages between two trees that can be either side.
    pub fn between(direction: Direction, pfs: Arc<dyn Side>, buffer: Arc<dyn Side>) -> Engine {
        let (source, target): (Arc<dyn Source>, Arc<dyn Target>) = match direction {
            Direction::In => (pfs, buffer),
            Direction::Out => (buffer, pfs),
        };
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let workers = WORKERS_MAX.min(2 * processors);
        let retry_pause = RETRY_PAUSE;
        let (remote_nodes, at) = (Arc::default(), Arc::default());
        Engine { direction, source, target, retry_pause, workers, here: None, remote_nodes, at }
    }

    /// Waits this long before the first retry of something that may pass, four and sixteen times as long before the
    /// next two. Default: 250 ms.
    pub fn with_retry_pause(self, retry_pause: Duration) -> Engine {
        Engine { retry_pause, ..self }
    }

    /// Has these help when there is much to do; `here` is the fragment that is on this host.
    pub fn with_movers(self, here: Option<FragmentIndex>, remote_nodes: Vec<RemoteNode>) -> Engine {
        Engine { here, remote_nodes: Arc::new(remote_nodes), ..self }
    }

    /// Notes in a file what each thread is at.
    pub fn with_at(self, at: At) -> Engine {
        Engine { at: Arc::new(at), ..self }
    }

    /// Removes everything that runs of the stage which were killed left on the PFS; says whether nothing is left. The
    /// stage is not to be run again.
    pub fn clear(spec: &StageSpec, journal: Journal) -> bool {
        let monitor = Arc::new(Monitor::new(&spec.policy));
        if let Err(error) = mounts_of(spec, &journal) {
            tracing::warn!("stage {}: {error}", spec.id);
            return false;
        }
        let pfs = sides::open(spec, &[]);
        let engine = Engine::between(spec.direction, pfs.clone(), pfs);
        engine.enter(spec).expect("nothing limits it");
        let context = engine.context(spec, journal, Manifest::default(), &monitor);
        Manifest::clear(spec.policy.manifest.as_deref(), &spec.id);
        if spec.direction == Direction::In {
            return true;
        }
        for place in context.journal.abandoned() {
            context.give_up(place);
        }
        let whole = strays::clear(&context, &[]);
        strays::end(&context);
        whole && context.shared.strays.lock().expect("no thread panics with the lock").paths.is_empty()
    }

    /// Reaches the folders that the stage names on the PFS.
    ///
    /// # Errors
    /// One is not among those that stages may reach on this host.
    fn enter(&self, spec: &StageSpec) -> Result<(), ApiError> {
        match self.direction {
            Direction::In => named::enter(&*self.source, spec),
            Direction::Out => named::enter(&*self.target, spec),
        }
    }

    /// What a mover works with; `name` sets its parts apart.
    ///
    /// # Errors
    /// As of [`Engine::enter`].
    pub(crate) fn mover(
        &self,
        spec: &StageSpec,
        run: u64,
        name: String,
        monitor: &Arc<Monitor>,
    ) -> Result<Run, ApiError> {
        self.enter(spec)?;
        let context = self.context(spec, Journal::detached(run), Manifest::default(), monitor);
        Ok(self.with_workers(spec, Context { shared: Shared { mover: name, ..context.shared }, ..context }))
    }

    /// Runs the stage with the rights of the calling thread. Returns when it is over: complete or failed.
    pub fn run(&self, spec: &StageSpec, journal: Journal, monitor: &Arc<Monitor>) -> StageStatus {
        let mounts = match mounts_of(spec, &journal) {
            Ok(mounts) => mounts,
            Err(error) => {
                monitor.fail_stage(error.stage_error());
                return monitor.verdict(spec);
            }
        };
        if let Err(error) = self.enter(spec) {
            monitor.fail_stage(error);
            return monitor.verdict(spec);
        }
        if let Some(folder) = spec.policy.manifest.as_deref().and_then(Path::parent) {
            journal.hold(folder, || Ino(0));
        }
        let manifest = match Manifest::begin(spec.policy.manifest.as_deref(), &spec.id) {
            Ok(manifest) => manifest,
            Err(error) => {
                monitor.fail_stage(error);
                return monitor.verdict(spec);
            }
        };
        let run = Arc::new(self.with_workers(spec, self.context(spec, journal, manifest, monitor)));
        self.copy(&run, spec);
        if let Err(error) = mounts.check_again() {
            monitor.fail_stage(error.stage_error());
        }
        if let Err(error) = run.manifest.publish(&monitor.verdict(spec)) {
            monitor.fail_stage(error);
        }
        let verdict = monitor.verdict(spec);
        if verdict.state == StageState::Complete {
            // Files that were begun and are not in the source any more.
            run.journal.abandoned().into_iter().for_each(|place| run.give_up(place));
        }
        strays::end(&run);
        verdict
    }

    /// Everything between the journal's start and the verdict.
    fn copy(&self, run: &Arc<Run>, spec: &StageSpec) {
        let monitor = &run.monitor;
        let (source, direction) = (&*run.sides.source, run.sides.direction);
        let nodes = spec.target.nodes.iter().map(|address| address.node.clone()).collect();
        if let Err(error) = run.shared.unverified.begin(source, direction, nodes) {
            return monitor.fail_stage(error);
        }
        let left = !strays::clear(run, &[]);
        run.shared.strays.lock().expect("no thread panics with the lock").unknown = left;
        std::thread::scope(|scope| {
            for _ in 0..self.workers {
                scope.spawn(|| run.queue.work(&run.here, |entry| batch::stage(run, entry)));
            }
            scope.spawn(|| movers::start(run, scope, spec));
            // Also if the planner panics: the workers would wait for ever.
            let _closing = CloseOnDrop(&run.queue);
            match plan::plan(run, spec) {
                Ok(()) if monitor.is_cancelled() => {}
                Ok(()) => monitor.planned(),
                Err(error) => monitor.fail_stage(error),
            }
        });
        orphans::remove(run, &spec.pfs_path);
        folder::release_held(run);
        times::tell(run);
        run.journal.sync();
        if !run.policy.while_running && !monitor.is_cancelled() {
            let ended = run.shared.unverified.end(source, direction);
            ended.unwrap_or_else(|error| monitor.fail_stage(error));
        }
        if monitor.is_buffer_full() {
            monitor.fail_stage(buffer_full(&*self.target, spec, monitor));
        }
    }

    fn context(
        &self,
        spec: &StageSpec,
        journal: Journal,
        manifest: Manifest,
        monitor: &Arc<Monitor>,
    ) -> Context {
        let sides = Sides::new(self.direction, self.source.clone(), self.target.clone(), monitor);
        let context = Context::new(&spec.id, sides, journal, monitor);
        let shared = Shared { helped: !self.remote_nodes.is_empty(), at: self.at.clone(), ..context.shared };
        Context { shared, retry_pause: self.retry_pause, manifest, ..context }
    }

    fn with_workers(&self, spec: &StageSpec, context: Context) -> Run {
        let here = Arc::new(Here { fragment: self.here });
        let remote = RemoteWorkers::new(spec.target.layout, self.remote_nodes.clone());
        Run { here, remote, workers: self.workers, ..Run::new(context) }
    }
}

fn buffer_full(buffer: &dyn Target, spec: &StageSpec, monitor: &Monitor) -> ApiError {
    let found = monitor.progress();
    let at_least = if found.planned { "" } else { "at least " };
    let room = buffer
        .usage()
        .map_or(String::new(), |usage| format!("; it may hold {} bytes in all", usage.capacity));
    ApiError {
        code: ErrorCode::BufferFull,
        blame: Blame::User,
        message: format!(
            "the buffer {} has no room for {}, {at_least}{} bytes in {} {}{room}",
            buffer.show(Path::new("")).trim_end_matches('/'),
            spec.source,
            found.bytes_total,
            found.entries_total,
            if found.entries_total == 1 { "entry" } else { "entries" },
        ),
        advice: "ask for a larger capacity, or stage less; every file takes whole blocks of the \
                 storage nodes' file system"
            .to_owned(),
    }
}

/// What the stage's paths on the PFS are on: as was noted when it was accepted, and of the lines of a list file at the
/// first attempt.
fn mounts_of(spec: &StageSpec, journal: &Journal) -> Result<Mounts, NotMounted> {
    let folders = plan::list::folders(spec);
    let of_lines = if folders.is_empty() { Vec::new() } else { mounted::noted(journal, &folders)? };
    Mounts::of_others(&[spec.pfs_mounts.clone(), of_lines].concat(), &spec.target.instance)
}
