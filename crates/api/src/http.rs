//! HTTP/1.1 as our services are asked: one request with a JSON body on one connection, then its reply; over the network
//! after the service's proof ([`crate::proof`]). Nothing to pool, nothing that a restart of the service could break.
//! Requests are made and replies read here; what carries the bytes is the caller's.
//!
//! **Invariant:** a reply that is cut off is no reply: its length is promised in its head.

use std::io::{self, Read, Write};

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::binding::binding;
use crate::call::CallError;
use crate::munge::{Munge, MungeError};

/// The scheme in the header `Authorization`: `Munge CREDENTIAL`.
pub const SCHEME: &str = "Munge ";

/// The largest reply that is read, bytes: far above any list of a large site.
const REPLY_BYTES_MAX: usize = 64 << 20;

/// A reply has a handful of headers.
const HEADERS_MAX: usize = 32;

/// What is read at once.
const CHUNK: usize = 16 << 10;

/// A request.
#[derive(Clone, Debug)]
pub struct Request {
    method: &'static str,
    path: String,
    credential: Option<String>,
    body: Vec<u8>,
    is_last: bool,
}

impl Request {
    /// A request without a body. The path, with its query, is escaped already.
    pub fn new(method: &'static str, path: &str) -> Request {
        Request { method, path: path.to_owned(), credential: None, body: Vec::new(), is_last: true }
    }

    /// The same where the connection is to be used for another one.
    #[must_use]
    pub(crate) fn before_another(self) -> Request {
        Request { is_last: false, ..self }
    }

    /// A request with a JSON body.
    ///
    /// # Errors
    /// [`CallError::Garbled`]: it is no JSON.
    pub fn with_body(
        method: &'static str,
        path: &str,
        body: &(impl Serialize + ?Sized),
    ) -> Result<Request, CallError> {
        let body = serde_json::to_vec(body)
            .map_err(|e| CallError::Garbled { path: path.into(), reason: format!("the request: {e}") })?;
        Ok(Request { body, ..Request::new(method, path) })
    }

    /// The same with the proof of who asks, for this request to the service `audience` alone. Blocks while munged
    /// works.
    ///
    /// # Errors
    /// munged does not answer.
    pub fn prove(self, munge: &Munge, audience: &str) -> Result<Request, MungeError> {
        let credential = munge.encode(&binding(audience, self.method, &self.path, &self.body))?;
        Ok(Request { credential: Some(credential), ..self })
    }

    /// The bytes that go to the service.
    pub fn encode(&self) -> Vec<u8> {
        let proof = self.credential.as_ref().map(|text| format!("Authorization: {SCHEME}{text}\r\n"));
        let head = format!(
            "{} {} HTTP/1.1\r\nHost: forebay\r\nConnection: {}\r\nContent-Type: application/json\r\n\
             Content-Length: {}\r\n{}\r\n",
            self.method,
            self.path,
            if self.is_last { "close" } else { "keep-alive" },
            self.body.len(),
            proof.unwrap_or_default()
        );
        [head.as_bytes(), &self.body].concat()
    }

    /// Sends the request and reads the whole reply, blocking.
    ///
    /// # Errors
    /// The stream's; `UnexpectedEof` for a reply that is cut off, `InvalidData` for what is no reply.
    pub fn exchange(&self, stream: &mut (impl Read + Write)) -> io::Result<Reply> {
        // A service may refuse, and close, before it has read all: then its reply counts.
        let sent = stream.write_all(&self.encode());
        let mut incoming = Incoming::default();
        let received = loop {
            match stream.read(incoming.room()) {
                Ok(count) => match incoming.received(count) {
                    Ok(None) => {}
                    Ok(Some(reply)) => return Ok(reply),
                    Err(error) => break error,
                },
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => break error,
            }
        };
        sent.and(Err(received))
    }

    /// What the reply to this request says.
    ///
    /// # Errors
    /// The service refused, or the reply is not understood.
    pub fn result<R: DeserializeOwned>(&self, reply: &Reply) -> Result<R, CallError> {
        let garbled = |e: serde_json::Error| CallError::Garbled {
            path: self.path.clone(),
            reason: format!("status {}: {e}", reply.status),
        };
        match reply.status {
            200..300 => serde_json::from_slice(&reply.body).map_err(garbled),
            _ => Err(CallError::Refused(serde_json::from_slice(&reply.body).map_err(garbled)?)),
        }
    }
}

/// A reply.
#[derive(Debug, PartialEq, Eq)]
pub struct Reply {
    status: u16,
    body: Vec<u8>,
}

/// A reply of which the beginning is here.
#[derive(Debug, Default)]
pub struct Incoming {
    bytes: Vec<u8>,
    filled: usize,
    head: Option<Head>,
}

