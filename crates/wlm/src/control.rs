//! Calls of the control service.

use std::io;
use std::net::{TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use daemon::munge::{self, Munge, MungeError};
use serde::Serialize;
use serde::de::DeserializeOwned;
use wire::control::ApiError;

use crate::endpoint::Endpoint;
use crate::http::{self, Reply, Request};

/// How often a service that is being started again is tried.
const RETRY_PERIOD: Duration = Duration::from_millis(100);

/// How long a connection over the network may take to be made.
const CONNECT_LIMIT: Duration = Duration::from_secs(5);

/// Whom credentials are made for.
const AUDIENCE: &str = "control";

/// The control service, and how patient the caller is.
#[derive(Debug)]
pub struct Control {
    endpoint: Endpoint,
    restart: Duration,
    reply: Option<Duration>,
}

/// Why a call has no result. The text is one line for people.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// Nobody answers.
    #[error(
        "the control service does not answer at {endpoint} ({source}); ask an administrator to start forebay-control"
    )]
    Unreachable {
        /// Where it was looked for.
        endpoint: Endpoint,
        /// Why.
        source: io::Error,
    },
    /// It refused.
    #[error(transparent)]
    Refused(#[from] ApiError),
    /// The reply is not what the API promises.
    #[error(
        "the reply of the control service to {path} is not understood ({reason}); use programs of one Forebay version"
    )]
    Garbled {
        /// What was asked.
        path: String,
        /// What is wrong with it.
        reason: String,
    },
    /// This user cannot prove who he is.
    #[error("{0}; ask an administrator to start munged on this machine")]
    Unproven(#[from] MungeError),
}

impl CallError {
    /// Whether the service knows no session of that token.
    pub fn is_no_session(&self) -> bool {
        matches!(self, CallError::Refused(error) if error.code == "no_such_session")
    }
}

impl Control {
    /// For calls that end within `limit`, whatever happens.
    pub fn within(limit: Duration) -> Control {
        Control { endpoint: Endpoint::find(), restart: limit, reply: Some(limit) }
    }

    /// For calls that take as long as they take. A service that does not answer is tried again for `restart`, since it may
    /// just be starting again; every call is idempotent.
    pub fn patient(restart: Duration) -> Control {
        Control { endpoint: Endpoint::find(), restart, reply: None }
    }

    /// For calls that a program in a job makes: as patient, but a reply that does not come within `reply` is asked for again.
    pub fn of_program(restart: Duration, reply: Duration) -> Control {
        Control { endpoint: Endpoint::of_program(), restart, reply: Some(reply) }
    }

    /// `GET path`.
    ///
    /// # Errors
    /// See [`CallError`]; so for every method.
    pub fn get<R: DeserializeOwned>(&self, path: &str) -> Result<R, CallError> {
        self.call("GET", path, &[])
    }

    /// `DELETE path`.
    ///
    /// # Errors
    /// See [`CallError`].
    pub fn delete<R: DeserializeOwned>(&self, path: &str) -> Result<R, CallError> {
        self.call("DELETE", path, &[])
    }

    /// `POST path` with a JSON body.
    ///
    /// # Errors
    /// See [`CallError`].
    pub fn post<B: Serialize, R: DeserializeOwned>(&self, path: &str, body: &B) -> Result<R, CallError> {
        let garbled = |e: serde_json::Error| CallError::Garbled { path: path.into(), reason: e.to_string() };
        self.call("POST", path, &serde_json::to_vec(body).map_err(garbled)?)
    }

    fn call<R: DeserializeOwned>(&self, method: &str, path: &str, body: &[u8]) -> Result<R, CallError> {
        let deadline = Instant::now() + self.restart;
        let reply = loop {
            match self.exchange(method, path, body) {
                Err(CallError::Unreachable { .. }) if Instant::now() + RETRY_PERIOD < deadline => {
                    std::thread::sleep(RETRY_PERIOD);
                }
                reply => break reply?,
            }
        };
        let garbled = |e: serde_json::Error| CallError::Garbled {
            path: path.into(),
            reason: format!("status {}: {e}", reply.status),
        };
        if (200..300).contains(&reply.status) {
            serde_json::from_slice(&reply.body).map_err(garbled)
        } else {
            Err(CallError::Refused(serde_json::from_slice(&reply.body).map_err(garbled)?))
        }
    }

    fn exchange(&self, method: &str, path: &str, body: &[u8]) -> Result<Reply, CallError> {
        let mut request = Request { method, path, authorization: None, body };
        let unreachable = |source| CallError::Unreachable { endpoint: self.endpoint.clone(), source };
        match &self.endpoint {
            Endpoint::Unix(socket) => {
                let mut stream = UnixStream::connect(socket).map_err(unreachable)?;
                stream.set_read_timeout(self.reply).map_err(unreachable)?;
                http::exchange(&mut stream, &request).map_err(unreachable)
            }
            Endpoint::Tcp(address) => {
                let credential = credential(method, path, body)?;
                request.authorization = Some(&credential);
                let mut stream = connect(address).map_err(unreachable)?;
                stream.set_read_timeout(self.reply).map_err(unreachable)?;
                http::exchange(&mut stream, &request).map_err(unreachable)
            }
        }
    }
}

/// The path of a session's resource: `session_path("7", "/setup")`.
pub fn session_path(token: &str, rest: &str) -> String {
    format!("/v1/sessions/{}{rest}", escape(token))
}

/// Escapes what may not stand in one part of a path (RFC 3986, section 2.3).
pub fn escape(part: &str) -> String {
    let mut escaped = String::with_capacity(part.len());
    for byte in part.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => escaped.push(byte.into()),
            _ => escaped.push_str(&format!("%{byte:02X}")),
        }
    }
    escaped
}

fn connect(address: &str) -> io::Result<TcpStream> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for address in address.to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, CONNECT_LIMIT) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// The value of the header that proves who asks, for this request alone.
fn credential(method: &str, path: &str, body: &[u8]) -> Result<String, CallError> {
    let credential = Munge::load(None)?.encode(&munge::binding(AUDIENCE, method, path, body))?;
    Ok(format!("Munge {credential}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_cannot_leave_its_place_in_the_path() {
        assert_eq!(session_path("7", "/setup"), "/v1/sessions/7/setup");
        assert_eq!(session_path("my-buf_1.0", ""), "/v1/sessions/my-buf_1.0");
        assert_eq!(session_path("../x y", ""), "/v1/sessions/..%2Fx%20y");
    }

    #[test]
    fn a_service_that_is_not_there_is_named_in_one_line() {
        let control = Control {
            endpoint: Endpoint::Unix("/nowhere/control.sock".into()),
            restart: Duration::ZERO,
            reply: None,
        };
        let error = control.get::<serde_json::Value>("/v1/status").unwrap_err().to_string();
        assert!(error.contains("/nowhere/control.sock") && !error.contains('\n'), "{error}");
    }
}
