//! A site in memory: nodes that do at once what they are asked, or what a test says instead. Clones share it, as a
//! machine is shared by the lives of control.

mod outcome;
mod statuses;
mod taken;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use daemon::error::{site, user};
use model::{InstanceId, NodeName, Token};
use tokio::sync::Notify;
use wire::control::{ApiError, ErrorCode, StageStatus};
use wire::data::Credential;
use wire::node::{
    ENCRYPT, FragmentSpec, FragmentStatus, FsckReport, FsckSpec, LocalSpace, LocalSpec, LocalStatus, Missing,
    MountSpec, MountStatus, Moved, NodeHealth, PartFiles, PfsMount, ROOT_SQUASH, ScrubSpec, ScrubStatus,
    StageSpec, StorageAddress,
};

use self::outcome::outcome;
use self::statuses::{local_status, mounted, status};
use self::taken::taken;
use crate::node_api::{Answer, NodeApi, Release, Unmount};
use crate::site::{ClusterSetting, DiskSpace, NodeView, Site};
use crate::state::nodes::Known;

/// The machine.
#[derive(Clone)]
pub(crate) struct MemorySite {
    world: Arc<Mutex<World>>,
    /// Told when the call at which control is to die has come.
    pub died: Arc<Notify>,
}

impl Default for MemorySite {
    fn default() -> MemorySite {
        let world = World { available_bytes: 100 << 30, local_bytes: 8 << 30, ..World::default() };
        MemorySite { world: Arc::new(Mutex::new(world)), died: Arc::default() }
    }
}

/// The key of fragments that are there and are not of this control's instances.
pub(crate) const ANOTHERS: &str = "another's";

/// What is there, and what is to go wrong.
#[derive(Default)]
pub(crate) struct World {
    /// The disk.
    pub available_bytes: u64,
    /// The cluster that this is, with its nodes, if it is one.
    pub cluster: Option<ClusterSetting>,
    /// Nodes that registered.
    pub views: Vec<NodeView>,
    /// Nodes that do not answer.
    pub silent: BTreeSet<NodeName>,
    /// Whether images are chosen.
    pub images: bool,
    /// By node and instance.
    pub fragments: BTreeMap<(NodeName, InstanceId), FragmentSpec>,
    /// By id; on a cluster by node and id, as `c1/7-striped`.
    pub mounts: BTreeMap<String, MountSpec>,
    /// By id.
    pub stages: BTreeMap<String, StageStatus>,
    /// Private volumes, by node and id; whether they are released.
    pub locals: BTreeMap<(NodeName, String), (LocalSpec, bool)>,
    /// Bytes that a node can give to a private volume.
    pub local_bytes: u64,
    /// How often a mount was lost.
    pub interruptions: u32,
    /// Calls that fail, as `create_fragment n1`.
    pub refused: BTreeSet<String>,
    /// What a node says of itself that said something else when it was seen last.
    pub healths: BTreeMap<NodeName, NodeHealth>,
    /// How often a node is still starting a fragment that it is asked for.
    pub starting: u32,
    /// Sources whose stage fails.
    pub failing: BTreeSet<String>,
    /// Sources whose stage stays active.
    pub hanging: BTreeSet<String>,
    /// Stages that their node stops when they are not here any more.
    pub unstoppable: BTreeSet<String>,
    /// Every call, in order.
    pub calls: Vec<String>,
    /// Whether nodes were asked to stop.
    pub stopped: bool,
    /// Which step of a call (two each: before and after its effect) control does not survive.
    pub die_at: Option<usize>,
    steps: usize,
}

impl World {
    /// Calls that begin with `prefix`.
    pub(crate) fn count(&self, prefix: &str) -> usize {
        self.calls.iter().filter(|call| call.starts_with(prefix)).count()
    }
}

