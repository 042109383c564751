//! A site in memory: nodes that do at once what they are asked, or what a test says instead. Clones share it, as a
//! machine is shared by the lives of control.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

use daemon::error::{site, user};
use model::phase::{StageKind, StageState};
use tokio::sync::Notify;
use wire::control::{ApiError, FileFailure, Side, StageProgress, StageStatus};
use wire::node::{
    FragmentSpec, FragmentStatus, MountSpec, MountStatus, NodeHealth, StageSpec, StorageAddress,
};

use crate::site::{DiskSpace, NodeView, Site};

/// The machine.
#[derive(Clone, Default)]
pub struct MemorySite {
    world: Arc<Mutex<World>>,
    /// Told when the call at which control is to die has come.
    pub died: Arc<Notify>,
}

/// What is there, and what is to go wrong.
pub struct World {
    /// The disk.
    pub available_bytes: u64,
    /// Whether images are chosen.
    pub images: bool,
    /// By node and instance.
    pub fragments: BTreeMap<(String, String), FragmentSpec>,
    /// By id.
    pub mounts: BTreeMap<String, MountSpec>,
    /// By id.
    pub stages: BTreeMap<String, StageStatus>,
    /// How often a mount was lost.
    pub interruptions: u32,
    /// Calls that fail, as `create_fragment n1`.
    pub refused: BTreeSet<String>,
    /// Sources whose stage fails.
    pub failing: BTreeSet<String>,
    /// Sources whose stage stays active.
    pub hanging: BTreeSet<String>,
    /// Every call, in order.
    pub calls: Vec<String>,
    /// Whether nodes were asked to stop.
    pub stopped: bool,
    /// Which step of a call (two each: before and after its effect) control does not survive.
    pub die_at: Option<usize>,
    steps: usize,
}

impl Default for World {
    fn default() -> World {
        World {
            available_bytes: 100 << 30,
            images: false,
            fragments: BTreeMap::new(),
            mounts: BTreeMap::new(),
            stages: BTreeMap::new(),
            interruptions: 0,
            refused: BTreeSet::new(),
            failing: BTreeSet::new(),
            hanging: BTreeSet::new(),
            calls: Vec::new(),
            stopped: false,
            die_at: None,
            steps: 0,
        }
    }
}

impl World {
    /// Calls that begin with `prefix`.
    pub fn count(&self, prefix: &str) -> usize {
        self.calls.iter().filter(|call| call.starts_with(prefix)).count()
    }
}

impl MemorySite {
    /// Looks or changes.
    pub fn world(&self) -> MutexGuard<'_, World> {
        self.world.lock().expect("no test panics while it looks")
    }

    /// One call to a node: refused, or done; control may die before or after.
    async fn call<R>(
        &self,
        call: String,
        effect: impl FnOnce(&mut World) -> Result<R, ApiError>,
    ) -> Result<R, ApiError> {
        self.step().await;
        let result = {
            let mut world = self.world();
            world.calls.push(call.clone());
            match world.refused.contains(&call) {
                true => Err(site("refused", format!("{call} refused"), "test again")),
                false => effect(&mut world),
            }
        };
        self.step().await;
        result
    }

    async fn step(&self) {
        let dies = {
            let mut world = self.world();
            world.steps += 1;
            world.die_at == Some(world.steps)
        };
        if dies {
            self.died.notify_one();
            std::future::pending::<()>().await;
        }
    }
}

impl Site for MemorySite {
    fn mount_folder(&self) -> PathBuf {
        "/dir/mnt".into()
    }

    fn disk(&self) -> Result<DiskSpace, ApiError> {
        Ok(DiskSpace { available_bytes: self.world().available_bytes })
    }

    fn images_work(&self, _fragment_bytes: u64) -> bool {
        self.world().images
    }

    fn nodes(&self) -> Vec<NodeView> {
        Vec::new()
    }

    fn check_mountpoint(&self, path: &Path) -> Result<PathBuf, ApiError> {
        Ok(path.to_owned())
    }

    async fn ensure_nodes(&self, count: u32) -> Result<Vec<StorageAddress>, ApiError> {
        let address = |index| StorageAddress {
            node: format!("n{index}"),
            tcp: format!("127.0.0.1:{index}"),
            unix: None,
        };
        self.call("ensure_nodes".into(), |_| Ok((0..count).map(address).collect())).await
    }

    async fn stop_nodes(&self) -> Result<(), ApiError> {
        self.world().stopped = true;
        Ok(())
    }

