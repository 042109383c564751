//! Tells control that this node is there: at the start, and again, so that a control that was restarted, or a new one,
//! knows it soon.

use std::io::{self, Write};
use std::sync::Arc;
use std::time::Duration;

use daemon::client::Client;
use wire::control::{Attended, KnownPart, RegisterNode, Registered};

use crate::config::{Cluster, Config};
use crate::node::Node;

/// Pause before asking control again, when it did not answer.
const RETRY: Duration = Duration::from_secs(1);

/// How long control may take to reply.
const WITHIN: Duration = Duration::from_secs(10);

/// How long parts of buffers wait at a start for what control says of them.
const HEARD_WITHIN: Duration = Duration::from_secs(5);

/// What this node says of itself; its API is reached at `address`.
pub(crate) fn of(config: &Config, cluster: &Cluster, address: String) -> RegisterNode {
    RegisterNode {
        name: config.name.clone(),
        roles: config.roles.clone(),
        address,
        pool: cluster.pool.clone(),
        capacity_bytes: cluster.capacity_bytes,
        mount_root: cluster.mount_root.clone(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
    }
}

/// Goes on without control's word where that takes too long.
pub(crate) async fn wait_for_word(node: Arc<Node>) {
    tokio::time::sleep(HEARD_WITHIN).await;
    hear(&node, None).await;
}

async fn hear(node: &Node, known: Option<Vec<KnownPart>>) {
    let Ok(storage) = node.storage() else { return };
    if let Err(error) = storage.hear_of_parts(known).await {
        tracing::error!(%error, "cannot act on what control says of the parts of buffers here");
    }
}

/// Tells who attends this node instead, who then tells control.
///
/// # Errors
/// Nobody listens.
pub(crate) fn say(registration: RegisterNode) -> io::Result<()> {
    let line = serde_json::to_string(&Attended::Ready(registration))?;
    writeln!(io::stdout(), "{line}")
}

/// Registers for ever.
pub(crate) async fn run(control: Client, registration: RegisterNode, node: Arc<Node>) {
    let control = control.with_timeout(WITHIN);
    let mut known = None;
    loop {
        let pause = match control.post::<_, Registered>("/v1/nodes", &registration).await {
            Ok(registered) => {
                if known != Some(true) {
                    tracing::info!(node = ?registration.name, "control knows this node");
                }
                known = Some(true);
                hear(&node, registered.parts).await;
                Duration::from_secs(registered.again_s.max(1))
            }
            Err(error) => {
                if known != Some(false) {
                    tracing::warn!(
                        node = ?registration.name,
                        error = error.reason(),
                        "control does not register this node; the node tries again"
                    );
                }
                known = Some(false);
                RETRY
            }
        };
        tokio::time::sleep(pause).await;
    }
}
