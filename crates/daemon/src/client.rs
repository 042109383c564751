//! Calls of a service by another, and by commands that run on tokio: one call, one connection.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use api::CallError;
use api::endpoint::{CONNECT_WITHIN, Endpoint};
use api::http::{Incoming, Reply, Request};
use api::munge::{Munge, ServiceUser};
use api::proof::Challenge;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream};

/// Calls one service.
#[derive(Clone, Debug)]
pub struct Client {
    endpoint: Endpoint,
    /// What the service is called in credentials, and what makes them: asked for over TCP.
    munge: Option<(String, Munge)>,
    timeout: Option<Duration>,
}

impl Client {
    /// A client of the service that listens on `socket`. Connects at each call.
    pub fn new(socket: impl Into<PathBuf>) -> Client {
        Client { endpoint: Endpoint::Unix(socket.into()), munge: None, timeout: None }
    }

    /// A client of the service `audience` that listens on the TCP address `address`; `munge` says who we are, and
    /// whether the service is one of `user`'s.
    pub fn over_tcp(
        address: impl Into<String>,
        audience: impl Into<String>,
        munge: Munge,
        user: ServiceUser,
    ) -> Client {
        let munge = Some((audience.into(), munge));
        Client { endpoint: Endpoint::Tcp { address: address.into(), user }, munge, timeout: None }
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
        self.call(Request::new("GET", path)).await
    }

    /// `DELETE path`.
    ///
    /// # Errors
    /// See [`CallError`].
    pub async fn delete<R: DeserializeOwned>(&self, path: &str) -> Result<R, CallError> {
        self.call(Request::new("DELETE", path)).await
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
        self.call(Request::with_body("POST", path, body)?).await
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
        self.call(Request::with_body("PUT", path, body)?).await
    }

    async fn call<R: DeserializeOwned>(&self, request: Request) -> Result<R, CallError> {
        let exchange = self.exchange(&request);
        let reply = match self.timeout {
            None => exchange.await?,
            Some(limit) => tokio::time::timeout(limit, exchange)
                .await
                .unwrap_or_else(|_| Err(self.unreachable(io::ErrorKind::TimedOut.into())))?,
        };
        request.result(&reply)
    }

    async fn exchange(&self, request: &Request) -> Result<Reply, CallError> {
        let unreachable = |cause| self.unreachable(cause);
        match &self.endpoint {
            Endpoint::Unix(socket) => {
                let mut stream = UnixStream::connect(socket).await.map_err(unreachable)?;
                talk(&mut stream, request).await.map_err(unreachable)
            }
            Endpoint::Tcp { address, user } => {
                let connected = tokio::time::timeout(CONNECT_WITHIN, TcpStream::connect(address)).await;
                let mut stream =
                    connected.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into())).map_err(unreachable)?;
                let proven = self.prove(&mut stream, *user, request.clone()).await?;
                talk(&mut stream, &proven).await.map_err(unreachable)
            }
        }
    }

    /// Lets the service prove itself on `stream`; then the request with the proof of who asks.
    async fn prove(
        &self,
        stream: &mut TcpStream,
        user: ServiceUser,
        request: Request,
    ) -> Result<Request, CallError> {
        let unreachable = |cause| self.unreachable(cause);
        let Some((audience, munge)) = self.munge.clone() else { return Ok(request) };
        let challenge = Challenge::new(&audience).map_err(unreachable)?;
        let reply = talk(stream, &challenge.request()).await.map_err(unreachable)?;
        // The library talks to munged and blocks.
        let proven = tokio::task::spawn_blocking(move || {
            let is_proven = challenge.check(&reply, &munge, user).map_err(io::Error::other);
            is_proven.map(|()| request.prove(&munge, &audience))
        });
        Ok(proven.await.map_err(io::Error::other).and_then(|proven| proven).map_err(unreachable)??)
    }

    fn unreachable(&self, cause: io::Error) -> CallError {
        CallError::Unreachable { endpoint: self.endpoint.clone(), cause }
    }
}

/// [`Request::exchange`] on tokio.
async fn talk(stream: &mut (impl AsyncRead + AsyncWrite + Unpin), request: &Request) -> io::Result<Reply> {
    let sent = stream.write_all(&request.encode()).await;
    let mut incoming = Incoming::default();
    let received = loop {
        match stream.read(incoming.room()).await.and_then(|count| incoming.received(count)) {
            Ok(None) => {}
            Ok(Some(reply)) => return Ok(reply),
            Err(error) => break error,
        }
    };
    sent.and(Err(received))
}
