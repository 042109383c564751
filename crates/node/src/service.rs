//! The node's process: its lock, its listeners, its start and its end.

use std::sync::Arc;
use std::time::Duration;

use api::munge::{Munge, MungeError, ServiceUser};
use daemon::lock::FolderLock;
use server::OpenTo;

use crate::config::{Cluster, Config};
use crate::error::NodeError;
use crate::folder::NodeFolder;
use crate::node::Node;
use crate::storage::{Listen, listen_at};
use crate::{registration, requests};

/// How long a killed predecessor may take to be gone.
const PREDECESSOR_LIMIT: Duration = Duration::from_secs(5);

/// Runs a node until `stop` completes or control asks it to end.
///
/// # Errors
/// See [`NodeError`].
pub async fn run(config: Config, stop: impl Future<Output = ()> + Send + 'static) -> Result<(), NodeError> {
    let folder = NodeFolder(config.folder.clone());
    let _lock: FolderLock = daemon::lock::exclusive_within(&folder.lock(), PREDECESSOR_LIMIT)?;
    // Users may fill the disk to the last block, and a node that was stopped must start all the same.
    let room = disk::Room::of(&config.folder);
    room.make_way();
    wire::data::moved::look_in(&folder.0);
    let node = Arc::new(Node::open(&folder, &config)?);
    // Bound only now: whoever can connect is answered.
    let mut listeners = vec![server::bind(&folder.node_socket(), OpenTo::Ourselves)?];
    let mut tasks = tokio::task::JoinSet::new();
    if let Some(cluster) = &config.cluster {
        join((&config, cluster), &folder, &node, &mut listeners, &mut tasks)?;
        if let Some(address) = cluster.metrics.clone() {
            let router = requests::metrics_router(Arc::clone(&node));
            tasks.spawn(async move {
                if let Err(error) = server::serve_to_all(&address, router).await {
                    tracing::error!(error = daemon::error::chain(&error), "cannot serve the metrics");
                }
            });
        }
    }
    room.take();
    tracing::info!(node = ?node.name, folder = %folder.0.display(), "node runs");
    let asked = Arc::clone(&node);
    let end = async move {
        tokio::select! {
            () = stop => {}
            () = asked.stopping.notified() => {}
        }
    };
    let reserved = node.control_uid.into_iter().collect();
    let router = requests::router(Arc::clone(&node));
    server::serve(listeners, router, reserved, end).await.map_err(NodeError::Serve)?;
    node.close().await;
    tracing::info!(node = ?node.name, "node ended");
    Ok(())
}

/// Listens on the network and says to control that this node is there, again and again.
fn join(
    (config, cluster): (&Config, &Cluster),
    folder: &NodeFolder,
    node: &Arc<Node>,
    listeners: &mut Vec<server::Listener>,
    tasks: &mut tokio::task::JoinSet<()>,
) -> Result<(), NodeError> {
    let munge = match &cluster.key {
        Some(key) => Ok(Munge::of_key(key.clone())),
        None => Munge::load(cluster.munge_socket.clone()),
    };
    let address = match cluster.listen {
        Some(ip) => {
            let listen = Listen { ip, port: cluster.api_port };
            let (listener, address) = listen_at(listen, &folder.api_port())?;
            let munge = munge.as_ref().map_err(copy)?.clone();
            let listener = server::on_tcp(listener, munge, config.name.as_str());
            listeners.push(listener.map_err(NodeError::Serve)?);
            address.to_string()
        }
        None => folder.node_socket().display().to_string(),
    };
    let registration = registration::of(config, cluster, address);
    let Some(control) = &cluster.control else {
        return registration::say(registration).map_err(NodeError::Serve);
    };
    let client = match control.starts_with('/') {
        true => daemon::client::Client::new(control),
        false => {
            let user = ServiceUser(Some(cluster.control_uid));
            daemon::client::Client::over_tcp(control, api::endpoint::CONTROL, munge?, user)
        }
    };
    tasks.spawn(registration::wait_for_word(Arc::clone(node)));
    tasks.spawn(registration::run(client, registration, Arc::clone(node)));
    Ok(())
}

fn copy(error: &MungeError) -> MungeError {
    MungeError::Library(error.to_string())
}
