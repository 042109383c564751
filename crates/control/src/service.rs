//! The control process: its lock, its socket, its start and its end.

use std::io;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use daemon::http::{BindError, OpenTo};
use daemon::lock::{FolderLock, LockError};
use tokio::sync::Notify;
use wire::control::ApiError;

use crate::control::Control;
use crate::local_nodes::{self, LocalNodes};
use crate::local_site::LocalSite;
use crate::requests::{self, Door};
use crate::state::{Database, StateError, instances};

/// How long another control may take to end: requests in flight have two seconds.
const ENDING_WITHIN: Duration = Duration::from_secs(5);

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
    /// The nodes' folders or program.
    #[error("prepare the nodes")]
    Nodes(#[source] io::Error),
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
    // Checked before anything is started; n63 has the longest name.
    daemon::http::check_socket_path(&local_nodes::socket(&folder, "n63"))?;
    let _lock = take_over(&folder).await?;
    let database = Database::open(&folder.join("control.db"))?;
    let known = database.transact(instances::all).await?;
    let needed = known.iter().map(|instance| instance.nodes.len()).max().unwrap_or(0);
    let needed = u32::try_from(needed).unwrap_or(u32::MAX);
    let nodes = LocalNodes::open(folder.clone(), needed).map_err(ControlError::Nodes)?;
    let listener = daemon::http::bind(&folder.join("control.sock"), OpenTo::Ourselves)?;
    let control = Arc::new(Control::new(database, LocalSite::new(folder.clone(), nodes)));
    let ending = Arc::new(Notify::new());
    let asked = Arc::clone(&ending);
    let end = async move {
        tokio::select! {
            () = stop => {}
            () = asked.notified() => {}
        }
    };
    tracing::info!(folder = %folder.display(), sessions = known.len(), "control runs");
    daemon::http::serve(vec![listener], requests::router(Door { control, ending }), end)
        .await
        .map_err(ControlError::Serve)?;
    tracing::info!("control ended");
    Ok(())
}

/// The lock of the state folder. One who holds it and does not answer is ending, and is waited for.
async fn take_over(folder: &Path) -> Result<FolderLock, LockError> {
    let begin = Instant::now();
    loop {
        let taken = daemon::lock::exclusive(&folder.join("control.lock"));
        let held = matches!(taken, Err(LockError::Held { .. }));
        if !held
            || begin.elapsed() > ENDING_WITHIN
            || UnixStream::connect(folder.join("control.sock")).is_ok()
        {
            return taken;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