    async fn health(&self, node: &str) -> Result<NodeHealth, ApiError> {
        let world = self.world();
        Ok(NodeHealth {
            name: node.into(),
            pid: 1,
            data: StorageAddress { node: node.into(), tcp: String::new(), unix: None },
            fragments: Vec::new(),
            mounts: world.mounts.values().map(|spec| mounted(spec, world.interruptions)).collect(),
            stages: Vec::new(),
        })
    }

    async fn create_fragment(&self, node: &str, spec: &FragmentSpec) -> Result<FragmentStatus, ApiError> {
        let effect = |world: &mut World| {
            let known =
                world.fragments.entry((node.into(), spec.instance.clone())).or_insert_with(|| spec.clone());
            assert_eq!(known, spec, "a repeated request is the same request");
            Ok(FragmentStatus {
                instance: spec.instance.clone(),
                index: spec.index,
                capacity_bytes: spec.capacity_bytes,
                used_bytes: 0,
                error: None,
            })
        };
        self.call(format!("create_fragment {node}"), effect).await
    }

    async fn delete_fragment(&self, node: &str, instance: &str) -> Result<(), ApiError> {
        let key = (node.to_owned(), instance.to_owned());
        let effect = |world: &mut World| {
            world.fragments.remove(&key);
            Ok(())
        };
        self.call(format!("delete_fragment {node}"), effect).await
    }

    async fn mount(&self, _node: &str, spec: &MountSpec) -> Result<MountStatus, ApiError> {
        let effect = |world: &mut World| {
            let known = world.mounts.entry(spec.id.clone()).or_insert_with(|| spec.clone());
            assert_eq!(known, spec, "a repeated request is the same request");
            Ok(mounted(spec, world.interruptions))
        };
        self.call(format!("mount {}", spec.id), effect).await
    }

    async fn unmount(&self, _node: &str, id: &str, hurry: bool) -> Result<(), ApiError> {
        let effect = |world: &mut World| {
            world.mounts.remove(id);
            Ok(())
        };
        self.call(format!("unmount {id} hurry={hurry}"), effect).await
    }

    async fn start_stage(&self, _node: &str, spec: &StageSpec) -> Result<StageStatus, ApiError> {
        let effect = |world: &mut World| {
            let status = outcome(world, spec);
            Ok(world.stages.entry(spec.id.clone()).or_insert(status).clone())
        };
        self.call(format!("start_stage {}", spec.id), effect).await
    }

    async fn stage(&self, _node: &str, id: &str) -> Result<StageStatus, ApiError> {
        let unknown = || user("no_such_stage", "not known", "start it");
        self.call(format!("stage {id}"), |world| world.stages.get(id).cloned().ok_or_else(unknown)).await
    }

    async fn delete_stage(&self, _node: &str, id: &str) -> Result<(), ApiError> {
        let effect = |world: &mut World| {
            world.stages.remove(id);
            Ok(())
        };
        self.call(format!("delete_stage {id}"), effect).await
    }

    fn remove_mount_folder(&self, _token: &str) {}
}

fn mounted(spec: &MountSpec, interruptions: u32) -> MountStatus {
    MountStatus {
        id: spec.id.clone(),
        mountpoint: spec.mountpoint.clone(),
        mounted: true,
        pid: Some(1),
        interruptions,
        error: None,
    }
}

/// What becomes of a stage, by its source.
fn outcome(world: &World, spec: &StageSpec) -> StageStatus {
    let state = match () {
        () if world.failing.contains(&spec.source) => StageState::Failed,
        () if world.hanging.contains(&spec.source) => StageState::Active,
        () => StageState::Complete,
    };
    let failure = FileFailure {
        path: spec.pfs_path.display().to_string(),
        side: Side::Pfs,
        operation: "create".into(),
        errno: 13,
        message: "Permission denied".into(),
        advice: "make the folder writable".into(),
    };
    assert_ne!(spec.kind, StageKind::List, "no test has a list");
    StageStatus {
        id: spec.id.clone(),
        direction: spec.direction,
        kind: spec.kind,
        source: spec.source.clone(),
        destination: spec.destination.clone(),
        state,
        progress: StageProgress { entries_total: 3, entries_failed: 1, ..StageProgress::default() },
        elapsed_ms: 1,
        failures: if state == StageState::Failed { vec![failure] } else { Vec::new() },
        error: None,
    }
}
