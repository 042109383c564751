//! The storage role: this node's fragments, served by the store crate, which blocks and so runs on threads of its own.

use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use daemon::error::bug;
use model::{FragmentIndex, Ino, InstanceId, NodeName};
use server::{BindError, OpenTo};
use wire::control::{ApiError, ErrorCode, KnownPart};
use wire::node::{
    FragmentSpec, FragmentStatus, FsckReport, FsckSpec, Moved, PartFiles, ScrubSpec, ScrubStatus,
    StorageAddress,
};

use crate::folder::NodeFolder;
use crate::mover::Movers;

/// The storage role of a node.
pub(crate) struct Storage {
    server: Arc<store::Server>,
    address: StorageAddress,
}

/// Where the data path listens.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Listen {
    /// The address that clients reach.
    pub ip: IpAddr,
    /// The port; `None`: the one of the first start, which was any.
    pub port: Option<u16>,
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
    #[error("listen on the TCP address {address} (ports that were any are kept in {})", kept.display())]
    Port {
        /// The address; port 0 for any.
        address: SocketAddr,
        /// Where the port is kept that was any.
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
    /// Loads the fragments in `folder` and serves them on the data path; where it `waits`, when control has said what
    /// it knows of them. Blocks while fragments recover; to be called in the context of a runtime.
    ///
    /// # Errors
    /// See [`StorageError`]. A fragment that cannot be served says so in its own status.
    pub(crate) fn open(
        folder: &NodeFolder,
        name: &NodeName,
        listen: Listen,
        (movers, waits): (Movers, bool),
    ) -> Result<Storage, StorageError> {
        let open = if waits { store::Server::open_unheard } else { store::Server::open };
        let server = open(folder.fragments(), name.clone()).map_err(StorageError::Open)?;
        let unix =
            server::bind_std(&folder.data_socket(), OpenTo::Ourselves).map_err(StorageError::Socket)?;
        // Whoever asks for one waits in a thread of the data path.
        let runtime = tokio::runtime::Handle::current();
        server.run_movers_with(Box::new(move |socket, fragment, namespace| {
            runtime.block_on(movers.run(socket, fragment, namespace))
        }));
        let (tcp, at) = listen_at(listen, &folder.data_port())?;
        server.listen(tcp, unix).map_err(StorageError::Listen)?;
        let address =
            StorageAddress { node: name.clone(), tcp: at.to_string(), unix: Some(folder.data_socket()) };
        Ok(Storage { server, address })
    }

    /// Where the data path listens.
    pub(crate) fn address(&self) -> &StorageAddress {
        &self.address
    }

    /// Makes and serves a fragment; idempotent.
    ///
    /// # Errors
    /// The store's: no room, or another fragment of that instance.
    pub(crate) async fn create(&self, spec: FragmentSpec) -> Result<FragmentStatus, ApiError> {
        self.blocking(move |server| server.create_fragment(&spec)).await?
    }

    /// Control knows of these doubts.
    ///
    /// # Errors
    /// A bug in the store.
    pub(crate) async fn hear(&self, instance: InstanceId, doubts: Vec<u64>) -> Result<(), ApiError> {
        self.blocking(move |server| server.hear(&instance, &doubts)).await
    }

    /// Control says this of the parts that are here; `None`: it says nothing.
    ///
    /// # Errors
    /// A bug in the store.
    pub(crate) async fn hear_of_parts(&self, known: Option<Vec<KnownPart>>) -> Result<(), ApiError> {
        self.blocking(move |server| server.hear_of_parts(known.as_deref())).await
    }

    /// Takes an instance's fragment out of use if another node has it, and keeps it; idempotent.
    ///
    /// # Errors
    /// The store's.
    pub(crate) async fn give_up(&self, instance: InstanceId, moved: Moved) -> Result<(), ApiError> {
        if moved.address.node == self.address.node {
            return Ok(());
        }
        self.blocking(move |server| server.give_up_fragment(&instance, moved.fragment)).await?
    }

    /// Destroys an instance's fragment; idempotent.
    ///
    /// # Errors
    /// The store's.
    pub(crate) async fn delete(&self, instance: InstanceId) -> Result<(), ApiError> {
        self.blocking(move |server| server.delete_fragment(&instance)).await?
    }

    /// Starts a scrub, or tells how it stands.
    ///
    /// # Errors
    /// The store's: no such fragment. So for the next two.
    pub(crate) async fn scrub(
        &self,
        instance: InstanceId,
        spec: Option<ScrubSpec>,
    ) -> Result<ScrubStatus, ApiError> {
        self.blocking(move |server| server.scrub(&instance, spec)).await?
    }

    /// The paths of inodes.
    ///
    /// # Errors
    /// The store's.
    pub(crate) async fn paths(
        &self,
        instance: InstanceId,
        inos: Vec<(u32, Ino)>,
    ) -> Result<Vec<Option<String>>, ApiError> {
        self.blocking(move |server| server.paths(&instance, &inos)).await?
    }

    /// Compares metadata and objects.
    ///
    /// # Errors
    /// The store's.
    pub(crate) async fn fsck(&self, instance: InstanceId, spec: FsckSpec) -> Result<FsckReport, ApiError> {
        self.blocking(move |server| server.fsck(&instance, spec)).await?
    }

    /// Files that should have data in a fragment.
    ///
    /// # Errors
    /// The store's.
    pub(crate) async fn files_on(
        &self,
        instance: InstanceId,
        index: FragmentIndex,
    ) -> Result<PartFiles, ApiError> {
        self.blocking(move |server| server.files_on(&instance, index)).await?
    }

    /// Every fragment.
    ///
    /// # Errors
    /// A bug in the store.
    pub(crate) async fn fragments(&self) -> Result<Vec<FragmentStatus>, ApiError> {
        self.blocking(|server| server.fragments()).await
    }

    /// Closes every fragment; nothing is served afterwards.
    ///
    /// # Errors
    /// A bug in the store.
    pub(crate) async fn shutdown(&self) -> Result<(), ApiError> {
        self.blocking(|server| server.shutdown()).await
    }

    /// The work goes on when the request that asked for it goes away.
    async fn blocking<R: Send + 'static>(
        &self,
        work: impl FnOnce(&Arc<store::Server>) -> R + Send + 'static,
    ) -> Result<R, ApiError> {
        let server = Arc::clone(&self.server);
        let done = tokio::task::spawn_blocking(move || work(&server)).await;
        done.map_err(|error| bug(ErrorCode::StorePanicked, format!("the store did not finish: {error}")))
    }
}

