//! What the tests of the engine share: a stage between two plain folders, one of which plays the buffer.

pub mod cluster;
pub mod faulty_pfs;
pub mod folder_namespace;
pub mod forest;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use model::phase::{Direction, StageKind};
use model::stripe::Layout;
use model::{FragmentIndex, InstanceId};
use stage::buffer::Buffer;
use stage::engine::Engine;
use stage::journal::Journal;
use stage::monitor::Monitor;
use stage::tree::{Source, Target};
use wire::control::{Owner, StageStatus};
use wire::data::Creator;
use wire::node::{NamespaceTarget, StagePolicy, StageSpec};

use self::folder_namespace::{Faults, FolderNamespace};

/// A PFS folder, a buffer folder and a journal.
pub struct Site {
    folder: tempfile::TempDir,
    pub faults: Arc<Faults>,
    pub owner: Owner,
}

impl Site {
    pub fn new() -> Site {
        let folder = tempfile::tempdir().unwrap();
        for name in ["pfs", "buffer"] {
            std::fs::create_dir(folder.path().join(name)).unwrap();
        }
        let owner =
            Owner { uid: rustix::process::geteuid().as_raw(), gid: rustix::process::getegid().as_raw() };
        Site { folder, faults: Arc::default(), owner }
    }

    pub fn pfs(&self, path: &str) -> PathBuf {
        self.folder.path().join("pfs").join(path)
    }

    pub fn buffer(&self, path: &str) -> PathBuf {
        self.folder.path().join("buffer").join(path)
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    pub fn namespace(&self) -> FolderNamespace {
        FolderNamespace::new(&self.buffer(""), self.faults.clone())
    }

    /// A stage between `pfs` and `buffer`, both below the roots; a slash at their end is kept.
    pub fn spec(&self, direction: Direction, kind: StageKind, pfs: &str, buffer: &str) -> StageSpec {
        let (there, here) = (self.pfs(pfs), format!("$DW_JOB_STRIPED/{buffer}"));
        let (source, destination) = match direction {
            Direction::In => (there.display().to_string(), here),
            Direction::Out => (here, there.display().to_string()),
        };
        StageSpec {
            id: "7.0".into(),
            direction,
            kind,
            pfs_path: there,
            buffer_path: buffer.into(),
            buffer_name: "$DW_JOB_STRIPED".into(),
            source,
            destination,
            target: NamespaceTarget {
                instance: InstanceId::literal("i1"),
                namespace: 0,
                credential: None,
                layout: Layout::striped(1),
                home: FragmentIndex(0),
                nodes: Vec::new(),
                grace_ms: 0,
            },
            owner: self.owner.clone(),
            policy: StagePolicy::default(),
            ticket: String::new(),
            pairs: Vec::new(),
            pfs_mounts: Vec::new(),
            source_ino: None,
        }
    }

    pub fn journal(&self, spec: &StageSpec) -> Journal {
        Journal::open(&self.folder.path().join("journal"), spec).unwrap()
    }

    pub fn run(&self, spec: &StageSpec) -> StageStatus {
        self.run_watched(spec, &Arc::new(Monitor::new(&spec.policy)))
    }

    pub fn run_watched(&self, spec: &StageSpec, monitor: &Arc<Monitor>) -> StageStatus {
        self.start(Engine::new(spec, &[], self.namespace()), spec, monitor)
    }

    /// Runs a stage with another PFS than the real one.
    pub fn run_on(&self, pfs: impl Source + Target + 'static, spec: &StageSpec) -> StageStatus {
        self.watch_on(pfs, spec, &Arc::new(Monitor::new(&spec.policy)))
    }

    pub fn watch_on(
        &self,
        pfs: impl Source + Target + 'static,
        spec: &StageSpec,
        monitor: &Arc<Monitor>,
    ) -> StageStatus {
        let creator = Creator { uid: self.owner.uid, gid: self.owner.gid, umask: 0 };
        let buffer = Buffer::new(self.namespace(), "$DW_JOB_STRIPED", creator);
        self.start(Engine::between(spec.direction, Arc::new(pfs), Arc::new(buffer)), spec, monitor)
    }

    fn start(&self, engine: Engine, spec: &StageSpec, monitor: &Arc<Monitor>) -> StageStatus {
        engine.with_retry_pause(Duration::from_millis(1)).run(spec, self.journal(spec), monitor)
    }

    pub fn stage_in(&self, kind: StageKind, pfs: &str, buffer: &str) -> StageStatus {
        self.run(&self.spec(Direction::In, kind, pfs, buffer))
    }

    pub fn stage_out(&self, kind: StageKind, buffer: &str, pfs: &str) -> StageStatus {
        self.run(&self.spec(Direction::Out, kind, pfs, buffer))
    }
}