/// What the head of a reply says.
#[derive(Clone, Copy, Debug)]
struct Head {
    status: u16,
    /// Where the body begins.
    length: usize,
    /// Where it ends.
    whole: usize,
}

impl Incoming {
    /// Where the next bytes go.
    pub fn room(&mut self) -> &mut [u8] {
        self.bytes.resize(self.filled + CHUNK, 0);
        &mut self.bytes[self.filled..]
    }

    /// Takes note of `count` new bytes in [`Incoming::room`], none at the end of the stream. The reply, if that is all
    /// of it.
    ///
    /// # Errors
    /// `UnexpectedEof` for a reply that is cut off, `InvalidData` for what is no reply.
    pub fn received(&mut self, count: usize) -> io::Result<Option<Reply>> {
        self.filled += count;
        if self.head.is_none() {
            self.head = head(&self.bytes[..self.filled])?;
        }
        match self.head {
            Some(head) if self.filled >= head.whole => {
                self.bytes.truncate(head.whole);
                Ok(Some(Reply { status: head.status, body: self.bytes.split_off(head.length) }))
            }
            _ if count == 0 => Err(io::ErrorKind::UnexpectedEof.into()),
            _ => Ok(None),
        }
    }
}

/// The head that the bytes begin with; `None` where it goes on.
fn head(bytes: &[u8]) -> io::Result<Option<Head>> {
    let invalid = |why: &'static str| io::Error::new(io::ErrorKind::InvalidData, why);
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut response = httparse::Response::new(&mut headers);
    let parsed = response.parse(bytes).map_err(|e| io::Error::new(io::ErrorKind::InvalidData, e))?;
    let httparse::Status::Complete(length) = parsed else { return Ok(None) };
    let promised = response.headers.iter().find(|header| header.name.eq_ignore_ascii_case("content-length"));
    let promised =
        promised.and_then(|header| std::str::from_utf8(header.value).ok()?.trim().parse::<usize>().ok());
    let promised = promised.ok_or_else(|| invalid("a reply without Content-Length"))?;
    if promised > REPLY_BYTES_MAX {
        return Err(invalid("a reply that is too long"));
    }
    Ok(Some(Head { status: response.code.unwrap_or_default(), length, whole: length + promised }))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A service that has read nothing of the request when it replies, and gives its reply in pieces.
    struct Stream<'a>(&'a [u8]);

    impl Read for Stream<'_> {
        fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
            self.0.take(5).read(room).inspect(|count| self.0 = &self.0[*count..])
        }
    }

    impl Write for Stream<'_> {
        fn write(&mut self, _bytes: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::BrokenPipe.into())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn decode(bytes: &[u8]) -> io::Result<Reply> {
        let mut incoming = Incoming::default();
        for piece in bytes.chunks(7) {
            incoming.room()[..piece.len()].copy_from_slice(piece);
            if let Some(reply) = incoming.received(piece.len())? {
                return Ok(reply);
            }
        }
        incoming.received(0).map(|reply| reply.expect("the end is an error or a reply"))
    }

    #[test]
    fn a_whole_reply_is_read() {
        let reply = decode(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}").unwrap();
        assert_eq!(reply, Reply { status: 200, body: b"{}".to_vec() });
    }

    #[test]
    fn a_reply_that_is_cut_off_is_no_reply() {
        let kind = |bytes: &[u8]| decode(bytes).unwrap_err().kind();
        assert_eq!(kind(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n{}"), io::ErrorKind::UnexpectedEof);
        assert_eq!(kind(b"HTTP/1.1 200 OK\r\nConte"), io::ErrorKind::UnexpectedEof);
        assert_eq!(kind(b""), io::ErrorKind::UnexpectedEof);
        assert_eq!(kind(b"220 mail ready\r\n\r\n"), io::ErrorKind::InvalidData);
        assert_eq!(kind(b"HTTP/1.1 200 OK\r\n\r\n{}"), io::ErrorKind::InvalidData);
        assert_eq!(
            kind(b"HTTP/1.1 200 OK\r\nContent-Length: 18446744073709551615\r\n\r\n{}"),
            io::ErrorKind::InvalidData
        );
    }

    #[test]
    fn a_refusal_counts_though_the_request_was_not_read() {
        let request = Request::new("GET", "/v1/status");
        let refused = b"HTTP/1.1 400 Bad Request\r\ncontent-length: 2\r\n\r\n{}";
        assert_eq!(request.exchange(&mut Stream(refused)).unwrap().status, 400);
        let broken = request.exchange(&mut Stream(b"")).unwrap_err();
        assert_eq!(broken.kind(), io::ErrorKind::BrokenPipe);
    }
}
