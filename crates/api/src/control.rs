//! Calls of the control service, blocking.

use std::io;
use std::net::{TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::call::CallError;
use crate::endpoint::{CONNECT_WITHIN, CONTROL, Endpoint};
use crate::http::{Reply, Request};
use crate::munge::Munge;

/// How often a service that is being started again is tried.
const RETRY_PERIOD: Duration = Duration::from_millis(100);

/// The control service, and how patient the caller is.
#[derive(Debug)]
pub struct Control {
    endpoint: Endpoint,
    restart: Duration,
    reply: Option<Duration>,
}

impl Control {
    /// For calls that end within `limit`, whatever happens.
    pub fn within(limit: Duration) -> Control {
        Control { endpoint: Endpoint::find(), restart: limit, reply: Some(limit) }
    }

    /// For calls that take as long as they take. A service that does not answer is tried again for `restart`, since it
    /// may just be starting again; every call is idempotent.
    pub fn patient(restart: Duration) -> Control {
        Control { endpoint: Endpoint::find(), restart, reply: None }
    }

    /// For calls that a program in a job makes: as patient, but a reply that does not come within `reply` is asked for
    /// again.
    pub fn of_program(restart: Duration, reply: Duration) -> Control {
        Control { endpoint: Endpoint::of_program(), restart, reply: Some(reply) }
    }

    /// `GET path`.
    ///
    /// # Errors
    /// See [`CallError`]; so for every method.
    pub fn get<R: DeserializeOwned>(&self, path: &str) -> Result<R, CallError> {
        self.call(&Request::new("GET", path))
    }

    /// `DELETE path`.
    ///
    /// # Errors
    /// See [`CallError`].
    pub fn delete<R: DeserializeOwned>(&self, path: &str) -> Result<R, CallError> {
        self.call(&Request::new("DELETE", path))
    }

    /// `POST path` with a JSON body.
    ///
    /// # Errors
    /// See [`CallError`].
    pub fn post<B: Serialize, R: DeserializeOwned>(&self, path: &str, body: &B) -> Result<R, CallError> {
        self.call(&Request::with_body("POST", path, body)?)
    }

    fn call<R: DeserializeOwned>(&self, request: &Request) -> Result<R, CallError> {
        let deadline = Instant::now() + self.restart;
        loop {
            match self.exchange(request) {
                Err(CallError::Unreachable { .. }) if Instant::now() + RETRY_PERIOD < deadline => {
                    std::thread::sleep(RETRY_PERIOD);
                }
                reply => return request.result(&reply?),
            }
        }
    }

    fn exchange(&self, request: &Request) -> Result<Reply, CallError> {
        let unreachable = |cause| CallError::Unreachable { endpoint: self.endpoint.clone(), cause };
        match &self.endpoint {
            Endpoint::Unix(socket) => {
                let mut stream = UnixStream::connect(socket).map_err(unreachable)?;
                stream.set_read_timeout(self.reply).map_err(unreachable)?;
                request.exchange(&mut stream).map_err(unreachable)
            }
            Endpoint::Tcp(address) => {
                let proven = request.clone().prove(&Munge::load(None)?, CONTROL)?;
                let mut stream = connect(address).map_err(unreachable)?;
                stream.set_read_timeout(self.reply).map_err(unreachable)?;
                proven.exchange(&mut stream).map_err(unreachable)
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
        match TcpStream::connect_timeout(&address, CONNECT_WITHIN) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
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
