//! A service's side: its connections, what each asks, and the end of service.

use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{DefaultBodyLimit, Request};
use axum::response::Response;
use daemon::error::user;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use model::crowd::Peer;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::watch;
use tokio::task::JoinSet;
use wire::control::ErrorCode;

use crate::body::REQUEST_BYTES_MAX;
use crate::caller::{Caller, Judge};
use crate::connections::{Connections, Place};
use crate::listen::{BindError, Listener};
use crate::refusal::Refusal;

/// How long requests in flight may take to finish when the service stops.
const DRAIN: Duration = Duration::from_secs(2);

/// A connection on which nothing was asked for so long is closed, and one that has not sent a request's whole head.
const HEAD_WITHIN: Duration = Duration::from_secs(10);

/// The longest head of a request, bytes: a credential is less than 1 KiB, a path less than 4.
const HEAD_BYTES_MAX: usize = 32 << 10;

/// After an error of `accept`, as where no descriptors are left.
const ACCEPT_AGAIN: Duration = Duration::from_millis(50);

/// Whoever asks without saying who he is: his requests are few.
const UNKNOWN_MAX: usize = 64;

/// Answers whoever asks at `address`, without asking back: for what everybody may know, as metrics.
///
/// # Errors
/// See [`BindError`]; and never returns otherwise.
pub async fn serve_to_all(address: &str, router: Router) -> Result<(), BindError> {
    let listener = TcpListener::bind(address).await;
    let listener = listener.map_err(|source| BindError::Tcp { address: address.to_owned(), source })?;
    let (_stop, stopping) = watch::channel(false);
    let connections = Connections::with_max(UNKNOWN_MAX, Vec::new());
    let answers = Answers { judge: Judge::Nobody, router: TowerToHyperService::new(router), connections };
    take_all(Socket::Tcp(listener), Arc::new(answers), stopping).await;
    Ok(())
}

/// Answers requests at every listener until `shutdown` completes, then takes no new ones and gives those in flight two
/// seconds. Any other path than the router's is an [`wire::control::ApiError`]. Root, this process' user and those that
/// are `reserved` may have as many connections and requests as they like.
///
/// # Errors
/// A listener broke.
pub async fn serve(
    listeners: Vec<Listener>,
    router: Router,
    reserved: Vec<u32>,
    shutdown: impl Future<Output = ()> + Send + 'static,
) -> io::Result<()> {
    let router = router.fallback(no_such_route).layer(DefaultBodyLimit::max(REQUEST_BYTES_MAX));
    let router = TowerToHyperService::new(router);
    let connections = Connections::new(reserved);
    let (stop, stopping) = watch::channel(false);
    let mut serving = JoinSet::new();
    for listener in listeners {
        let (socket, judge) = match listener {
            Listener::Unix { listener, open_to } => (Socket::Unix(listener), Judge::Kernel(open_to)),
            Listener::Tcp { listener, munge, audience } => {
                (Socket::Tcp(listener), Judge::Munge { munge, audience })
            }
        };
        let answers = Answers { judge, router: router.clone(), connections: Arc::clone(&connections) };
        serving.spawn(take_all(socket, Arc::new(answers), stopping.clone()));
    }
    tokio::pin!(shutdown);
    tokio::select! {
        Some(broken) = serving.join_next() => return broken.map_err(io::Error::other),
        () = &mut shutdown => {}
    }
    stop.send_replace(true);
    // Those that are not done by then are cut off with their tasks.
    let _ = tokio::time::timeout(DRAIN, async { while serving.join_next().await.is_some() {} }).await;
    Ok(())
}

/// A stream of either kind.
trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}

impl<T: AsyncRead + AsyncWrite + Unpin + Send> Stream for T {}

/// What connections come from.
enum Socket {
    Unix(UnixListener),
    Tcp(TcpListener),
}

/// A connection that was accepted.
struct Accepted {
    stream: Box<dyn Stream>,
    peer: Peer,
    /// The kernel's word.
    caller: Option<Caller>,
}

impl Socket {
    async fn accept(&self) -> io::Result<Accepted> {
        match self {
            Socket::Unix(listener) => {
                let (stream, _) = listener.accept().await?;
                let known = stream.peer_cred()?;
                let caller = Caller { uid: known.uid(), gid: known.gid(), address: None };
                Ok(Accepted { stream: Box::new(stream), peer: Peer::User(caller.uid), caller: Some(caller) })
            }
            Socket::Tcp(listener) => {
                let (stream, address) = listener.accept().await?;
                let peer = Peer::at(address.ip());
                Ok(Accepted { stream: Box::new(stream), peer, caller: None })
            }
        }
    }
}

/// How the requests at one socket are answered.
struct Answers {
    judge: Judge,
    router: TowerToHyperService<Router>,
    connections: Arc<Connections>,
}

async fn take_all(socket: Socket, answers: Arc<Answers>, mut stopping: watch::Receiver<bool>) {
    let mut open = JoinSet::new();
    let seen = stopping.clone();
    loop {
        tokio::select! {
            accepted = socket.accept() => match accepted {
                Ok(Accepted { stream, peer, caller }) => {
                    if let Some(place) = answers.connections.admit(peer) {
                        open.spawn(Arc::clone(&answers).hold(stream, place, caller, seen.clone()));
                    }
                }
                // Somebody hung up before: nobody else waits for that.
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
                Err(error) => {
                    tracing::warn!(%error, "a connection was not accepted");
                    tokio::time::sleep(ACCEPT_AGAIN).await;
                }
            },
            Some(_) = open.join_next() => {}
            () = stopped(&mut stopping) => break,
        }
    }
    drop(socket);
    while open.join_next().await.is_some() {}
}

/// Completes when the service is to end.
async fn stopped(stopping: &mut watch::Receiver<bool>) {
    let _ = stopping.wait_for(|stop| *stop).await;
}

impl Answers {
    /// One connection, until it is over or has to go.
    async fn hold(
        self: Arc<Answers>,
        stream: Box<dyn Stream>,
        place: Arc<Place>,
        caller: Option<Caller>,
        mut stopping: watch::Receiver<bool>,
    ) {
        let service = service_fn(|request| self.answer(&place, caller, request));
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEAD_WITHIN)
            .max_buf_size(HEAD_BYTES_MAX)
            .serve_connection(TokioIo::new(stream), service);
        tokio::pin!(connection);
        let mut is_stopping = false;
        loop {
            tokio::select! {
                // Who hangs up in the middle knows it himself.
                _ = connection.as_mut() => return,
                () = place.must_close() => return,
                () = stopped(&mut stopping), if !is_stopping => {
                    is_stopping = true;
                    connection.as_mut().graceful_shutdown();
                }
            }
        }
    }

    async fn answer(
        &self,
        place: &Arc<Place>,
        caller: Option<Caller>,
        request: hyper::Request<Incoming>,
    ) -> Result<Response, Infallible> {
        let request = request.map(Body::new);
        match self.judge.admit(place, caller, request).await {
            // The reply is whole in memory when the router is done.
            Ok((request, _working)) => self.router.call(request).await,
            Err(instead) => Ok(instead),
        }
    }
}

async fn no_such_route(request: Request) -> Refusal {
    let message = format!("{} {} is not part of this service's API", request.method(), request.uri().path());
    Refusal(user(ErrorCode::NoSuchRoute, message, "use programs of one Forebay version"))
}
