//! The nodes of the embedded mode: control starts them, watches them, and starts them again.
//!
//! A node outlives control. The next control finds it over its socket.
//!
//! ```text
//! Unknown --answers--> Online --socket refuses--> Dead --start--> Starting --answers--> Online
//!         --refuses--> Dead                                                --its process ends--> Dead (longer pause)
//! ```

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use api::CallError;
use daemon::client::Client;
use daemon::lock::LockError;
use daemon::logging::last_words;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use wire::control::ApiError;
use wire::node::{NodeHealth, StorageAddress};

use crate::advice::{absent, lingers};
use crate::site::NodeView;

/// How often a node is asked how it is: twice a second, so that a dead one is missed for a moment only.
const HEALTH_PERIOD: Duration = Duration::from_millis(500);

/// How long a node may take to say how it is. A busy machine is no dead node.
const HEALTH_WITHIN: Duration = Duration::from_secs(10);

/// Pauses before a node that did not come up is started again.
const BACK_OFF: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(10));

/// How often a node may fail to start before whoever waits for it is told.
const START_FAILURES_MAX: u32 = 3;

/// How long nodes may take to come up: fragments recover first.
const ONLINE_WITHIN: Duration = Duration::from_secs(120);

/// How long a node may take to end: its stage workers end first.
const END_WITHIN: Duration = Duration::from_secs(30);

/// Every node of this machine.
pub(crate) struct LocalNodes {
    folder: PathBuf,
    program: PathBuf,
    watched: Mutex<BTreeMap<String, Watched>>,
}

/// One node's supervision.
struct Watched {
    seen: watch::Receiver<Seen>,
    stop: watch::Sender<bool>,
    task: JoinHandle<()>,
}

/// What supervision knows.
#[derive(Clone, Debug, Default)]
struct Seen {
    view: NodeView,
    /// Starts in a row that did not come up.
    start_failures: u32,
}

impl LocalNodes {
    /// The nodes below the state folder `folder`: those that run, and the first `needed`, are supervised at once. Must
    /// be called inside a tokio runtime.
    ///
    /// # Errors
    /// The node program or the folder is not there.
    pub(crate) fn open(folder: PathBuf, needed: u32) -> io::Result<LocalNodes> {
        let program = daemon::spawn::sibling("forebay-node")?;
        std::fs::create_dir_all(folder.join("nodes"))?;
        std::fs::create_dir_all(folder.join("log"))?;
        let nodes = LocalNodes { folder, program, watched: Mutex::default() };
        for name in nodes.running()? {
            nodes.supervise(&name);
        }
        (0..needed).for_each(|index| nodes.supervise(&name_of(index)));
        Ok(nodes)
    }

    /// A client of one node.
    pub(crate) fn client(&self, name: &str) -> Client {
        Client::new(socket(&self.folder, name))
    }

    /// Where a node's service logs.
    pub(crate) fn log(&self, name: &str) -> PathBuf {
        self.folder.join("log").join(format!("{name}.log"))
    }

    /// Every node as it was seen last.
    pub(crate) fn views(&self) -> Vec<NodeView> {
        self.lock().values().map(|watched| watched.seen.borrow().view.clone()).collect()
    }

    /// Waits until the nodes `names` run; starts those that do not.
    ///
    /// # Errors
    /// One does not come up: its last words.
    pub(crate) async fn ensure(&self, names: &[String]) -> Result<Vec<StorageAddress>, ApiError> {
        names.iter().for_each(|name| self.supervise(name));
        let mut addresses = Vec::new();
        for name in names {
            addresses.push(self.online(name).await?.data);
        }
        Ok(addresses)
    }

    /// Ends the supervision, then every node, and waits until they are gone.
    ///
    /// # Errors
    /// One does not end. Whoever needs nodes after that gets them supervised again.
    pub(crate) async fn stop(&self) -> Result<(), ApiError> {
        let watched = std::mem::take(&mut *self.lock());
        for watched in watched.values() {
            watched.stop.send_replace(true);
        }
        let late = |name: &str| lingers(&self.log(name), name);
        let mut names = Vec::new();
        for (name, watched) in watched {
            // Not cut off: a node that it has just started must be known to run before it can be asked to end.
            let ended = tokio::time::timeout(END_WITHIN, watched.task).await;
            ended.map_err(|_| late(&name))?.ok();
            names.push(name);
        }
        for name in &names {
            tokio::time::timeout(END_WITHIN, self.end(name)).await.map_err(|_| late(name))?;
        }
        Ok(())
    }

    /// Nodes of an earlier life of control, also those that are still coming up.
    fn running(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in std::fs::read_dir(self.folder.join("nodes"))? {
            let name = entry?.file_name().to_string_lossy().into_owned();
            if self.is_running(&name) {
                names.push(name);
            }
        }
        Ok(names)
    }

    /// A node's process holds its lock from start to end.
    fn is_running(&self, name: &str) -> bool {
        let lock = self.folder.join("nodes").join(name).join("node.lock");
        matches!(daemon::lock::exclusive(&lock), Err(LockError::Held { .. }))
    }

