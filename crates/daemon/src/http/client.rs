//! One call, one connection: nothing to pool, nothing that a restart of the server could break.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use super::identity::SCHEME;
use crate::munge::{Munge, binding};

use axum::body::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::{Method, Request, StatusCode, header};
use hyper_util::rt::TokioIo;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use wire::control::ApiError;

/// The largest reply that is read, bytes: far above any status of ours.
const REPLY_BYTES_MAX: usize = 64 << 20;

/// Calls one service.
#[derive(Clone, Debug)]
pub struct Client {
    server: Server,
    timeout: Option<Duration>,
}

/// Where a service is, and how it is told who calls.
#[derive(Clone, Debug)]
enum Server {
    Unix(PathBuf),
    Tcp { address: String, audience: String, munge: Munge },
}

/// How long the other machine may take to accept a connection. A living one does in milliseconds.
const CONNECT_WITHIN: Duration = Duration::from_secs(5);

/// Why a call has no result.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// There is no socket, nobody listens on it, or the connection broke before the whole reply came. The service may
    /// or may not have acted: repeat the call, which is idempotent.
    #[error("no reply")]
    Unreachable(#[source] io::Error),
    /// The service refused.
    #[error(transparent)]
    Api(ApiError),
    /// The reply is not what the API promises, as from another version.
    #[error("the reply is not understood: {0}")]
    Garbled(String),
}

impl Client {
    /// A client of the service that listens on `socket`. Connects at each call.
    pub fn new(socket: impl Into<PathBuf>) -> Client {
        Client { server: Server::Unix(socket.into()), timeout: None }
    }

    /// A client of the service `audience` that listens on the TCP address `address`; `munge` says who we are.
    pub fn over_tcp(address: impl Into<String>, audience: impl Into<String>, munge: Munge) -> Client {
        let server = Server::Tcp { address: address.into(), audience: audience.into(), munge };
        Client { server, timeout: None }
    }

    /// The same, but a call that takes longer than `timeout` is [`CallError::Unreachable`].
    #[must_use]
    pub fn with_timeout(self, timeout: Duration) -> Client {
        Client { timeout: Some(timeout), ..self }
    }

    /// `GET path`.
    ///
    /// # Errors
    /// See [`CallError`]; so for every method.
    pub async fn get<R: DeserializeOwned>(&self, path: &str) -> Result<R, CallError> {
        self.call(Method::GET, path, Bytes::new()).await
    }

    /// `DELETE path`.
    ///
    /// # Errors
    /// See [`CallError`].
    pub async fn delete<R: DeserializeOwned>(&self, path: &str) -> Result<R, CallError> {
        self.call(Method::DELETE, path, Bytes::new()).await
    }

    /// `POST path` with a JSON body.
    ///
    /// # Errors
    /// See [`CallError`].
    pub async fn post<B: Serialize + ?Sized, R: DeserializeOwned>(
        &self,
        path: &str,
        body: &B,
    ) -> Result<R, CallError> {
        self.call(Method::POST, path, json(body)?).await
    }

    /// `PUT path` with a JSON body.
    ///
    /// # Errors
    /// See [`CallError`].
    pub async fn put<B: Serialize + ?Sized, R: DeserializeOwned>(
        &self,
        path: &str,
        body: &B,
    ) -> Result<R, CallError> {
        self.call(Method::PUT, path, json(body)?).await
    }

    async fn call<R: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: Bytes,
    ) -> Result<R, CallError> {
        let exchange = self.exchange(method, path, body);
        let (status, reply) = match self.timeout {
            None => exchange.await?,
            Some(limit) => tokio::time::timeout(limit, exchange)
                .await
                .map_err(|_| CallError::Unreachable(io::ErrorKind::TimedOut.into()))??,
        };
        let garbled = |e: serde_json::Error| {
            CallError::Garbled(format!("{e}, in a reply with status {status} to {path}"))
        };
        if status.is_success() {
            serde_json::from_slice(&reply).map_err(garbled)
        } else {
            Err(CallError::Api(serde_json::from_slice(&reply).map_err(garbled)?))
        }
    }

    async fn exchange(
        &self,
        method: Method,
        path: &str,
        body: Bytes,
    ) -> Result<(StatusCode, Bytes), CallError> {
        let mut request = Request::builder()
            .method(method.clone())
            .uri(path)
            .header(header::HOST, "forebay")
            .header(header::CONTENT_TYPE, "application/json");
        match &self.server {
            Server::Unix(socket) => {
                let request = finish(request, path, body)?;
                let stream = UnixStream::connect(socket).await.map_err(CallError::Unreachable)?;
                talk(stream, request).await
            }
            Server::Tcp { address, audience, munge } => {
                let bound = binding(audience, method.as_str(), path, &body);
                let credential = credential(munge.clone(), bound).await?;
                request = request.header(header::AUTHORIZATION, format!("{SCHEME}{credential}"));
                let request = finish(request, path, body)?;
                let connected = tokio::time::timeout(CONNECT_WITHIN, TcpStream::connect(address)).await;
                let stream = connected
                    .unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
                    .map_err(CallError::Unreachable)?;
                talk(stream, request).await
            }
        }
    }
}

fn finish(
    request: hyper::http::request::Builder,
    path: &str,
    body: Bytes,
) -> Result<Request<Full<Bytes>>, CallError> {
    request.body(Full::new(body)).map_err(|e| CallError::Garbled(format!("{path} is no path: {e}")))
}

/// A credential of this process. The library talks to munged and blocks.
async fn credential(munge: Munge, bound: Vec<u8>) -> Result<String, CallError> {
    let made = tokio::task::spawn_blocking(move || munge.encode(&bound)).await;
    made.map_err(io::Error::other)
        .and_then(|made| made.map_err(io::Error::other))
        .map_err(CallError::Unreachable)
}

/// One request and its reply.
async fn talk(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    request: Request<Full<Bytes>>,
) -> Result<(StatusCode, Bytes), CallError> {
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(broken)?;
    let driver = tokio::spawn(connection);
    let reply = async {
        let reply = sender.send_request(request).await.map_err(broken)?;
        let status = reply.status();
        let body = Limited::new(reply.into_body(), REPLY_BYTES_MAX).collect().await;
        let body = body.map_err(|e| CallError::Unreachable(io::Error::other(e)))?;
        Ok((status, body.to_bytes()))
    }
    .await;
    driver.abort();
    reply
}

fn json<B: Serialize + ?Sized>(body: &B) -> Result<Bytes, CallError> {
    serde_json::to_vec(body)
        .map(Bytes::from)
        .map_err(|e| CallError::Garbled(format!("the request is no JSON: {e}")))
}

fn broken(error: hyper::Error) -> CallError {
    CallError::Unreachable(io::Error::new(io::ErrorKind::ConnectionAborted, error))
}
