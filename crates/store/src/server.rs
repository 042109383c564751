//! The storage role: every fragment of this node. How fragments come and go is in [`changes`]. Who serves their
//! connections is above this.
//!
//! **Invariant:** a fragment whose connections are served has a slot that says so.

mod changes;
mod errors;
mod extend;
mod foreign;
mod heard;
mod lacking;
pub(crate) mod places;
mod rekey;
mod replaced;
mod room;
mod slot;
mod standstill;
mod starting;

use std::collections::HashMap;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, RwLock};
use std::time::{Duration, Instant};

use model::{FragmentIndex, Ino, InstanceId, NodeName};
use wire::control::{ApiError, Blame, ErrorCode, VolumeKind};
use wire::node::{FragmentStatus, FsckReport, FsckSpec, PartFiles, ScrubSpec, ScrubStatus};

use crate::copies::Copies;
use crate::descriptors::Shares;
use crate::fragment::{Fragment, fsck, specification, volume};
use crate::verifier::{Verifier, sync_file_system};
use slot::Slot;
use standstill::Pulse;

/// How long a node that stops waits for the files of a volume to be closed.
const CLOSE_LIMIT: Duration = Duration::from_secs(3);

/// Why the storage role cannot start.
#[derive(Debug, thiserror::Error)]
#[error("{operation} {path}")]
pub struct OpenError {
    operation: &'static str,
    path: PathBuf,
    source: io::Error,
}

/// Runs a mover of a stage on a connection, for the fragment with this specification on disk and a namespace of it;
/// returns when the mover has ended.
pub type RunMover = dyn Fn(OwnedFd, &Path, u32) -> io::Result<()> + Send + Sync;

/// The storage role of one node.
pub struct Server {
    root: PathBuf,
    node: NodeName,
    boot: u64,
    fragments: RwLock<HashMap<InstanceId, Slot>>,
    /// The copies of other nodes' metadata logs, by instance: also of fragments that are not served.
    copies: RwLock<HashMap<InstanceId, Arc<Copies>>>,
    /// Fragments come into use and go out of it one at a time.
    changing: Mutex<foreign::Foreign>,
    /// What is out of use is removed one at a time, beside that; taken before `changing`.
    removing: Mutex<()>,
    pub(crate) places: Arc<places::Places>,
    stopping: AtomicBool,
    listeners: Mutex<Vec<OwnedFd>>,
    run_mover: OnceLock<Box<RunMover>>,
    missed: lacking::Missed,
    heard: heard::Heard,
    pub(crate) pulse: Pulse,
}

impl Server {
    /// Opens the fragments that are kept below `root`. One that cannot be served says so in its status.
    ///
    /// # Errors
    /// [`OpenError`] when `root` itself cannot be used.
    pub fn open(root: PathBuf, node_name: NodeName) -> Result<Arc<Server>, OpenError> {
        Server::open_with(root, node_name, Server::load)
    }

    fn open_with(
        root: PathBuf,
        node_name: NodeName,
        load: impl Fn(&Arc<Server>, &Path),
    ) -> Result<Arc<Server>, OpenError> {
        let failed = |operation, source| OpenError { operation, path: root.clone(), source };
        let shares = Shares::now();
        shares.warn();
        std::fs::create_dir_all(&root).map_err(|e| failed("create", e))?;
        let mut boot = [0; 8];
        getrandom::fill(&mut boot).map_err(|e| failed("draw random numbers for", io::Error::other(e)))?;
        let server = Server {
            root: root.clone(),
            node: node_name,
            boot: u64::from_le_bytes(boot),
            fragments: RwLock::default(),
            copies: RwLock::default(),
            changing: Mutex::default(),
            removing: Mutex::default(),
            places: places::Places::new(&shares),
            stopping: AtomicBool::new(false),
            listeners: Mutex::default(),
            run_mover: OnceLock::new(),
            missed: lacking::Missed::default(),
            heard: heard::Heard::default(),
            pulse: Pulse::begin(),
        };
        let found = disk::names(&root).map_err(|e| failed("list", e))?;
        let server = Arc::new(server);
        server.watch_pulse().map_err(|e| failed("start the thread that notes that the node runs, for", e))?;
        server.take_up(found, load);
        Ok(server)
    }

    /// Lets stages have movers started here. The first call counts.
    pub fn run_movers_with(&self, run: Box<RunMover>) {
        let _set = self.run_mover.set(run);
    }

    /// What runs movers, and where the specification of an instance's fragment is on disk.
    pub(crate) fn mover(&self, instance: &InstanceId) -> Option<(&RunMover, PathBuf)> {
        Some((&**self.run_mover.get()?, specification::path_of(&self.folder(instance).ok()?)))
    }

    /// What every fragment says of itself.
    pub fn fragments(&self) -> Vec<FragmentStatus> {
        self.fragments.read().expect(POISON).values().map(Slot::status).collect()
    }

    /// Starts a scrub of a fragment, or tells how the one stands that runs.
    ///
    /// # Errors
    /// Blames the user where there is no such fragment.
    pub fn scrub(&self, instance: &InstanceId, spec: Option<ScrubSpec>) -> Result<ScrubStatus, ApiError> {
        self.known(instance).map(|fragment| fsck::scrub(&fragment, spec))
    }

    /// The paths of inodes whose namespaces have their home here.
    ///
    /// # Errors
    /// As [`Server::scrub`].
    pub fn paths(&self, instance: &InstanceId, inos: &[(u32, Ino)]) -> Result<Vec<Option<String>>, ApiError> {
        self.known(instance).map(|fragment| fsck::paths(&fragment, inos))
    }

