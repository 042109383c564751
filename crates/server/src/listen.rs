//! Where a service listens.

use std::io;
use std::net::TcpListener as StdTcpListener;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener as StdListener, UnixStream as StdStream};
use std::path::{Path, PathBuf};

use api::endpoint::{SocketPathTooLong, check_socket_path};
use api::munge::Munge;
use tokio::net::{TcpListener, UnixListener};

/// Why a service cannot listen.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// The path does not fit into a socket's address.
    #[error(transparent)]
    TooLong(#[from] SocketPathTooLong),
    /// Another process answers there.
    #[error("another process listens on {}", path.display())]
    InUse {
        /// The path.
        path: PathBuf,
    },
    /// The kernel refused.
    #[error("listen on {}", path.display())]
    Io {
        /// The path.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The kernel refused.
    #[error("listen on the TCP address {address}")]
    Tcp {
        /// The address.
        address: String,
        /// Why.
        #[source]
        source: io::Error,
    },
}

/// Where a service listens, and whom it believes there.
#[derive(Debug)]
pub enum Listener {
    /// A unix socket: the kernel says who calls.
    Unix {
        /// The socket.
        listener: UnixListener,
        /// Whom it lets in at all.
        open_to: OpenTo,
    },
    /// TCP: a MUNGE credential in each request says who calls; whoever has one is let in.
    Tcp {
        /// The socket.
        listener: TcpListener,
        /// What checks the credentials.
        munge: Munge,
        /// What this service is called in them ([`api::binding`]).
        audience: String,
    },
}

/// Whom a unix socket lets in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenTo {
    /// Root and the user of this process.
    Ourselves,
    /// Every local user; each request is then judged by its [`Caller`](crate::caller::Caller).
    Everybody,
}

/// Listens on the socket `path`, mode 0600, or 0666 where it is open to everybody. Replaces a socket that nobody
/// answers on. Two processes that do so at the same time must be kept apart by a lock (`daemon::lock`).
///
/// # Errors
/// See [`BindError`].
pub fn bind_std(path: &Path, open_to: OpenTo) -> Result<StdListener, BindError> {
    check_socket_path(path)?;
    let io = |source| BindError::Io { path: path.into(), source };
    if StdStream::connect(path).is_ok() {
        return Err(BindError::InUse { path: path.into() });
    }
    match std::fs::remove_file(path) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(io(e)),
        _ => {}
    }
    let listener = StdListener::bind(path).map_err(io)?;
    let mode = match open_to {
        OpenTo::Ourselves => 0o600,
        OpenTo::Everybody => 0o666,
    };
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).map_err(io)?;
    Ok(listener)
}

/// [`bind_std`] as a [`Listener`]. Must be called inside a tokio runtime.
///
/// # Errors
/// See [`BindError`].
pub fn bind(path: &Path, open_to: OpenTo) -> Result<Listener, BindError> {
    let io = |source| BindError::Io { path: path.into(), source };
    let listener = bind_std(path, open_to)?;
    listener.set_nonblocking(true).map_err(io)?;
    Ok(Listener::Unix { listener: UnixListener::from_std(listener).map_err(io)?, open_to })
}

/// Listens on the TCP address `address` (`host:port`).
///
/// # Errors
/// See [`BindError`].
pub async fn bind_tcp(address: &str, munge: Munge, audience: &str) -> Result<Listener, BindError> {
    let listener = TcpListener::bind(address).await;
    let listener = listener.map_err(|source| BindError::Tcp { address: address.to_owned(), source })?;
    Ok(Listener::Tcp { listener, munge, audience: audience.to_owned() })
}

/// The same of a socket that listens already.
///
/// # Errors
/// The kernel's.
pub fn on_tcp(listener: StdTcpListener, munge: Munge, audience: &str) -> io::Result<Listener> {
    listener.set_nonblocking(true)?;
    Ok(Listener::Tcp { listener: TcpListener::from_std(listener)?, munge, audience: audience.to_owned() })
}
