//! The storage role: every fragment of this node, and the threads that serve them.

use std::collections::HashMap;
use std::io;
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, RwLock};
use std::time::{Duration, Instant};

use wire::control::{ApiError, Blame, VolumeKind};
use wire::data::Stream;
use wire::node::{FragmentSpec, FragmentStatus};

use crate::fragment::{Fragment, FragmentError, volume};
use crate::serve::serve;
use crate::shard::log::disk::sync_folder;

/// Connections at once, each with a thread and up to 1 MiB of buffer. One more is not accepted until another ends.
const CONNECTIONS_MAX: usize = 1024;

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

/// Runs a mover of a stage on a connection, for the fragment with this specification on disk and a namespace of it; returns
/// when the mover has ended.
pub type RunMover = dyn Fn(OwnedFd, &Path, u32) -> io::Result<()> + Send + Sync;

/// The storage role of one node.
pub struct Server {
    root: PathBuf,
    node: String,
    boot: u64,
    fragments: RwLock<HashMap<String, Slot>>,
    /// Making and deleting fragments is done one at a time.
    changing: Mutex<()>,
    connections: AtomicUsize,
    stopping: AtomicBool,
    listeners: Mutex<Vec<OwnedFd>>,
    run_mover: OnceLock<Box<RunMover>>,
}

enum Slot {
    Served(Arc<Fragment>),
    /// It cannot be served; its bytes are untouched.
    Broken(FragmentStatus),
}

impl Server {
    /// Opens the fragments that are kept below `root`. One that cannot be served says so in its status.
    ///
    /// # Errors
    /// [`OpenError`] when `root` itself cannot be used.
    pub fn open(root: PathBuf, node_name: String) -> Result<Arc<Server>, OpenError> {
        let failed = |operation, source| OpenError { operation, path: root.clone(), source };
        raise_descriptor_limit();
        std::fs::create_dir_all(&root).map_err(|e| failed("create", e))?;
        let mut boot = [0; 8];
        getrandom::fill(&mut boot).map_err(|e| failed("draw random numbers for", io::Error::other(e)))?;
        let server = Server {
            root: root.clone(),
            node: node_name,
            boot: u64::from_le_bytes(boot),
            fragments: RwLock::default(),
            changing: Mutex::default(),
            connections: AtomicUsize::new(0),
            stopping: AtomicBool::new(false),
            listeners: Mutex::default(),
            run_mover: OnceLock::new(),
        };
        for entry in std::fs::read_dir(&root).map_err(|e| failed("list", e))? {
            let folder = entry.map_err(|e| failed("list", e))?.path();
            if let Some(spec) = read_spec(&folder) {
                server.load(&folder, spec);
            }
        }
        Ok(Arc::new(server))
    }

    /// Serves the data path on these sockets, with a thread for each connection.
    ///
    /// # Errors
    /// The errno of what the system refused; sockets that fail later are logged.
    pub fn listen(self: &Arc<Server>, tcp: TcpListener, unix: UnixListener) -> io::Result<()> {
        self.listeners.lock().expect(POISON).extend([tcp.try_clone()?.into(), unix.try_clone()?.into()]);
        let accept_tcp = move || {
            let (stream, _) = tcp.accept()?;
            Stream::tcp(stream)
        };
        let accept_unix = move || unix.accept().map(|(stream, _)| Stream::Unix(stream));
        let server = self.clone();
        thread("accept-tcp", move || server.accept_all(accept_tcp))?;
        let server = self.clone();
        thread("accept-unix", move || server.accept_all(accept_unix))
    }

    /// Lets stages have movers started here. The first call counts.
    pub fn run_movers_with(&self, run: Box<RunMover>) {
        let _set = self.run_mover.set(run);
    }

    /// What runs movers, and where the specification of an instance's fragment is on disk.
    pub(crate) fn mover(&self, instance: &str) -> Option<(&RunMover, PathBuf)> {
        Some((&**self.run_mover.get()?, self.folder(instance).ok()?.join("spec.json")))
    }

