//! One HTTP/1.1 request on one connection, blocking. The connection is closed after the reply, so the reply ends where the
//! stream does, and a length that does not agree shows a service that died while it answered.

use std::io::{self, Read, Write};

/// The largest reply that is read, bytes: far above any list of a large site.
const REPLY_BYTES_MAX: u64 = 64 << 20;

/// A reply has a handful of headers.
const HEADERS_MAX: usize = 32;

/// A request.
#[derive(Debug)]
pub struct Request<'a> {
    /// `GET`, `POST`, ...
    pub method: &'a str,
    /// The path with its query, already escaped.
    pub path: &'a str,
    /// The value of the header `Authorization`.
    pub authorization: Option<&'a str>,
    /// A JSON text, or nothing.
    pub body: &'a [u8],
}

/// A reply.
#[derive(Debug, PartialEq, Eq)]
pub struct Reply {
    /// The status code.
    pub status: u16,
    /// The body.
    pub body: Vec<u8>,
}

/// Sends the request and reads the whole reply.
///
/// # Errors
/// The stream's; `UnexpectedEof` for a reply that is cut off, `InvalidData` for what is no reply.
pub fn exchange(stream: &mut (impl Read + Write), request: &Request<'_>) -> io::Result<Reply> {
    stream.write_all(&encode(request))?;
    let mut bytes = Vec::new();
    stream.take(REPLY_BYTES_MAX).read_to_end(&mut bytes)?;
    decode(bytes)
}

fn encode(request: &Request<'_>) -> Vec<u8> {
    let authorization =
        request.authorization.map(|value| format!("Authorization: {value}\r\n")).unwrap_or_default();
    let head = format!(
        "{} {} HTTP/1.1\r\nHost: forebay\r\nConnection: close\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\n{authorization}\r\n",
        request.method,
        request.path,
        request.body.len()
    );
    [head.as_bytes(), request.body].concat()
}

fn decode(mut bytes: Vec<u8>) -> io::Result<Reply> {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut head = httparse::Response::new(&mut headers);
    let parsed = head.parse(&bytes).map_err(|e| io::Error::new(io::ErrorKind::InvalidData, e))?;
    let httparse::Status::Complete(length) = parsed else { return Err(io::ErrorKind::UnexpectedEof.into()) };
    let status = head.code.unwrap_or_default();
    let promised = head.headers.iter().find(|header| header.name.eq_ignore_ascii_case("content-length"));
    let promised =
        promised.and_then(|header| std::str::from_utf8(header.value).ok()?.trim().parse::<usize>().ok());
    bytes.drain(..length);
    match promised {
        Some(promised) if promised != bytes.len() => Err(io::ErrorKind::UnexpectedEof.into()),
        Some(_) => Ok(Reply { status, body: bytes }),
        None => Err(io::Error::new(io::ErrorKind::InvalidData, "a reply without Content-Length")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_whole_reply_is_read() {
        let reply = decode(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}".to_vec()).unwrap();
        assert_eq!(reply, Reply { status: 200, body: b"{}".to_vec() });
    }

    #[test]
    fn a_reply_that_is_cut_off_is_no_reply() {
        let kind = |bytes: &[u8]| decode(bytes.to_vec()).unwrap_err().kind();
        assert_eq!(kind(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n{}"), io::ErrorKind::UnexpectedEof);
        assert_eq!(kind(b"HTTP/1.1 200 OK\r\nConte"), io::ErrorKind::UnexpectedEof);
        assert_eq!(kind(b""), io::ErrorKind::UnexpectedEof);
        assert_eq!(kind(b"220 mail ready\r\n\r\n"), io::ErrorKind::InvalidData);
    }
}
