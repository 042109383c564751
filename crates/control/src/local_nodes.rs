//! The nodes of the embedded mode: control starts them, watches them, and starts them again.
//!
//! A node outlives control. The next control finds it over its socket.
//!
//! ```text
//! Unknown --answers--> Online --socket refuses--> Dead --start--> Starting --answers--> Online
//!         --refuses--> Dead                                                --its process ends--> Dead (longer pause)
//! ```

mod supervisor;

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use daemon::client::Client;
use daemon::lock::LockError;
use model::NodeName;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use wire::control::ApiError;

use self::supervisor::{HEALTH_WITHIN, Seen, Supervisor};
use crate::advice::{absent, lingers};
use crate::last_words::LastWords;
use crate::site::NodeView;

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
    words: Arc<LastWords>,
    watched: Mutex<BTreeMap<NodeName, Watched>>,
}

/// One node's supervision.
struct Watched {
    seen: watch::Receiver<Seen>,
    stop: watch::Sender<bool>,
    task: JoinHandle<()>,
}

impl LocalNodes {
    /// The nodes below the state folder `folder`, and the `words` that they said before: those that run, and the first
    /// `needed`, are supervised at once. Must be called inside a tokio runtime.
    ///
    /// # Errors
    /// The node program or the folder is not there.
    pub(crate) fn open(folder: PathBuf, needed: u32, words: LastWords) -> io::Result<LocalNodes> {
        let program = daemon::spawn::sibling("forebay-node")?;
        std::fs::create_dir_all(folder.join("nodes"))?;
        std::fs::create_dir_all(folder.join("log"))?;
        let nodes = LocalNodes { folder, program, words: Arc::new(words), watched: Mutex::default() };
        for name in nodes.running()? {
            nodes.supervise(&name);
        }
        (0..needed).for_each(|index| nodes.supervise(&name_of(index)));
        Ok(nodes)
    }

    /// A client of one node.
    pub(crate) fn client(&self, name: &NodeName) -> Client {
        Client::new(socket(&self.folder, name))
    }

    /// Where a node's service logs.
    pub(crate) fn log(&self, name: &NodeName) -> PathBuf {
        self.folder.join("log").join(format!("{name}.log"))
    }

    /// What they said last.
    pub(crate) fn words(&self) -> &LastWords {
        &self.words
    }

    /// Every node as it was seen last.
    pub(crate) fn views(&self) -> Vec<NodeView> {
        self.lock().values().map(|watched| watched.seen.borrow().view.clone()).collect()
    }

    /// Waits until the nodes `names` run; starts those that do not.
    ///
    /// # Errors
    /// One does not come up: its last words.
    pub(crate) async fn ensure(&self, names: &[NodeName]) -> Result<(), ApiError> {
        names.iter().for_each(|name| self.supervise(name));
        for name in names {
            self.online(name).await?;
        }
        Ok(())
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
        let late = |name: &NodeName| lingers(&self.log(name), name);
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
    fn running(&self) -> io::Result<Vec<NodeName>> {
        let mut names = Vec::new();
        for entry in std::fs::read_dir(self.folder.join("nodes"))? {
            let name = NodeName::unchecked(entry?.file_name().to_string_lossy());
            if self.is_running(&name) {
                names.push(name);
            }
        }
        Ok(names)
    }

    /// A node's process holds its lock from start to end.
    fn is_running(&self, name: &NodeName) -> bool {
        let lock = self.folder.join("nodes").join(name).join("node.lock");
        matches!(daemon::lock::exclusive(&lock), Err(LockError::Held { .. }))
    }

    fn supervise(&self, name: &NodeName) {
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
            words: self.words.clone(),
            shown,
        };
        watched.insert(name.to_owned(), Watched { seen, stop, task: tokio::spawn(supervisor.run()) });
    }

    async fn online(&self, name: &NodeName) -> Result<(), ApiError> {
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
        if seen.view.online { Ok(()) } else { Err(absent(&why)) }
    }

    /// Asks a node to end until its lock is free, which its process holds to the end.
    async fn end(&self, name: &NodeName) {
        let client = self.client(name).with_timeout(HEALTH_WITHIN);
        while self.is_running(name) {
            // No reply: it is ending already.
            let _ = client.post::<_, serde_json::Value>("/v1/shutdown", &()).await;
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<NodeName, Watched>> {
        self.watched.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Node `n0`, `n1`, ….
pub(crate) fn name_of(index: u32) -> NodeName {
    NodeName::unchecked(format!("n{index}"))
}

/// A node's socket for control.
fn socket(folder: &Path, name: &NodeName) -> PathBuf {
    folder.join("nodes").join(name).join("node.sock")
}