    /// Makes a fragment, or confirms the one that is there, with the namespaces that it does not have yet.
    ///
    /// # Errors
    /// Blames the site: no space, no privilege, no tool. Nothing is left behind.
    pub fn create_fragment(&self, spec: &FragmentSpec) -> Result<FragmentStatus, ApiError> {
        let _alone = self.changing.lock().expect(POISON);
        let folder = self.folder(&spec.instance)?;
        if let Some(fragment) = self.fragment(&spec.instance) {
            self.extend(&folder, &fragment, spec)?;
        }
        if let Some(status) = self.status_of(&spec.instance) {
            return Ok(status);
        }
        self.check_space(spec)?;
        let made = std::fs::create_dir_all(&folder)
            .map_err(|cause| FragmentError::Io { operation: "create", path: folder.clone(), cause })
            .and_then(|()| Fragment::open(&folder, spec.clone()))
            .and_then(|fragment| write_spec(&folder, spec).map(|()| fragment));
        match made {
            Ok(fragment) => {
                let status = fragment.status();
                self.slots().insert(spec.instance.clone(), Slot::Served(Arc::new(fragment)));
                Ok(status)
            }
            Err(error) => {
                // What is left behind would only be found again; the error that matters is the first.
                let _removed = volume::remove(&folder).map(|()| std::fs::remove_dir_all(&folder));
                Err(self.cannot("fragment_not_created", "create", &spec.instance, &error))
            }
        }
    }

    /// Removes a fragment with all its data. Nothing to do where there is none.
    ///
    /// # Errors
    /// Blames the site when files cannot be removed; calling again goes on.
    pub fn delete_fragment(&self, instance: &str) -> Result<(), ApiError> {
        let _alone = self.changing.lock().expect(POISON);
        let folder = self.folder(instance)?;
        if let Some(Slot::Served(fragment)) = self.slots().remove(instance) {
            fragment.close();
        }
        if !folder.exists() {
            return Ok(());
        }
        // The specification goes first: a node that is killed now does not serve what is half gone.
        let _absent = std::fs::remove_file(folder.join("spec.json"));
        volume::remove(&folder)
            .map_err(FragmentError::from)
            .and_then(|()| {
                std::fs::remove_dir_all(&folder).map_err(|cause| FragmentError::Io {
                    operation: "remove",
                    path: folder.clone(),
                    cause,
                })
            })
            .map_err(|error| self.cannot("fragment_not_removed", "remove", instance, &error))
    }

    /// What every fragment says of itself.
    pub fn fragments(&self) -> Vec<FragmentStatus> {
        self.fragments.read().expect(POISON).values().map(Slot::status).collect()
    }

    /// Stops listening, ends every connection, and unmounts volumes; the fragments stay for the next start.
    pub fn shutdown(&self) {
        self.stopping.store(true, Ordering::Release);
        for listener in std::mem::take(&mut *self.listeners.lock().expect(POISON)) {
            // Wakes the thread that waits for a connection; it sees that we stop.
            let _closed = rustix::net::shutdown(listener, rustix::net::Shutdown::Both);
        }
        let slots = std::mem::take(&mut *self.slots());
        for (instance, slot) in slots {
            let Slot::Served(fragment) = slot else { continue };
            fragment.close();
            let is_volume = fragment.spec().volume == VolumeKind::Image;
            drop(fragment);
            if is_volume {
                self.close_volume(&instance);
            }
        }
    }

