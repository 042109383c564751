//! Why a node does not run.

use std::io;
use std::path::PathBuf;

use api::munge::MungeError;
use daemon::lock::LockError;
use server::BindError;
use store::image::VolumeError;

use crate::storage::StorageError;

/// Why a node does not run.
#[derive(Debug, thiserror::Error)]
pub enum NodeError {
    /// Another node uses the folder.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// The socket for control.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// The storage role.
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// What an earlier life kept of mounts and stages, or the programs for them.
    #[error("start the compute role")]
    Compute(#[source] io::Error),
    /// Private volumes cannot be made.
    #[error("give flash to private volumes (`local_kind` in the node's configuration)")]
    Locals(#[source] VolumeError),
    /// Who calls over the network cannot be told.
    #[error(transparent)]
    Munge(#[from] MungeError),
    /// The folder of the mount points.
    #[error("make the mount root {}", path.display())]
    MountRoot {
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
