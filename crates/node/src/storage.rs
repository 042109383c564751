//! The storage role: this node's fragments, served by the store crate, which blocks and so runs on threads of its own.

use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use daemon::error::bug;
use daemon::http::{BindError, OpenTo};
use wire::control::ApiError;
use wire::node::{FragmentSpec, FragmentStatus, StorageAddress};

use crate::folder::NodeFolder;

/// The storage role of a node.
pub struct Storage {
    server: Arc<store::Server>,
    address: StorageAddress,
}

/// Why a node cannot store.
#[derive(Debug, thiserror::Error)]
pub enum StorageError {
    /// The fragments' folder cannot be used.
    #[error("open the fragments")]
    Open(#[source] store::OpenError),
    /// The data path's unix socket.
    #[error(transparent)]
    Socket(BindError),
    /// The data path's TCP port. Clients have its number, so another one would not do.
    #[error("listen on the TCP port 127.0.0.1:{port} that {} names", kept.display())]
    Port {
        /// The port; 0 for any.
        port: u16,
        /// Where it is kept.
        kept: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The data path's threads could not be started.
    #[error("start the data path")]
    Listen(#[source] io::Error),
}

impl Storage {
    /// Loads the fragments in `folder` and serves them on the data path. Blocks while fragments recover.
    ///
    /// # Errors
    /// See [`StorageError`]. A fragment that cannot be served says so in its own status.
    pub fn open(folder: &NodeFolder, name: &str) -> Result<Storage, StorageError> {
        let server = store::Server::open(folder.fragments(), name.to_owned()).map_err(StorageError::Open)?;
        let unix =
            daemon::http::bind_std(&folder.data_socket(), OpenTo::Ourselves).map_err(StorageError::Socket)?;
        let (tcp, port) = listen_on_kept_port(&folder.data_port())?;
        server.listen(tcp, unix).map_err(StorageError::Listen)?;
        let address = StorageAddress {
            node: name.to_owned(),
            tcp: format!("{}:{port}", Ipv4Addr::LOCALHOST),
            unix: Some(folder.data_socket()),
        };
        Ok(Storage { server, address })
    }

    /// Where the data path listens.
    pub fn address(&self) -> &StorageAddress {
        &self.address
    }

    /// Makes and serves a fragment; idempotent.
    ///
    /// # Errors
    /// The store's: no room, or another fragment of that instance.
    pub async fn create(&self, spec: FragmentSpec) -> Result<FragmentStatus, ApiError> {
        self.blocking(move |server| server.create_fragment(&spec)).await?
    }

    /// Destroys an instance's fragment; idempotent.
    ///
    /// # Errors
    /// The store's.
    pub async fn delete(&self, instance: String) -> Result<(), ApiError> {
        self.blocking(move |server| server.delete_fragment(&instance)).await?
    }

    /// Every fragment.
    ///
    /// # Errors
    /// A bug in the store.
    pub async fn fragments(&self) -> Result<Vec<FragmentStatus>, ApiError> {
        self.blocking(|server| server.fragments()).await
    }

    /// Closes every fragment; nothing is served afterwards.
    ///
    /// # Errors
    /// A bug in the store.
    pub async fn shutdown(&self) -> Result<(), ApiError> {
        self.blocking(|server| server.shutdown()).await
    }

    /// The work goes on when the request that asked for it goes away.
    async fn blocking<R: Send + 'static>(
        &self,
        work: impl FnOnce(&store::Server) -> R + Send + 'static,
    ) -> Result<R, ApiError> {
        let server = Arc::clone(&self.server);
        let done = tokio::task::spawn_blocking(move || work(&server)).await;
        done.map_err(|error| bug("store_panicked", format!("the store did not finish: {error}")))
    }
}

/// The port in the file `kept`, or any free one, which is then kept.
fn listen_on_kept_port(kept: &Path) -> Result<(TcpListener, u16), StorageError> {
    let known = std::fs::read_to_string(kept).ok().and_then(|text| text.trim().parse().ok());
    let port = known.unwrap_or(0);
    let failed = |source| StorageError::Port { port, kept: kept.into(), source };
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).map_err(failed)?;
    let port = listener.local_addr().map_err(failed)?.port();
    if known.is_none() {
        std::fs::write(kept, format!("{port}\n")).map_err(failed)?;
    }
    Ok((listener, port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_port_of_the_first_start_is_the_port_of_the_next() {
        let dir = tempfile::tempdir().unwrap();
        let kept = dir.path().join("data.port");
        let (first, port) = listen_on_kept_port(&kept).unwrap();
        assert!(matches!(listen_on_kept_port(&kept), Err(StorageError::Port { port: p, .. }) if p == port));
        drop(first);
        assert_eq!(listen_on_kept_port(&kept).unwrap().1, port);
    }
}