    /// Unmounts a volume. Threads whose connection was ended hold its files for a moment more; a mount of a job, for as
    /// long as it lives.
    fn close_volume(&self, instance: &str) {
        let give_up = Instant::now() + CLOSE_LIMIT;
        while let Err(error) = volume::close(&self.root.join(instance)) {
            if Instant::now() > give_up {
                // The next start finds it mounted and goes on.
                tracing::warn!(instance, %error, "the fragment's volume stays mounted");
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    pub(crate) fn boot(&self) -> u64 {
        self.boot
    }

    pub(crate) fn fragment(&self, instance: &str) -> Option<Arc<Fragment>> {
        match self.fragments.read().expect(POISON).get(instance)? {
            Slot::Served(fragment) => Some(fragment.clone()),
            Slot::Broken(_) => None,
        }
    }

    fn accept_all(self: &Arc<Server>, accept: impl Fn() -> io::Result<Stream>) {
        while !self.stopping.load(Ordering::Acquire) {
            match accept() {
                Ok(stream) => self.accepted(stream),
                Err(_) if self.stopping.load(Ordering::Acquire) => {}
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a connection");
                    // Out of descriptors, most likely: a moment later some are free again.
                    std::thread::sleep(std::time::Duration::from_millis(50));
                }
            }
        }
    }

    fn accepted(self: &Arc<Server>, stream: Stream) {
        if self.connections.fetch_add(1, Ordering::AcqRel) >= CONNECTIONS_MAX {
            self.connections.fetch_sub(1, Ordering::AcqRel);
            tracing::warn!(limit = CONNECTIONS_MAX, "refused a connection past the limit");
            return;
        }
        let place = Place(self.clone());
        if let Err(error) = thread("data", move || serve(&place.0, stream)) {
            tracing::warn!(%error, "no thread for a connection");
        }
    }

    fn load(&self, folder: &Path, spec: FragmentSpec) {
        let instance = spec.instance.clone();
        let slot = match Fragment::open(folder, spec.clone()) {
            Ok(fragment) => Slot::Served(Arc::new(fragment)),
            Err(error) => {
                tracing::error!(
                    instance,
                    error = &error as &dyn std::error::Error,
                    "cannot serve a fragment"
                );
                Slot::Broken(FragmentStatus {
                    instance: spec.instance,
                    index: spec.index,
                    capacity_bytes: spec.capacity_bytes,
                    used_bytes: 0,
                    error: Some(error.to_string()),
                })
            }
        };
        self.slots().insert(instance, slot);
    }

    /// Adds namespaces to a fragment that is served. Kept first: what a client was told of must be there after a restart.
    fn extend(&self, folder: &Path, fragment: &Fragment, spec: &FragmentSpec) -> Result<(), ApiError> {
        if spec.namespaces.iter().all(|namespace| fragment.namespace(namespace.id).is_some()) {
            return Ok(());
        }
        let kept = read_spec(folder).unwrap_or_else(|| fragment.spec().clone());
        let mut namespaces = kept.namespaces;
        for namespace in &spec.namespaces {
            if namespaces.iter().all(|known| known.id != namespace.id) {
                namespaces.push(namespace.clone());
            }
        }
        let more = FragmentSpec { namespaces, ..fragment.spec().clone() };
        write_spec(folder, &more)
            .and_then(|()| fragment.add(&more.namespaces))
            .map_err(|error| self.cannot("namespace_not_added", "extend", &spec.instance, &error))
    }

    fn status_of(&self, instance: &str) -> Option<FragmentStatus> {
        self.fragments.read().expect(POISON).get(instance).map(Slot::status)
    }

    fn slots(&self) -> std::sync::RwLockWriteGuard<'_, HashMap<String, Slot>> {
        self.fragments.write().expect(POISON)
    }

    fn folder(&self, instance: &str) -> Result<PathBuf, ApiError> {
        let plain = !instance.is_empty() && instance.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
        plain.then(|| self.root.join(instance)).ok_or_else(|| ApiError {
            code: "bad_instance_id".into(),
            blame: Blame::Forebay,
            message: format!("{instance:?} is no instance id"),
            advice: "report this".into(),
        })
    }

    fn check_space(&self, spec: &FragmentSpec) -> Result<(), ApiError> {
        let Ok(stat) = rustix::fs::statvfs(&self.root) else { return Ok(()) };
        let available = stat.f_bavail * stat.f_frsize;
        if available >= spec.capacity_bytes {
            return Ok(());
        }
        Err(ApiError {
            code: "no_space".into(),
            blame: Blame::Site,
            message: format!(
                "node {} has {available} bytes free below {}, the buffer's part there needs {}",
                self.node,
                self.root.display(),
                spec.capacity_bytes
            ),
            advice: "ask for less capacity, free some space, or choose another folder with --dir".into(),
        })
    }

    fn cannot(&self, code: &str, verb: &str, instance: &str, error: &FragmentError) -> ApiError {
        ApiError {
            code: code.into(),
            blame: Blame::Site,
            message: format!("node {} cannot {verb} its part of {instance}: {error}", self.node),
            advice: "mend what the message names, then try again".into(),
        }
    }
}

/// One of the connections that a node takes at once, until it is dropped.
struct Place(Arc<Server>);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.connections.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Slot {
    fn status(&self) -> FragmentStatus {
        match self {
            Slot::Served(fragment) => fragment.status(),
            Slot::Broken(status) => status.clone(),
        }
    }
}

const POISON: &str = "no thread panics while it holds the list of fragments";

fn thread(name: &str, body: impl FnOnce() + Send + 'static) -> io::Result<()> {
    std::thread::Builder::new().name(name.into()).spawn(body).map(drop)
}

fn read_spec(folder: &Path) -> Option<FragmentSpec> {
    serde_json::from_slice(&std::fs::read(folder.join("spec.json")).ok()?).ok()
}

/// Keeps the specification for the next start. Written last: a folder without it is no fragment.
fn write_spec(folder: &Path, spec: &FragmentSpec) -> Result<(), FragmentError> {
    use std::os::unix::fs::OpenOptionsExt;
    let (path, temporary) = (folder.join("spec.json"), folder.join("spec.json.new"));
    let failed = |cause| FragmentError::Io { operation: "write", path: path.clone(), cause };
    let text = serde_json::to_vec_pretty(spec).map_err(|e| failed(e.into()))?;
    // It has the instance's key: for the owner's eyes only.
    let file =
        std::fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&temporary);
    let mut file = file.map_err(failed)?;
    io::Write::write_all(&mut file, &text).and_then(|()| file.sync_all()).map_err(failed)?;
    std::fs::rename(&temporary, &path).and_then(|()| sync_folder(&path)).map_err(failed)
}