impl MemorySite {
    /// Looks or changes.
    pub(crate) fn world(&self) -> MutexGuard<'_, World> {
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
                true => Err(site(ErrorCode::Refused, format!("{call} refused"), "test again")),
                false => effect(&mut world),
            }
        };
        self.step().await;
        result
    }

    /// The same for a node that may be silent.
    async fn call_node<R>(
        &self,
        node: &NodeName,
        call: String,
        effect: impl FnOnce(&mut World) -> Result<R, ApiError>,
    ) -> Result<R, ApiError> {
        if self.world().silent.contains(node) {
            return Err(silent(node));
        }
        self.call(call, effect).await
    }

    fn key(&self, node: &NodeName, id: &str) -> String {
        if self.world().cluster.is_some() { format!("{node}/{id}") } else { id.to_owned() }
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

fn silent(node: &NodeName) -> ApiError {
    site(ErrorCode::NodeAbsent, format!("node {node} does not answer"), "test again")
}

impl Site for MemorySite {
    fn mount_folder(&self) -> PathBuf {
        "/dir/mnt".into()
    }

    fn disk(&self) -> Result<DiskSpace, ApiError> {
        Ok(DiskSpace { available_bytes: self.world().available_bytes })
    }

    fn image_bytes_min(&self) -> Option<u64> {
        self.world().images.then_some(0)
    }

    fn cluster(&self) -> Option<ClusterSetting> {
        self.world().cluster.clone()
    }

    fn admit(&self, node: Known) -> Result<(), ApiError> {
        let mut world = self.world();
        world.views.retain(|view| view.name != node.registration.name);
        world.views.push(NodeView {
            name: node.registration.name.clone(),
            online: true,
            registration: Some(node.registration),
            drained: node.drained,
            ..NodeView::default()
        });
        Ok(())
    }

    fn forget(&self, name: &NodeName) {
        self.world().views.retain(|view| view.name != *name);
    }

    fn nodes(&self) -> Vec<NodeView> {
        let world = self.world();
        let seen = |view: &NodeView| NodeView { online: !world.silent.contains(&view.name), ..view.clone() };
        world.views.iter().map(seen).collect()
    }

    fn check_mountpoint(&self, path: &Path) -> Result<PathBuf, ApiError> {
        Ok(path.to_owned())
    }

    async fn ensure_nodes(&self, names: &[NodeName]) -> Result<Vec<StorageAddress>, ApiError> {
        let address = |name: &NodeName| StorageAddress {
            node: name.clone(),
            tcp: format!("{name}:1"),
            unix: Some(format!("/run/{name}").into()),
        };
        self.call("ensure_nodes".into(), |_| Ok(names.iter().map(address).collect())).await
    }

    async fn stop_nodes(&self) -> Result<(), ApiError> {
        self.world().stopped = true;
        Ok(())
    }

    fn remove_mount_folder(&self, _token: &Token) {}
}

impl NodeApi for MemorySite {
    async fn health(&self, node: &NodeName) -> Answer<NodeHealth> {
        let world = self.world();
        if let Some(said) = world.healths.get(node) {
            return Ok(said.clone());
        }
        if world.silent.contains(node) {
            return Err(silent(node));
        }
        let seen = world.views.iter().find(|view| view.name == *node).and_then(|view| view.health.clone());
        let mut fragments = seen.as_ref().map(|seen| seen.fragments.clone()).unwrap_or_default();
        for ((_, id), spec) in world.fragments.iter().filter(|((name, _), _)| name == node) {
            if fragments.iter().all(|known| known.instance != *id) {
                fragments.push(status(id, spec));
            }
        }
        if let Some(seen) = seen {
            return Ok(NodeHealth { fragments, ..seen });
        }
        Ok(NodeHealth {
            name: node.clone(),
            pid: 1,
            data: StorageAddress { node: node.clone(), tcp: String::new(), unix: None },
            fragments,
            mounts: world.mounts.values().map(|spec| mounted(spec, world.interruptions)).collect(),
            stages: Vec::new(),
            local: Some(LocalSpace { allocated_bytes: 0, free_bytes: world.local_bytes }),
            knows: [ROOT_SQUASH, ENCRYPT].map(str::to_owned).into(),
        })
    }

    async fn create_fragment(&self, node: &NodeName, spec: &FragmentSpec) -> Answer<FragmentStatus> {
        let effect = |world: &mut World| {
            if world.starting > 0 {
                world.starting -= 1;
                return Err(site(ErrorCode::FragmentStarting, "still starting", "try again"));
            }
            let key = (node.to_owned(), spec.instance.clone());
            if spec.missing == Missing::Refused && !world.fragments.contains_key(&key) {
                return Err(site(ErrorCode::NoSuchFragment, "there is none", "mount its disk"));
            }
            let known = world.fragments.entry(key).or_insert_with(|| spec.clone());
            *known = taken(known, spec)?;
            Ok(status(&spec.instance, known))
        };
        self.call_node(node, format!("create_fragment {node}"), effect).await
    }

    async fn note_moved(&self, node: &NodeName, instance: &InstanceId, moved: &Moved) -> Answer<()> {
        let call = format!("note_moved {node} {instance} {} {}", moved.fragment, moved.address.node);
        self.call_node(node, call, |_| Ok(())).await
    }

    async fn delete_fragment(&self, node: &NodeName, instance: &InstanceId) -> Answer<()> {
        let key = (node.to_owned(), instance.to_owned());
        let effect = |world: &mut World| {
            if world.fragments.get(&key).is_some_and(|fragment| fragment.key == ANOTHERS) {
                return Ok(());
            }
            world.fragments.remove(&key);
            Ok(())
        };
        self.call_node(node, format!("delete_fragment {node}"), effect).await
    }

    async fn scrub(&self, node: &NodeName, _: &InstanceId, _: Option<ScrubSpec>) -> Answer<ScrubStatus> {
        self.call_node(node, format!("scrub {node}"), |_| Ok(ScrubStatus::default())).await
    }

    async fn paths(
        &self,
        node: &NodeName,
        _instance: &InstanceId,
        inos: &[(u32, model::Ino)],
    ) -> Answer<Vec<Option<String>>> {
        self.call_node(node, format!("paths {node}"), |_| Ok(vec![None; inos.len()])).await
    }

    async fn fsck(&self, node: &NodeName, _instance: &InstanceId, _spec: FsckSpec) -> Answer<FsckReport> {
        self.call_node(node, format!("fsck {node}"), |_| Ok(FsckReport::default())).await
    }

    async fn files_on(&self, node: &NodeName, _: &InstanceId, _: model::FragmentIndex) -> Answer<PartFiles> {
        self.call_node(node, format!("files_on {node}"), |_| Ok(PartFiles::default())).await
    }

    async fn mount(&self, node: &NodeName, spec: &MountSpec) -> Answer<MountStatus> {
        let key = self.key(node, &spec.id);
        let effect = |world: &mut World| {
            let known = world.mounts.entry(key.clone()).or_insert_with(|| spec.clone());
            assert_eq!(known, spec, "a repeated request is the same request");
            Ok(mounted(spec, world.interruptions))
        };
        self.call_node(node, format!("mount {key}"), effect).await
    }

    async fn unmount(&self, node: &NodeName, id: &str, how: Unmount) -> Answer<()> {
        let key = self.key(node, id);
        let effect = |world: &mut World| {
            world.mounts.remove(&key);
            Ok(())
        };
        self.call_node(node, format!("unmount {key} {how:?}"), effect).await
    }

    async fn share_mount(&self, node: &NodeName, id: &str) -> Answer<()> {
        let key = self.key(node, id);
        self.call_node(node, format!("share_mount {key}"), |_| Ok(())).await
    }

    async fn renew_mount(&self, node: &NodeName, id: &str, credential: &Credential) -> Answer<()> {
        let key = self.key(node, id);
        let effect = |world: &mut World| {
            let known =
                world.mounts.get_mut(&key).ok_or_else(|| user(ErrorCode::NoSuchMount, "none", "mount"))?;
            known.target.credential = Some(credential.clone());
            Ok(())
        };
        self.call_node(node, format!("renew_mount {key}"), effect).await
    }

    async fn start_stage(&self, node: &NodeName, spec: &StageSpec) -> Answer<StageStatus> {
        let effect = |world: &mut World| {
            let status = outcome(world, spec);
            Ok(world.stages.entry(spec.id.clone()).or_insert(status).clone())
        };
        self.call_node(node, format!("start_stage {}", spec.id), effect).await
    }

    async fn retry_stage(&self, node: &NodeName, spec: &StageSpec) -> Answer<StageStatus> {
        let effect = |world: &mut World| {
            let status = outcome(world, spec);
            world.stages.insert(spec.id.clone(), status.clone());
            Ok(status)
        };
        self.call_node(node, format!("retry_stage {}", spec.id), effect).await
    }

    async fn stage(&self, _node: &NodeName, id: &str) -> Answer<StageStatus> {
        let unknown = || user(ErrorCode::NoSuchStage, "not known", "start it");
        self.call(format!("stage {id}"), |world| world.stages.get(id).cloned().ok_or_else(unknown)).await
    }

    async fn delete_stage(&self, node: &NodeName, id: &str) -> Answer<()> {
        let effect = |world: &mut World| {
            world.stages.remove(id);
            Ok(())
        };
        while self.world().unstoppable.contains(id) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        self.call_node(node, format!("delete_stage {id}"), effect).await
    }

    async fn pfs_mounts(&self, _node: &NodeName, paths: &[PathBuf]) -> Answer<Vec<Option<PfsMount>>> {
        let mount = |path: &PathBuf| PfsMount {
            path: path.clone(),
            mountpoint: "/pfs".into(),
            kind: "lustre".into(),
        };
        Ok(paths.iter().map(mount).map(Some).collect())
    }

    async fn create_local(&self, node: &NodeName, spec: &LocalSpec) -> Answer<LocalStatus> {
        let key = (node.to_owned(), spec.id.clone());
        let effect = |world: &mut World| {
            if spec.capacity_bytes.is_some_and(|bytes| bytes > world.local_bytes) {
                return Err(user(ErrorCode::NoRoom, "too large for this node", "test again"));
            }
            let (known, released) = world.locals.entry(key.clone()).or_insert_with(|| (spec.clone(), false));
            assert_eq!((&*known, *released), (spec, false), "a repeated request is the same request");
            Ok(local_status(spec, false))
        };
        self.call_node(node, format!("create_local {node}"), effect).await
    }

    async fn locals(&self, node: &NodeName) -> Answer<Vec<LocalStatus>> {
        let of_node = |world: &mut World| {
            let unread = world.failing.contains(node.as_str());
            let all = world.locals.iter().filter(|((at, _), _)| at == node && !unread);
            Ok(all.map(|(_, (spec, released))| local_status(spec, *released)).collect())
        };
        self.call_node(node, format!("locals {node}"), of_node).await
    }

    async fn release_local(&self, node: &NodeName, id: &str, how: Release) -> Answer<()> {
        let key = (node.to_owned(), id.to_owned());
        let effect = |world: &mut World| {
            if world.failing.contains(node.as_str()) {
                return Err(site(ErrorCode::NodeDisk, "the note of the volume cannot be read", "test again"));
            }
            // One whose drain hangs stays, until it is given up.
            let hangs = |spec: &LocalSpec| {
                let to = spec.drain.as_ref().map(|drain| drain.to.display().to_string());
                how == Release::Drained && to.is_some_and(|to| world.hanging.contains(&to))
            };
            if world.locals.get(&key).is_some_and(|(spec, _)| hangs(spec)) {
                world.locals.entry(key).and_modify(|(_, released)| *released = true);
            } else {
                world.locals.remove(&key);
            }
            Ok(())
        };
        self.call_node(node, format!("release_local {node} {how:?}"), effect).await
    }
}
