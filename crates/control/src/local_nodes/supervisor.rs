//! The supervision of one node of this machine: it is asked how it is, and started again where nobody listens.

use std::io;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use api::CallError;
use daemon::client::Client;
use daemon::logging::last_words;
use model::NodeName;
use tokio::sync::watch;
use wire::node::NodeHealth;

use crate::last_words::{LastWords, listen};
use crate::site::NodeView;

/// How often a node is asked how it is: twice a second, so that a dead one is missed for a moment only.
const HEALTH_PERIOD: Duration = Duration::from_millis(500);

/// How long a node may take to say how it is. A busy machine is no dead node.
pub(super) const HEALTH_WITHIN: Duration = Duration::from_secs(10);

/// Pauses before a node that did not come up is started again.
const BACK_OFF: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(10));

/// What supervision knows.
#[derive(Clone, Debug, Default)]
pub(super) struct Seen {
    /// The node, as it was seen last.
    pub view: NodeView,
    /// Starts in a row that did not come up.
    pub start_failures: u32,
}

/// Owns one node's process.
pub(super) struct Supervisor {
    /// The node's name.
    pub name: NodeName,
    /// Of the node.
    pub client: Client,
    /// `forebay-node`.
    pub program: PathBuf,
    /// The node's folder.
    pub folder: PathBuf,
    /// Where the node logs.
    pub log: PathBuf,
    /// What nodes said last.
    pub words: Arc<LastWords>,
    /// Whether the supervision is to end.
    pub stopping: watch::Receiver<bool>,
    /// What it has seen.
    pub shown: watch::Sender<Seen>,
}

impl Supervisor {
    /// Until it is to end.
    pub(super) async fn run(self) {
        let mut pause = BACK_OFF.0;
        while !*self.stopping.borrow() {
            let asked = Instant::now();
            match health(&self.client).await {
                Ok(health) => {
                    self.show_online(asked, health).await;
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
        // Its copies may have been completed since it was asked: it is ended next.
        let asked = Instant::now();
        if let Ok(health) = health(&self.client).await {
            self.show_online(asked, health).await;
        }
    }

    /// A pause that ends early when the supervision is to end.
    async fn rest(&self, pause: Duration) {
        let mut stopping = self.stopping.clone();
        let _ = tokio::time::timeout(pause, stopping.wait_for(|stop| *stop)).await;
    }

    /// Starts the process and waits until it answers or ends.
    async fn start(&self) {
        tracing::info!(node = ?self.name, "start node");
        let pid = match self.spawn() {
            Ok(pid) => pid,
            Err(error) => return self.show_not_started(&format!("start the node: {error}")),
        };
        // The spawner reaps it, so its folder in /proc goes when it ends.
        let process = PathBuf::from(format!("/proc/{pid}"));
        while disk::exists(&process).unwrap_or(true) {
            let asked = Instant::now();
            if let Ok(health) = health(&self.client).await {
                return self.show_online(asked, health).await;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        self.show_not_started(&last_words(&self.log).unwrap_or_else(|| "it ended without a word".to_owned()));
    }

    fn spawn(&self) -> io::Result<u32> {
        let mut command = Command::new(&self.program);
        command.arg("--dir").arg(&self.folder).args([
            "--name",
            self.name.as_str(),
            "--roles",
            "storage,compute",
        ]);
        daemon::spawn::detached(&mut command, &self.log)
    }

    async fn show_online(&self, asked: Instant, health: NodeHealth) {
        let show = |health| {
            self.shown.send_modify(|seen| {
                seen.start_failures = 0;
                (seen.view.online, seen.view.last_error) = (true, None);
                (seen.view.health, seen.view.asked) = (Some(health), Some(asked));
            })
        };
        let client = self.client.clone().with_timeout(HEALTH_WITHIN);
        listen(&self.words, (&self.name, &client), health, show).await;
    }

    fn show_offline(&self, reason: &str) {
        self.shown.send_modify(|seen| {
            if seen.view.online {
                tracing::warn!(node = ?self.name, reason, "node does not answer");
            }
            seen.view.online = false;
            seen.view.last_error = Some(reason.to_owned());
        });
    }

    fn show_not_started(&self, reason: &str) {
        tracing::error!(node = ?self.name, reason, "node does not start");
        self.show_offline(reason);
        self.shown.send_modify(|seen| seen.start_failures += 1);
    }
}

async fn health(client: &Client) -> Result<NodeHealth, CallError> {
    client.clone().with_timeout(HEALTH_WITHIN).get("/v1/health").await
}

/// Nobody listens. A node that is only slow keeps its socket.
fn is_dead(error: &CallError) -> bool {
    use io::ErrorKind::{ConnectionRefused, NotFound};
    matches!(error, CallError::Unreachable { cause, .. } if matches!(cause.kind(), ConnectionRefused | NotFound))
}
