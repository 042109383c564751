//! The control process: its lock, its listeners, its start and its end; for one machine or for a cluster.

use std::io;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use api::endpoint::{CONTROL, check_state_folder};
use api::munge::{Munge, MungeError};
use daemon::error::chain;
use daemon::lock::{FolderLock, LockError};
use model::InstanceId;
use server::{BindError, OpenTo};
use tokio::sync::Notify;
use wire::control::ApiError;

use crate::app::{App, new_key};
use crate::audit::Audit;
use crate::cluster_nodes::ClusterNodes;
use crate::cluster_site::ClusterSite;
use crate::config::Config;
use crate::last_words::LastWords;
use crate::leftovers;
use crate::lifecycle::behind;
use crate::local_nodes::LocalNodes;
use crate::local_site::LocalSite;
use crate::requests::{self, Handler};
use crate::rights::Policy;
use crate::site::Site;
use crate::state::leftovers::{self as noted, Kind};
use crate::state::{Database, StateError, instances, life, nodes};
use crate::transfers::on_demand;

/// How long another control may take to end: requests in flight have two seconds.
const ENDING_WITHIN: Duration = Duration::from_secs(5);

/// How often control asks whether a node is back that left something behind.
const TIDY_PERIOD: Duration = Duration::from_secs(2);

