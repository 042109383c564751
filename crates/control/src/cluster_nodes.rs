//! The nodes of a cluster: they register, control asks each one how it is.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use api::munge::{Munge, ServiceUser};
use daemon::client::Client;
use daemon::error::site;
use model::{InstanceId, NodeName};
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;
use wire::control::{ApiError, ErrorCode};
use wire::node::NodeHealth;

use crate::last_words::{LastWords, listen};
use crate::site::NodeView;
use crate::state::nodes::Known;

/// How often a node is asked how it is.
const HEALTH_PERIOD: Duration = Duration::from_secs(1);

/// How long a node may take to say how it is. A busy machine is no dead node.
const HEALTH_WITHIN: Duration = Duration::from_secs(10);

/// Every node that registered.
pub(crate) struct ClusterNodes {
    munge: Option<Munge>,
    watched: Mutex<BTreeMap<NodeName, Watched>>,
    words: Arc<LastWords>,
}

/// One node.
struct Watched {
    known: Known,
    client: Client,
    seen: watch::Receiver<Seen>,
    /// It is to be asked at once.
    again: Arc<Notify>,
    task: JoinHandle<()>,
}

/// What asking told.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    /// For people.
    pub online: bool,
    /// Why not, or the last thing that went wrong.
    pub last_error: Option<String>,
    /// What it said last.
    pub health: Option<NodeHealth>,
    /// When it was asked for that.
    pub asked: Option<Instant>,
    /// When it answered last; before that, when it was first known.
    pub answered: Instant,
}

impl ClusterNodes {
    /// No nodes yet. `munge` is for those on other machines, `words` are what they said before.
    pub(crate) fn new(munge: Option<Munge>, words: LastWords) -> ClusterNodes {
        ClusterNodes { munge, watched: Mutex::default(), words: Arc::new(words) }
    }

    /// Watches a node, or takes note of what changed.
    ///
    /// # Errors
    /// It is on another machine and there is no MUNGE here.
    pub(crate) fn admit(&self, known: Known) -> Result<(), ApiError> {
        let name = known.registration.name.clone();
        let mut watched = self.lock();
        if let Some(node) = watched.get_mut(&name)
            && node.known.registration.address == known.registration.address
        {
            node.known = known;
            return Ok(());
        }
        let client = self.client_of(&known)?;
        let (shown, seen) = watch::channel(Seen {
            online: false,
            last_error: Some("it was not asked yet".to_owned()),
            health: None,
            asked: None,
            answered: Instant::now(),
        });
        // Whoever answers at another address may be another node.
        if let Some(old) = watched.remove(&name) {
            old.task.abort();
            self.words.forget(&name);
        }
        let again = Arc::new(Notify::new());
        let told = (again.clone(), self.words.clone());
        let task = tokio::spawn(watch_node(name.clone(), client.clone(), shown, told));
        watched.insert(name, Watched { known, client, seen, again, task });
        Ok(())
    }

    /// Stops watching a node.
    pub(crate) fn forget(&self, name: &NodeName) {
        if let Some(node) = self.lock().remove(name) {
            node.task.abort();
            self.words.forget(name);
        }
    }

    /// What they said last.
    pub(crate) fn words(&self) -> &LastWords {
        &self.words
    }

    /// Whether it has said that nothing of an instance is on it alone: see [`crate::site::Site::is_proven`].
    pub(crate) fn is_proven(&self, node: &NodeName, instance: &InstanceId, term: u32) -> bool {
        let is_proven = self.words.is_proven(node, instance, term);
        if !is_proven && let Some(watched) = self.lock().get(node) {
            watched.again.notify_one();
        }
        is_proven
    }

    /// Every node as it was seen last.
    pub(crate) fn views(&self) -> Vec<NodeView> {
        self.lock().values().map(Watched::view).collect()
    }

    /// A client of a node, and what is seen of it.
    ///
    /// # Errors
    /// `no_such_node`.
    pub(crate) fn find(&self, name: &NodeName) -> Result<(Client, watch::Receiver<Seen>), ApiError> {
        let found = self.lock().get(name).map(|node| (node.client.clone(), node.seen.clone()));
        found.ok_or_else(|| {
            let message = format!("node {name} never registered with this control service");
            site(
                ErrorCode::NoSuchNode,
                message,
                "start forebay-node there, with its name and this control in its file",
            )
        })
    }

    fn client_of(&self, known: &Known) -> Result<Client, ApiError> {
        let node = &known.registration;
        if node.address.starts_with('/') {
            return Ok(Client::new(&node.address));
        }
        let munge = self.munge.clone().ok_or_else(|| {
            let message = format!("node {} is at {}, and this service has no MUNGE", node.name, node.address);
            site(ErrorCode::NoMunge, message, "install libmunge2 and run munged, then restart control")
        })?;
        Ok(Client::over_tcp(&node.address, node.name.as_str(), munge, ServiceUser::default()))
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<NodeName, Watched>> {
        self.watched.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Seen {
    /// The node says how it is.
    fn answer(&mut self, name: &NodeName, asked: Instant, health: NodeHealth) {
        if !self.online {
            tracing::info!(node = ?name, "node is online");
        }
        self.online = true;
        self.last_error = None;
        self.answered = Instant::now();
        self.health = Some(health);
        self.asked = Some(asked);
    }
}

impl Watched {
    fn view(&self) -> NodeView {
        let seen = self.seen.borrow().clone();
        NodeView {
            name: self.known.registration.name.clone(),
            log: format!("`journalctl -u forebay-node` on {}", self.known.registration.name),
            online: seen.online,
            last_error: seen.last_error,
            health: seen.health,
            asked: seen.asked,
            too_new: Vec::new(),
            registration: Some(self.known.registration.clone()),
            drained: self.known.drained.clone(),
        }
    }
}

/// Asks for ever.
async fn watch_node(
    name: NodeName,
    client: Client,
    shown: watch::Sender<Seen>,
    (again, words): (Arc<Notify>, Arc<LastWords>),
) {
    let client = client.with_timeout(HEALTH_WITHIN);
    loop {
        let asked = Instant::now();
        let answer: Result<NodeHealth, _> = client.get("/v1/health").await;
        match answer {
            Ok(health) => {
                let show = |health| shown.send_modify(|seen| seen.answer(&name, asked, health));
                listen(&words, (&name, &client), health, show).await;
            }
            Err(error) => shown.send_modify(|seen| {
                let reason = error.reason();
                if seen.online {
                    tracing::warn!(node = ?name, reason, "node is offline");
                }
                seen.online = false;
                seen.last_error = Some(reason);
            }),
        }
        let _at_once = tokio::time::timeout(HEALTH_PERIOD, again.notified()).await;
    }
}
