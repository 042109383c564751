//! Sockets of both kinds, set up as the data path wants them.

use std::io::{self, IoSlice, Read, Write};
use std::net::{IpAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::retry_on_intr;
use rustix::net::sockopt;

use super::encrypted::{Ciphers, Encrypted};

/// How long the other side may be silent before its kernel is asked whether it is still there; then how often, and how
/// often in vain. A machine that lost its power or its cable says nothing: it is given up after 11 s.
const PROBE_AFTER: Duration = Duration::from_secs(5);
const PROBE_EVERY: Duration = Duration::from_secs(2);
const PROBES: u32 = 3;
const SILENT_MAX: Duration = Duration::from_secs(11);

/// A byte stream to the other side.
#[derive(Debug)]
pub enum Stream {
    /// Another machine, or another process of this one where no descriptor is needed.
    Tcp(TcpStream),
    /// A process of the same machine; can carry file descriptors.
    Unix(UnixStream),
    /// As `Tcp`, and nobody in between reads or changes it.
    Encrypted(Encrypted),
}

impl Stream {
    /// A connection over TCP as both sides want it: nothing is held back to fill packets, as requests are small and
    /// each waits for its answer; and it breaks when the other machine is silent for 11 s, though nobody hung up.
    ///
    /// # Errors
    /// The errno of `setsockopt`.
    pub fn tcp(stream: TcpStream) -> io::Result<Stream> {
        stream.set_nodelay(true)?;
        sockopt::set_socket_keepalive(&stream, true)?;
        sockopt::set_tcp_keepidle(&stream, PROBE_AFTER)?;
        sockopt::set_tcp_keepintvl(&stream, PROBE_EVERY)?;
        sockopt::set_tcp_keepcnt(&stream, PROBES)?;
        // The same for bytes that the other side does not acknowledge: no probes are sent while there are some.
        let silent_max_ms = u32::try_from(SILENT_MAX.as_millis()).expect("seconds fit");
        sockopt::set_tcp_user_timeout(&stream, silent_max_ms)?;
        Ok(Stream::Tcp(stream))
    }

    /// What follows is encrypted with these, where there are some.
    ///
    /// # Errors
    /// It is no TCP connection in clear, which alone has such keys.
    pub fn encrypted(self, ciphers: Option<Ciphers>) -> io::Result<Stream> {
        match (self, ciphers) {
            (stream, None) => Ok(stream),
            (Stream::Tcp(socket), Some(ciphers)) => Ok(Stream::Encrypted(Encrypted::new(socket, ciphers))),
            _ => Err(io::Error::new(io::ErrorKind::Unsupported, "only a connection over TCP is encrypted")),
        }
    }

    /// The same connection before it was encrypted, to begin anew on it: nothing may be under way.
    pub fn in_clear(self) -> Stream {
        match self {
            Stream::Encrypted(stream) => Stream::Tcp(stream.into_socket()),
            stream => stream,
        }
    }

    /// Whether a network carries it.
    pub fn is_over_network(&self) -> bool {
        !matches!(self, Stream::Unix(_))
    }

    /// Where the other side is; `None` on the same machine, over a unix socket.
    ///
    /// # Errors
    /// The errno of `getpeername`: it has hung up.
    pub fn peer_ip(&self) -> io::Result<Option<IpAddr>> {
        let socket = match self {
            Stream::Unix(_) => return Ok(None),
            Stream::Tcp(socket) => socket,
            Stream::Encrypted(stream) => stream.socket(),
        };
        socket.peer_addr().map(|peer| Some(peer.ip()))
    }

    /// How long one read or write may take; `None`: for ever.
    ///
    /// # Errors
    /// The errno of `setsockopt`.
    pub fn set_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        match self {
            Stream::Tcp(s) => s.set_read_timeout(timeout).and_then(|()| s.set_write_timeout(timeout)),
            Stream::Unix(s) => s.set_read_timeout(timeout).and_then(|()| s.set_write_timeout(timeout)),
            Stream::Encrypted(s) => {
                let socket = s.socket();
                socket.set_read_timeout(timeout).and_then(|()| socket.set_write_timeout(timeout))
            }
        }
    }

    /// The same for one read alone.
    ///
    /// # Errors
    /// The errno of `setsockopt`.
    pub fn set_read_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        match self {
            Stream::Tcp(s) => s.set_read_timeout(timeout),
            Stream::Unix(s) => s.set_read_timeout(timeout),
            Stream::Encrypted(s) => s.socket().set_read_timeout(timeout),
        }
    }

    /// Waits for bytes, or the end; whether there is anything to be read.
    ///
    /// # Errors
    /// The errno of `poll`.
    pub fn is_readable_within(&self, wait: Duration) -> io::Result<bool> {
        if matches!(self, Stream::Encrypted(stream) if stream.is_ready()) {
            return Ok(true);
        }
        let wait = Timespec::try_from(wait).map_err(io::Error::other)?;
        let ready = retry_on_intr(|| poll(&mut [PollFd::new(self, PollFlags::IN)], Some(&wait)))?;
        Ok(ready > 0)
    }

    /// A second handle on the same socket, to end the connection from another thread with [`Stream::shutdown`].
    ///
    /// # Errors
    /// The errno of `dup`.
    pub fn try_clone(&self) -> io::Result<Stream> {
        match self {
            Stream::Tcp(s) => s.try_clone().map(Stream::Tcp),
            Stream::Unix(s) => s.try_clone().map(Stream::Unix),
            Stream::Encrypted(s) => s.try_clone().map(Stream::Encrypted),
        }
    }

    /// Ends the connection: whoever reads from it or writes to it, on either side, is woken.
    pub fn shutdown(&self) {
        // A socket that is closed already is what we want.
        let _closed = match self {
            Stream::Tcp(s) => s.shutdown(std::net::Shutdown::Both),
            Stream::Unix(s) => s.shutdown(std::net::Shutdown::Both),
            Stream::Encrypted(s) => s.socket().shutdown(std::net::Shutdown::Both),
        };
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Stream::Tcp(stream) => stream.as_fd(),
            Stream::Unix(stream) => stream.as_fd(),
            Stream::Encrypted(stream) => stream.as_fd(),
        }
    }
}

impl From<Stream> for OwnedFd {
    fn from(stream: Stream) -> OwnedFd {
        match stream {
            Stream::Tcp(stream) => stream.into(),
            Stream::Unix(stream) => stream.into(),
            Stream::Encrypted(stream) => stream.into(),
        }
    }
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Tcp(s) => s.read(buffer),
            Stream::Unix(s) => s.read(buffer),
            Stream::Encrypted(s) => s.read(buffer),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Stream::Tcp(s) => s.write(bytes),
            Stream::Unix(s) => s.write(bytes),
            Stream::Encrypted(s) => s.write_vectored(&[IoSlice::new(bytes)]),
        }
    }

    fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        match self {
            Stream::Tcp(s) => s.write_vectored(slices),
            Stream::Unix(s) => s.write_vectored(slices),
            Stream::Encrypted(s) => s.write_vectored(slices),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