/// Objects are kept open: 65,536 descriptors where the system lets us, or as many as it does.
fn raise_descriptor_limit() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = Some(limit.maximum.unwrap_or(65_536).min(65_536));
    if let Err(error) = setrlimit(Resource::Nofile, limit) {
        tracing::warn!(%error, "cannot raise the limit of open files");
    }
}

#[cfg(test)]
mod tests {
    use model::stripe::Layout;
    use wire::control::Owner;
    use wire::node::NamespaceSpec;

    use super::*;

    fn spec(namespaces: &[u32]) -> FragmentSpec {
        let namespace = |id: &u32| NamespaceSpec {
            id: *id,
            layout: Layout::striped(1),
            home: 0,
            owner: Owner { uid: 0, gid: 0 },
            mode: 0o700,
        };
        FragmentSpec {
            instance: "i1".into(),
            index: 0,
            capacity_bytes: 1 << 20,
            volume: VolumeKind::Directory,
            key: "ab".repeat(32),
            stage_key: String::new(),
            peers: Vec::new(),
            namespaces: namespaces.iter().map(namespace).collect(),
            grace_ms: wire::node::GRACE_MS,
        }
    }

    #[test]
    fn namespaces_are_added_to_a_fragment_and_are_there_after_a_restart() {
        let dir = tempfile::tempdir().unwrap();
        let has = |server: &Server| {
            let fragment = server.fragment("i1").unwrap();
            [0, 16, 17].map(|id| fragment.namespace(id).is_some_and(|namespace| namespace.shard.is_some()))
        };
        let server = Server::open(dir.path().into(), "n0".into()).unwrap();
        server.create_fragment(&spec(&[0])).unwrap();
        assert_eq!(has(&server), [true, false, false]);
        server.create_fragment(&spec(&[0, 16])).unwrap();
        server.create_fragment(&spec(&[0, 17])).unwrap();
        assert_eq!(has(&server), [true, true, true]);
        server.shutdown();
        let server = Server::open(dir.path().into(), "n0".into()).unwrap();
        assert_eq!(has(&server), [true, true, true]);
    }
}