    /// Compares the metadata that is here with the objects of all fragments.
    ///
    /// # Errors
    /// As [`Server::scrub`].
    pub fn fsck(&self, instance: &InstanceId, spec: FsckSpec) -> Result<FsckReport, ApiError> {
        self.known(instance).map(|fragment| fsck::run(&fragment, spec))
    }

    /// Files that should have data in a fragment of an instance, of the namespaces that have their home here.
    ///
    /// # Errors
    /// As [`Server::scrub`].
    pub fn files_on(&self, instance: &InstanceId, index: FragmentIndex) -> Result<PartFiles, ApiError> {
        self.known(instance).map(|fragment| fsck::files_on(&fragment, index))
    }

    /// Control knows of these doubts about copies of what a fragment has; see [`FragmentStatus::doubts`].
    pub fn hear(&self, instance: &InstanceId, doubts: &[u64]) {
        self.fragment(instance).iter().for_each(|fragment| fragment.hear(doubts));
    }

    /// The fragment; waits for one that starts.
    fn known(&self, instance: &InstanceId) -> Result<Arc<Fragment>, ApiError> {
        if !self.wait_until_started(instance, changes::START_MAX) {
            return Err(self.starting(instance));
        }
        self.fragment(instance).ok_or_else(|| match self.status_of(instance) {
            Some(FragmentStatus { error: Some(why), advice, .. }) => self.broken(instance, &why, advice),
            _ => self.lacking(instance),
        })
    }

    /// Stops listening, ends every connection, syncs everything and unmounts volumes; the fragments stay for the next
    /// start.
    pub fn shutdown(&self) {
        self.stopping.store(true, Ordering::Release);
        for listener in std::mem::take(&mut *self.listeners.lock().expect(POISON)) {
            // Wakes the thread that waits for a connection; it sees that we stop.
            let _closed = rustix::net::shutdown(listener, rustix::net::Shutdown::Both);
        }
        let copies = std::mem::take(&mut *self.copies.write().expect(POISON));
        copies.values().for_each(|copies| copies.close());
        let slots = std::mem::take(&mut *self.slots());
        for (instance, slot) in slots {
            let Slot::Served(fragment) = slot else { continue };
            fragment.close();
            let (volume, verifier) = (fragment.spec().volume, fragment.verifier().clone());
            drop(fragment);
            if let Err(error) = self.finish(&instance, volume, &verifier) {
                tracing::warn!(
                    ?instance,
                    %error,
                    "the fragment is not stopped cleanly: clients will take what they have not synced for lost if the machine or \
                     its file system is started anew before it is served again"
                );
            }
        }
    }

    /// These sockets are listened on: whoever waits for connections is woken when the node stops.
    pub(crate) fn listens_on(&self, sockets: [OwnedFd; 2]) {
        self.listeners.lock().expect(POISON).extend(sockets);
    }

    /// It serves nothing any more, and may be started again.
    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    /// Makes everything of a fragment that is not served any more survive a power loss, and notes that.
    fn finish(&self, instance: &InstanceId, volume: VolumeKind, verifier: &Verifier) -> io::Result<()> {
        let folder = self.root.join(instance);
        if volume == VolumeKind::Image {
            sync_file_system(&volume::mountpoint_of(&folder))?;
            if !self.close_volume(instance) {
                // Whoever holds its files may still write.
                return Err(io::ErrorKind::ResourceBusy.into());
            }
        }
        // Of a volume the image is here.
        sync_file_system(&folder)?;
        verifier.note_clean()
    }

    /// Unmounts a volume. Threads whose connection was ended hold its files for a moment more; a mount of a job, for as
    /// long as it lives. Returns whether it is unmounted.
    fn close_volume(&self, instance: &InstanceId) -> bool {
        let give_up = Instant::now() + CLOSE_LIMIT;
        while let Err(error) = volume::close(&self.root.join(instance)) {
            if Instant::now() > give_up {
                // The next start finds it mounted and goes on.
                tracing::warn!(?instance, %error, "the fragment's volume stays mounted");
                return false;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        true
    }

    pub(crate) fn boot(&self) -> u64 {
        self.boot
    }

    pub(crate) fn fragment(&self, instance: &InstanceId) -> Option<Arc<Fragment>> {
        match self.fragments.read().expect(POISON).get(instance)? {
            Slot::Served(fragment) => Some(fragment.clone()),
            _ => None,
        }
    }

    pub(crate) fn copies(&self, instance: &InstanceId) -> Option<Arc<Copies>> {
        self.copies.read().expect(POISON).get(instance).cloned()
    }

    /// Whether it is not known yet whether the fragment can be served.
    pub(crate) fn is_starting(&self, instance: &InstanceId) -> bool {
        matches!(self.fragments.read().expect(POISON).get(instance), Some(Slot::Starting(_)))
    }

    fn status_of(&self, instance: &InstanceId) -> Option<FragmentStatus> {
        self.fragments.read().expect(POISON).get(instance).map(Slot::status)
    }

    fn slots(&self) -> std::sync::RwLockWriteGuard<'_, HashMap<InstanceId, Slot>> {
        self.fragments.write().expect(POISON)
    }

    fn folder(&self, instance: &InstanceId) -> Result<PathBuf, ApiError> {
        instance.check().map(|()| self.root.join(instance)).map_err(|_| ApiError {
            code: ErrorCode::BadInstanceId,
            blame: Blame::Forebay,
            message: format!("{instance:?} is not an instance id"),
            advice: "report this".into(),
        })
    }
}

const POISON: &str = "no thread panics while it holds the list of fragments";

/// Starts a thread that nobody waits for.
pub(crate) fn thread(name: &str, body: impl FnOnce() + Send + 'static) -> io::Result<()> {
    std::thread::Builder::new().name(name.into()).spawn(body).map(drop)
}

#[cfg(test)]
mod tests;