    fn supervise(&self, name: &str) {
        let mut watched = self.lock();
        if watched.contains_key(name) {
            return;
        }
        let log = self.log(name);
        let view = NodeView { name: name.to_owned(), log: log.display().to_string(), ..NodeView::default() };
        let (shown, seen) = watch::channel(Seen { view, start_failures: 0 });
        let (stop, stopping) = watch::channel(false);
        let supervisor = Supervisor {
            stopping,
            name: name.to_owned(),
            client: self.client(name),
            program: self.program.clone(),
            folder: self.folder.join("nodes").join(name),
            log,
            shown,
        };
        watched.insert(name.to_owned(), Watched { seen, stop, task: tokio::spawn(supervisor.run()) });
    }

    async fn online(&self, name: &str) -> Result<NodeHealth, ApiError> {
        let absent = |why: &str| absent(&self.log(name), name, why);
        let seen = self.lock().get(name).map(|watched| watched.seen.clone());
        let Some(mut seen) = seen else { return Err(absent("it is being stopped")) };
        let settled = seen.wait_for(|seen| seen.view.online || seen.start_failures >= START_FAILURES_MAX);
        let seen = match tokio::time::timeout(ONLINE_WITHIN, settled).await {
            Ok(Ok(seen)) => seen.clone(),
            Ok(Err(_)) => return Err(absent("it is being stopped")),
            Err(_) => return Err(absent(&format!("no reply within {} s", ONLINE_WITHIN.as_secs()))),
        };
        let why = seen.view.last_error.unwrap_or_default();
        seen.view.health.filter(|_| seen.view.online).ok_or_else(|| absent(&why))
    }

    /// Asks a node to end until its lock is free, which its process holds to the end.
    async fn end(&self, name: &str) {
        let client = self.client(name).with_timeout(HEALTH_WITHIN);
        while self.is_running(name) {
            // No reply: it is ending already.
            let _ = client.post::<_, serde_json::Value>("/v1/shutdown", &()).await;
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Watched>> {
        self.watched.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Owns one node's process.
struct Supervisor {
    name: String,
    client: Client,
    program: PathBuf,
    folder: PathBuf,
    log: PathBuf,
    stopping: watch::Receiver<bool>,
    shown: watch::Sender<Seen>,
}

impl Supervisor {
    async fn run(self) {
        let mut pause = BACK_OFF.0;
        while !*self.stopping.borrow() {
            let asked = Instant::now();
            match health(&self.client).await {
                Ok(health) => {
                    self.show_online(asked, health);
                    pause = BACK_OFF.0;
                    self.rest(HEALTH_PERIOD).await;
                }
                Err(error) if is_dead(&error) => {
                    self.start().await;
                    self.rest(pause).await;
                    pause = (pause * 2).min(BACK_OFF.1);
                }
                Err(error) => {
                    self.show_offline(&error.reason());
                    self.rest(HEALTH_PERIOD).await;
                }
            }
        }
    }

    /// A pause that ends early when the supervision is to end.
    async fn rest(&self, pause: Duration) {
        let mut stopping = self.stopping.clone();
        let _ = tokio::time::timeout(pause, stopping.wait_for(|stop| *stop)).await;
    }

    /// Starts the process and waits until it answers or ends.
    async fn start(&self) {
        tracing::info!(node = self.name, "start node");
        let pid = match self.spawn() {
            Ok(pid) => pid,
            Err(error) => return self.show_not_started(&format!("start the node: {error}")),
        };
        // The spawner reaps it, so its folder in /proc goes when it ends.
        let process = PathBuf::from(format!("/proc/{pid}"));
        while disk::exists(&process).unwrap_or(true) {
            let asked = Instant::now();
            if let Ok(health) = health(&self.client).await {
                return self.show_online(asked, health);
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        self.show_not_started(&last_words(&self.log).unwrap_or_else(|| "it ended without a word".to_owned()));
    }

    fn spawn(&self) -> io::Result<u32> {
        let mut command = Command::new(&self.program);
        command.arg("--dir").arg(&self.folder).args(["--name", &self.name, "--roles", "storage,compute"]);
        daemon::spawn::detached(&mut command, &self.log)
    }

    fn show_online(&self, asked: Instant, health: NodeHealth) {
        self.shown.send_modify(|seen| {
            seen.start_failures = 0;
            (seen.view.online, seen.view.last_error) = (true, None);
            (seen.view.health, seen.view.asked) = (Some(health), Some(asked));
        });
    }

    fn show_offline(&self, reason: &str) {
        self.shown.send_modify(|seen| {
            if seen.view.online {
                tracing::warn!(node = self.name, reason, "node does not answer");
            }
            seen.view.online = false;
            seen.view.last_error = Some(reason.to_owned());
        });
    }

    fn show_not_started(&self, reason: &str) {
        tracing::error!(node = self.name, reason, "node does not start");
        self.show_offline(reason);
        self.shown.send_modify(|seen| seen.start_failures += 1);
    }
}

/// Node `n0`, `n1`, ….
pub(crate) fn name_of(index: u32) -> String {
    format!("n{index}")
}

/// A node's socket for control.
pub(crate) fn socket(folder: &Path, name: &str) -> PathBuf {
    folder.join("nodes").join(name).join("node.sock")
}

async fn health(client: &Client) -> Result<NodeHealth, CallError> {
    client.clone().with_timeout(HEALTH_WITHIN).get("/v1/health").await
}

/// Nobody listens. A node that is only slow keeps its socket.
fn is_dead(error: &CallError) -> bool {
    use io::ErrorKind::{ConnectionRefused, NotFound};
    matches!(error, CallError::Unreachable { cause, .. } if matches!(cause.kind(), ConnectionRefused | NotFound))
}