/// Listens at the port that is wished for, else at the one in the file `kept`, else at any free one, which is then
/// kept.
pub(crate) fn listen_at(listen: Listen, kept: &Path) -> Result<(TcpListener, SocketAddr), StorageError> {
    let failed_at = |address| move |source| StorageError::Port { address, kept: kept.into(), source };
    let port = match listen.port {
        Some(port) => Some(port),
        None => kept_port(kept).map_err(failed_at(SocketAddr::new(listen.ip, 0)))?,
    };
    let address = SocketAddr::new(listen.ip, port.unwrap_or(0));
    let failed = failed_at(address);
    let listener = TcpListener::bind(address).map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    if port.is_none() {
        disk::replace(kept, format!("{}\n", address.port()).as_bytes()).map_err(failed)?;
    }
    Ok((listener, address))
}

/// The port in the file `kept`; `None` where there is no file. Clients know the port: one that cannot be read is not
/// replaced.
fn kept_port(kept: &Path) -> io::Result<Option<u16>> {
    let Some(bytes) = disk::read(kept)? else { return Ok(None) };
    let number = String::from_utf8_lossy(&bytes).trim().parse();
    number.map(Some).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, format!("no port: {error}")))
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    /// Not where other processes have connections: one of them could get the port in between.
    const ANY: Listen = Listen { ip: IpAddr::V4(Ipv4Addr::new(127, 66, 0, 1)), port: None };

    #[test]
    fn the_port_of_the_first_start_is_the_port_of_the_next() {
        let dir = tempfile::tempdir().unwrap();
        let kept = dir.path().join("data.port");
        let (first, at) = listen_at(ANY, &kept).unwrap();
        assert!(matches!(listen_at(ANY, &kept), Err(StorageError::Port { address, .. }) if address == at));
        drop(first);
        // A process that another test is starting has the first one's descriptor until it executes its program.
        let start = std::time::Instant::now();
        let again = loop {
            match listen_at(ANY, &kept) {
                Err(_) if start.elapsed().as_secs() < 10 => std::thread::yield_now(),
                other => break other.unwrap().1,
            }
        };
        assert_eq!(again, at);
    }

    #[test]
    fn an_address_that_is_wished_for_is_used_and_not_kept() {
        let dir = tempfile::tempdir().unwrap();
        let kept = dir.path().join("data.port");
        let port = listen_at(ANY, &dir.path().join("any")).unwrap().1.port();
        let wished = Listen { ip: Ipv4Addr::new(127, 0, 0, 2).into(), port: Some(port) };
        assert_eq!(listen_at(wished, &kept).unwrap().1.to_string(), format!("127.0.0.2:{port}"));
        assert!(!disk::exists(&kept).unwrap());
    }
}
