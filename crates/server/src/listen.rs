//! A service's side: its socket, who may call, and the end of service.

use std::io;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener as StdListener, UnixStream as StdStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use api::endpoint::{SocketPathTooLong, check_socket_path};
use api::munge::Munge;
use axum::Router;
use axum::extract::connect_info::Connected;
use axum::extract::{ConnectInfo, DefaultBodyLimit, FromRequest, Request};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use axum::serve::IncomingStream;
use daemon::error::user;
use serde::de::DeserializeOwned;
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::watch;
use wire::control::ErrorCode;

use crate::caller::{self, Caller, REQUEST_BYTES_MAX};
use crate::refusal::Refusal;

/// How long requests in flight may take to finish when the service stops.
const DRAIN: Duration = Duration::from_secs(2);

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

/// Answers whoever asks at `address`, without asking back: for what everybody may know, as metrics.
///
/// # Errors
/// See [`BindError`]; and never returns otherwise.
pub async fn serve_to_all(address: &str, router: Router) -> Result<(), BindError> {
    let failed = |source| BindError::Tcp { address: address.to_owned(), source };
    let listener = TcpListener::bind(address).await.map_err(failed)?;
    axum::serve(listener, router).await.map_err(failed)
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
        /// What this service is called in them ([`api::munge::binding`]).
        audience: String,
    },
}

/// Whom a unix socket lets in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenTo {
    /// Root and the user of this process.
    Ourselves,
    /// Every local user; each request is then judged by its [`Caller`].
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

/// Answers requests at every listener until `shutdown` completes, then takes no new ones and gives those in flight two
/// seconds. Any other path than the router's is an [`wire::control::ApiError`].
///
/// # Errors
/// A listener broke.
pub async fn serve(
    listeners: Vec<Listener>,
    router: Router,
    shutdown: impl Future<Output = ()> + Send + 'static,
) -> io::Result<()> {
    let router = router.fallback(no_such_route).layer(DefaultBodyLimit::max(REQUEST_BYTES_MAX));
    let (stop, stopping) = watch::channel(false);
    let mut serving: tokio::task::JoinSet<io::Result<()>> =
        listeners.into_iter().map(|listener| serve_at(listener, router.clone(), stopping.clone())).collect();
    tokio::pin!(shutdown);
    tokio::select! {
        Some(broken) = serving.join_next() => return broken.unwrap_or_else(|error| Err(io::Error::other(error))),
        () = &mut shutdown => {}
    }
    stop.send_replace(true);
    // Those that are not done by then are cut off with their tasks.
    let _ = tokio::time::timeout(DRAIN, async { while serving.join_next().await.is_some() {} }).await;
    Ok(())
}

async fn serve_at(listener: Listener, router: Router, mut stopping: watch::Receiver<bool>) -> io::Result<()> {
    let stopped = async move {
        let _ = stopping.wait_for(|stop| *stop).await;
    };
    match listener {
        Listener::Unix { listener, open_to } => {
            let service = router
                .layer(axum::middleware::from_fn(move |peer, request, next| {
                    let_in(open_to, peer, request, next)
                }))
                .into_make_service_with_connect_info::<Peer>();
            axum::serve(listener, service).with_graceful_shutdown(stopped).await
        }
        Listener::Tcp { listener, munge, audience } => {
            let check = std::sync::Arc::new(caller::Check { munge, audience });
            let service =
                router.layer(axum::middleware::from_fn_with_state(check, caller::check)).into_make_service();
            axum::serve(listener, service).with_graceful_shutdown(stopped).await
        }
    }
}

/// Who is at the other end of a unix socket.
#[derive(Clone, Copy, Debug)]
struct Peer(Option<Caller>);

impl Connected<IncomingStream<'_, UnixListener>> for Peer {
    fn connect_info(stream: IncomingStream<'_, UnixListener>) -> Peer {
        Peer(stream.io().peer_cred().ok().map(|cred| Caller { uid: cred.uid(), gid: cred.gid() }))
    }
}

async fn let_in(
    open_to: OpenTo,
    ConnectInfo(peer): ConnectInfo<Peer>,
    mut request: Request,
    next: Next,
) -> Response {
    match peer.0 {
        Some(caller) if may_call(caller.uid, rustix::process::geteuid().as_raw(), open_to) => {
            request.extensions_mut().insert(caller);
            next.run(request).await
        }
        _ => {
            let advice = "start your own with another --dir";
            Refusal(user(ErrorCode::NotYours, "this service belongs to another user", advice)).into_response()
        }
    }
}

fn may_call(caller: u32, own: u32, open_to: OpenTo) -> bool {
    open_to == OpenTo::Everybody || caller == 0 || caller == own
}

async fn no_such_route(request: Request) -> Refusal {
    let message = format!("{} {} is not part of this service's API", request.method(), request.uri().path());
    Refusal(user(ErrorCode::NoSuchRoute, message, "use programs of one Forebay version"))
}

/// A JSON request body. One that does not parse is refused with an [`wire::control::ApiError`].
pub struct Body<T>(pub T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for Body<T> {
    type Rejection = Refusal;

    async fn from_request(request: Request, state: &S) -> Result<Body<T>, Refusal> {
        let bad = |reason: String| {
            Refusal(user(ErrorCode::BadRequest, reason, "use programs of one Forebay version"))
        };
        let bytes = axum::body::Bytes::from_request(request, state)
            .await
            .map_err(|e| bad(format!("read the request: {}", e.body_text())))?;
        serde_json::from_slice(&bytes)
            .map(Body)
            .map_err(|e| bad(format!("the request body is not understood: {e}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_root_and_the_own_user_may_call_unless_everybody_may() {
        assert!(may_call(0, 1000, OpenTo::Ourselves));
        assert!(may_call(1000, 1000, OpenTo::Ourselves));
        assert!(!may_call(1001, 1000, OpenTo::Ourselves));
        assert!(may_call(1001, 1000, OpenTo::Everybody));
    }
}