/// Why control does not run.
#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    /// Another control uses the folder.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// The socket, or the path of a node's.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// The database.
    #[error(transparent)]
    State(#[from] StateError),
    /// What is in the database cannot be read.
    #[error(transparent)]
    Api(#[from] ApiError),
    /// Who calls over the network cannot be told.
    #[error(transparent)]
    Munge(#[from] MungeError),
    /// The nodes' folders or program.
    #[error("prepare the nodes")]
    Nodes(#[source] io::Error),
    /// What nodes said before.
    #[error("keep last-words.json in the state folder")]
    Words(#[source] io::Error),
    /// The audit log.
    #[error("open the audit log that audit_log of the configuration names")]
    Audit(#[source] io::Error),
    /// The state folder's mode.
    #[error("open the state folder {} to its socket's callers", path.display())]
    Folder {
        /// The folder.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The service broke.
    #[error("serve requests")]
    Serve(#[source] io::Error),
}

/// Runs control over the state folder `folder` until `stop` completes or it is asked to shut down. After `stop` the
/// nodes go on.
///
/// # Errors
/// See [`ControlError`].
pub async fn run(
    folder: PathBuf,
    stop: impl Future<Output = ()> + Send + 'static,
) -> Result<(), ControlError> {
    // Checked before anything is started.
    check_state_folder(&folder).map_err(BindError::from)?;
    keep_to_ourselves(&folder)?;
    let _lock = take_over(&folder, &folder.join("control.sock")).await?;
    let database = Database::open(&folder.join("control.db"))?;
    let known = database.transact(instances::all).await?;
    let needed = known.iter().map(|instance| instance.nodes.len()).max().unwrap_or(0);
    let needed = u32::try_from(needed).unwrap_or(u32::MAX);
    let words = last_words(&database, &folder).await?;
    let nodes = LocalNodes::open(folder.clone(), needed, words).map_err(ControlError::Nodes)?;
    let listeners = vec![server::bind(&folder.join("control.sock"), OpenTo::Ourselves)?];
    database.keep_room();
    let app = Arc::new(App::new(database, LocalSite::new(folder.clone(), nodes), Audit::default()));
    tracing::info!(folder = %folder.display(), sessions = known.len(), "control runs");
    serve(app, Policy::Own, listeners, stop).await
}

/// Runs the control of a cluster until `stop` completes or it is asked to shut down. The nodes are services of their
/// own.
///
/// # Errors
/// See [`ControlError`].
pub async fn run_cluster(
    config: Config,
    stop: impl Future<Output = ()> + Send + 'static,
) -> Result<(), ControlError> {
    let open_to = open_to(&config)?;
    let _lock = take_over(&config.folder, &config.socket).await?;
    let database = Database::open(&config.folder.join("control.db"))?;
    let key = config.key.clone().map(Munge::of_key);
    let munge = key.map_or_else(|| Munge::load(config.munge_socket.clone()), Ok);
    let mut listeners = vec![server::bind(&config.socket, open_to)?];
    let munge = match &config.listen {
        Some(address) => {
            let munge = munge?;
            listeners.push(server::bind_tcp(address, munge.clone(), CONTROL).await?);
            Some(munge)
        }
        None => munge.ok(),
    };
    database.keep_room();
    let nodes = ClusterNodes::new(munge, last_words(&database, &config.folder).await?);
    let site = ClusterSite::new(config.setting.clone(), nodes, config.node_timeout);
    for node in database.transact(nodes::all).await? {
        site.admit(node)?;
    }
    for left in database.transact(noted::all).await? {
        if left.kind == Kind::Fragment {
            site.give_up(&left.node, &InstanceId::unchecked(left.id));
        }
    }
    let audit = Audit::open(config.audit_log.clone()).map_err(ControlError::Audit)?;
    let app = Arc::new(App::new(database, site, audit));
    tokio::spawn(tidy(Arc::clone(&app)));
    if let Some(address) = config.metrics.clone() {
        tokio::spawn(serve_metrics(address, Arc::clone(&app), config.policy.clone()));
    }
    tracing::info!(folder = %config.folder.display(), "control of a cluster runs");
    serve(app, config.policy, listeners, stop).await
}

/// Of one user's own control nobody else is to reach anything.
fn open_to(config: &Config) -> Result<OpenTo, ControlError> {
    match config.policy {
        Policy::Own => Ok(OpenTo::Ourselves),
        Policy::Cluster { .. } => open_folder(&config.folder).map(|()| OpenTo::Everybody),
    }
}

async fn serve_metrics<S: Site>(address: String, app: Arc<App<S>>, policy: Policy) {
    let handler = Handler { app, policy, ending: Arc::new(Notify::new()) };
    if let Err(error) = server::serve_to_all(&address, requests::metrics_router(handler)).await {
        tracing::error!(error = chain(&error), "cannot serve the metrics");
    }
}

/// What nodes said in an earlier life of control.
async fn last_words(database: &Database, folder: &Path) -> Result<LastWords, ControlError> {
    let life = new_key()?;
    let begun = life.clone();
    let begin = move |tx: &rusqlite::Transaction<'_>| Ok((life::begin(tx, &begun)?, instances::all(tx)?));
    let (former, living) = database.transact(begin).await?;
    let living = living.into_iter().map(|instance| instance.id).collect();
    LastWords::open(folder, (former.as_deref(), &life), &living).map_err(ControlError::Words)
}

async fn serve<S: Site>(
    app: Arc<App<S>>,
    policy: Policy,
    listeners: Vec<server::Listener>,
    stop: impl Future<Output = ()> + Send + 'static,
) -> Result<(), ControlError> {
    tokio::spawn(resume(Arc::clone(&app)));
    let ending = Arc::new(Notify::new());
    let asked = Arc::clone(&ending);
    let end = async move {
        tokio::select! {
            () = stop => {}
            () = asked.notified() => {}
        }
    };
    let reserved = policy.services();
    let router = requests::router(Handler { app, policy, ending });
    server::serve(listeners, router, reserved, end).await.map_err(ControlError::Serve)?;
    tracing::info!("control ended");
    Ok(())
}

/// Goes on with what an earlier life had accepted.
pub(crate) async fn resume<S: Site>(app: Arc<App<S>>) {
    if let Err(error) = on_demand::resume(&app).await {
        tracing::error!(%error, "cannot resume the stages on demand from before the restart");
    }
    if let Err(error) = app.resume_quarantined().await {
        tracing::error!(%error, "cannot finish the quarantined sessions");
    }
}

/// What is made from now on is for nobody else, wherever its folder lies, nor is an older database: it has the
/// buffers' keys.
fn keep_to_ourselves(folder: &Path) -> Result<(), ControlError> {
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o077));
    for path in ["control.db", "control.db-journal"].map(|name| folder.join(name)) {
        match std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)) {
            Err(source) if !disk::is_absent(&source) => return Err(ControlError::Folder { path, source }),
            _ => {}
        }
    }
    Ok(())
}

/// Every local user may reach the socket in the folder, and nothing else in it.
fn open_folder(folder: &Path) -> Result<(), ControlError> {
    keep_to_ourselves(folder)?;
    std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o711))
        .map_err(|source| ControlError::Folder { path: folder.into(), source })
}

async fn tidy<S: Site>(app: Arc<App<S>>) {
    loop {
        if let Err(error) = leftovers::tidy(&app).await {
            tracing::warn!(%error, "cannot look at what nodes left behind; control tries again later");
        }
        if let Err(error) = behind::tell(&app).await {
            tracing::warn!(%error, "cannot tell every node the present key of its buffers; control tries again later");
        }
        tokio::time::sleep(TIDY_PERIOD).await;
    }
}

/// The lock of the state folder. One who holds it and does not answer is ending, and is waited for.
async fn take_over(folder: &Path, socket: &Path) -> Result<FolderLock, LockError> {
    let begin = Instant::now();
    loop {
        let taken = daemon::lock::exclusive(&folder.join("control.lock"));
        let held = matches!(taken, Err(LockError::Held { .. }));
        if !held || begin.elapsed() > ENDING_WITHIN || UnixStream::connect(socket).is_ok() {
            return taken;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
