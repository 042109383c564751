//! A service's side: its socket, who may call, and the end of service.

use std::io;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener as StdListener, UnixStream as StdStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use axum::Router;
use axum::extract::connect_info::Connected;
use axum::extract::{ConnectInfo, DefaultBodyLimit, FromRequest, Request};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use axum::serve::IncomingStream;
use serde::de::DeserializeOwned;
use tokio::net::UnixListener;

use crate::error::{Refusal, user};

/// The longest path of a socket, bytes: the kernel takes 107 (unix(7)), and a little is left for other systems.
pub const SOCKET_PATH_MAX: usize = 100;

/// The largest request, bytes: Slurm's largest batch script is 4 MiB, and JSON may escape some of it.
const REQUEST_BYTES_MAX: usize = 16 << 20;

/// How long requests in flight may take to finish when the service stops.
const DRAIN: Duration = Duration::from_secs(2);

/// Why a service cannot listen.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// The path does not fit into a socket address.
    #[error("the socket path {} has {} bytes, at most {SOCKET_PATH_MAX} work; choose a shorter --dir", path.display(), path.as_os_str().len())]
    TooLong {
        /// The path.
        path: PathBuf,
    },
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
}

/// Whether `path` fits into a socket address.
///
/// # Errors
/// [`BindError::TooLong`].
pub fn check_socket_path(path: &Path) -> Result<(), BindError> {
    if path.as_os_str().len() > SOCKET_PATH_MAX {
        Err(BindError::TooLong { path: path.into() })
    } else {
        Ok(())
    }
}

/// Listens on the socket `path`, mode 0600. Replaces a socket that nobody answers on. Two processes that do so at the
/// same time must be kept apart by a lock ([`crate::lock`]).
///
/// # Errors
/// See [`BindError`].
pub fn bind_std(path: &Path) -> Result<StdListener, BindError> {
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
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).map_err(io)?;
    Ok(listener)
}

/// [`bind_std`] for [`serve`]. Must be called inside a tokio runtime.
///
/// # Errors
/// See [`BindError`].
pub fn bind(path: &Path) -> Result<UnixListener, BindError> {
    let io = |source| BindError::Io { path: path.into(), source };
    let listener = bind_std(path)?;
    listener.set_nonblocking(true).map_err(io)?;
    UnixListener::from_std(listener).map_err(io)
}

/// Answers requests until `shutdown` completes, then takes no new ones and gives those in flight two seconds.
///
/// Only root and the user of this process may call; any other path than the router's is an [`wire::control::ApiError`].
///
/// # Errors
/// The listener broke.
pub async fn serve(
    listener: UnixListener,
    router: Router,
    shutdown: impl Future<Output = ()> + Send + 'static,
) -> io::Result<()> {
    let (stopping, stopped) = tokio::sync::oneshot::channel();
    let service = router
        .fallback(no_such_route)
        .layer(DefaultBodyLimit::max(REQUEST_BYTES_MAX))
        .layer(axum::middleware::from_fn(only_ourselves))
        .into_make_service_with_connect_info::<Caller>();
    let serving = axum::serve(listener, service).with_graceful_shutdown(async move {
        shutdown.await;
        let _ = stopping.send(());
    });
    let drained = async {
        let _ = stopped.await;
        tokio::time::sleep(DRAIN).await;
    };
    tokio::select! {
        result = serving => result,
        () = drained => Ok(()),
    }
}

/// Who is at the other end of a connection.
#[derive(Clone, Copy, Debug)]
struct Caller {
    uid: Option<u32>,
}

impl Connected<IncomingStream<'_, UnixListener>> for Caller {
    fn connect_info(stream: IncomingStream<'_, UnixListener>) -> Caller {
        Caller { uid: stream.io().peer_cred().ok().map(|cred| cred.uid()) }
    }
}

async fn only_ourselves(ConnectInfo(caller): ConnectInfo<Caller>, request: Request, next: Next) -> Response {
    if may_call(caller.uid, rustix::process::geteuid().as_raw()) {
        return next.run(request).await;
    }
    let error =
        user("not_yours", "this service belongs to another user", "start your own with another --dir");
    Refusal(error).into_response()
}

fn may_call(caller: Option<u32>, own: u32) -> bool {
    caller.is_some_and(|uid| uid == 0 || uid == own)
}

async fn no_such_route(request: Request) -> Refusal {
    let message = format!("{} {} is not part of this service's API", request.method(), request.uri().path());
    Refusal(user("no_such_route", message, "use programs of one Forebay version"))
}

/// A JSON request body. One that does not parse is refused with an [`wire::control::ApiError`].
pub struct Body<T>(pub T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for Body<T> {
    type Rejection = Refusal;

    async fn from_request(request: Request, state: &S) -> Result<Body<T>, Refusal> {
        let bad =
            |reason: String| Refusal(user("bad_request", reason, "use programs of one Forebay version"));
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
    fn only_root_and_the_own_user_may_call() {
        assert!(may_call(Some(0), 1000));
        assert!(may_call(Some(1000), 1000));
        assert!(!may_call(Some(1001), 1000));
        assert!(!may_call(None, 1000));
    }
}
