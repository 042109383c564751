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
use crate::proof::Challenge;

/// How often to try a service that is being started again.
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

    /// The same of the service at `endpoint`.
    pub fn at(endpoint: Endpoint, limit: Duration) -> Control {
        Control { endpoint, restart: limit, reply: Some(limit) }
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

    /// As [`Control::post`], for calls that reply what they have changed; also whether the service may have acted
    /// before it was asked for this reply. Another was lost then, and what is not there to be changed may be changed
    /// already.
    ///
    /// # Errors
    /// See [`CallError`].
    pub fn post_and_tell<B: Serialize, R: DeserializeOwned>(
        &self,
        path: &str,
        body: &B,
    ) -> Result<(R, bool), CallError> {
        self.call_and_tell(&Request::with_body("POST", path, body)?)
    }

    fn call<R: DeserializeOwned>(&self, request: &Request) -> Result<R, CallError> {
        self.call_and_tell(request).map(|(reply, _)| reply)
    }

    fn call_and_tell<R: DeserializeOwned>(&self, request: &Request) -> Result<(R, bool), CallError> {
        let deadline = Instant::now() + self.restart;
        let mut asked = 0;
        loop {
            let before = asked;
            match self.exchange(request, &mut asked) {
                Err(CallError::Unreachable { .. }) if Instant::now() + RETRY_PERIOD < deadline => {
                    std::thread::sleep(RETRY_PERIOD);
                }
                reply => return Ok((request.result(&reply?)?, before > 0)),
            }
        }
    }

    /// Counts in `asked` how often somebody was there to hear the request.
    fn exchange(&self, request: &Request, asked: &mut u32) -> Result<Reply, CallError> {
        let unreachable = |cause| CallError::Unreachable { endpoint: self.endpoint.clone(), cause };
        match &self.endpoint {
            Endpoint::Unix(socket) => {
                let mut stream = UnixStream::connect(socket).map_err(unreachable)?;
                stream.set_read_timeout(self.reply).map_err(unreachable)?;
                *asked += 1;
                request.exchange(&mut stream).map_err(unreachable)
            }
            Endpoint::Tcp { address, user } => {
                let munge = Munge::load(None)?;
                let mut stream = connect(address).map_err(unreachable)?;
                stream.set_read_timeout(self.reply).map_err(unreachable)?;
                let challenge = Challenge::new(CONTROL).map_err(unreachable)?;
                let reply = challenge.request().exchange(&mut stream).map_err(unreachable)?;
                let is_proven = challenge.check(&reply, &munge, *user);
                is_proven.map_err(|error| unreachable(io::Error::other(error)))?;
                let proven = request.clone().prove(&munge, CONTROL)?;
                *asked += 1;
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
    fn who_is_asked_again_after_a_lost_reply_may_have_acted_before() {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("control.sock");
        let listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        let service = std::thread::spawn(move || {
            let of = |body: &str| format!("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n{body}");
            for reply in [String::new(), of("0"), of("7")] {
                let (mut caller, _) = listener.accept().unwrap();
                let mut heard = [0; 4096];
                assert!(std::io::Read::read(&mut caller, &mut heard).unwrap() > 0);
                std::io::Write::write_all(&mut caller, reply.as_bytes()).unwrap();
            }
        });
        let endpoint = Endpoint::Unix(socket);
        let control = Control { endpoint, restart: Duration::from_secs(30), reply: None };
        let ask = || control.post_and_tell::<_, u32>("/v1/stages/change", &1).unwrap();
        assert_eq!((ask(), ask()), ((0, true), (7, false)));
        service.join().unwrap();
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
