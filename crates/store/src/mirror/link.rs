//! A connection to the node that keeps the mirror.

use std::error::Error;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use model::Ino;
use rustix::io::Errno;
use wire::data::hello::HelloError;
use wire::data::{Connection, Reply, Request};

use crate::doubt::{SILENT_MAX, WAIT_MAX};
use crate::link::Place;

/// How soon who waits for an answer looks whether the node shows any sign of life.
const LOOK_AGAIN: Duration = Duration::from_millis(250);

/// An open connection. An answer that does not come in time ends it; where somebody watches the node, an answer may
/// take as long as that runs.
pub struct Link {
    connection: Connection,
    /// Which time it is now that the way was found, where somebody watches.
    now: Option<Arc<AtomicU64>>,
    /// When the way was found that it is of.
    epoch: u64,
    next_id: u64,
    broken: bool,
}

/// Whether an error is that of a node that said nothing for [`SILENT_MAX`], as it is for one that cannot be reached.
pub fn is_silence(error: &io::Error) -> bool {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<HelloError>());
    let kind = match inner {
        Some(HelloError::Io(error)) => error.kind(),
        _ => error.kind(),
    };
    matches!(kind, io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock)
}

impl Link {
    /// Reaches the node.
    ///
    /// # Errors
    /// The connection's, or why the node refuses it.
    pub fn reach(place: &Place, epoch: u64) -> io::Result<Link> {
        let connection = place.connect(SILENT_MAX).map_err(io::Error::other)?;
        Ok(Link { connection, now: None, epoch, next_id: 1, broken: false })
    }

    /// The same, of the time `epoch`, for as long as that is `now`.
    pub fn watched(self, now: Arc<AtomicU64>, epoch: u64) -> Link {
        Link { now: Some(now), epoch, ..self }
    }

    /// When the way was found that it is of.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Sends a request, whose answer is not waited for.
    ///
    /// # Errors
    /// The connection's.
    pub fn send(&mut self, request: &Request, payload: &[u8]) -> io::Result<()> {
        let sent = self.connection.send(self.next_id, request, payload);
        sent.inspect_err(|_| self.broken = true)
    }

    /// Whether it can be used no more.
    pub fn is_broken(&self) -> bool {
        self.broken
    }

    /// Whether something may be said on it.
    pub fn may_go_on(&self) -> bool {
        self.connection.may_go_on()
    }

    /// The answer to what was sent, which may take so long, however alive the node is.
    ///
    /// # Errors
    /// The connection's. A failure is an answer, too.
    pub fn receive_within(&mut self, patience: Duration) -> io::Result<Reply> {
        let received = self.await_answer(patience).and_then(|()| self.connection.receive::<Reply>());
        let answer = received.and_then(|frame| match frame.id == self.next_id && frame.payload_len == 0 {
            true => Ok(frame.message),
            false => Err(io::ErrorKind::InvalidData.into()),
        });
        self.next_id += 1;
        answer.inspect_err(|_| self.broken = true)
    }

    /// Waits until the answer has begun to come.
    fn await_answer(&mut self, patience: Duration) -> io::Result<()> {
        let Some(now) = self.now.clone() else { return Ok(()) };
        let begun = Instant::now();
        while !self.connection.is_ready(LOOK_AGAIN)? {
            if now.load(Ordering::Acquire) != self.epoch || begun.elapsed() > patience {
                return Err(io::ErrorKind::TimedOut.into());
            }
        }
        Ok(())
    }

    /// Reads an object.
    ///
    /// # Errors
    /// As [`Link::ask`].
    pub fn read(&mut self, ino: Ino, offset: u64, len: u32) -> io::Result<Vec<u8>> {
        self.send(&Request::Read { ino, offset, len }, &[])?;
        let read = self.receive_bytes();
        self.next_id += 1;
        read.inspect_err(|error| self.broken = error.kind() != io::ErrorKind::Other)
    }

    /// An errno of the other node is not the connection's.
    fn receive_bytes(&mut self) -> io::Result<Vec<u8>> {
        // No disk that is well takes as long for so little.
        self.await_answer(WAIT_MAX)?;
        let frame = self.connection.receive::<Reply>()?;
        let mut bytes = vec![0; frame.payload_len];
        self.connection.payload(&mut bytes)?;
        match frame.message {
            Reply::Data => Ok(bytes),
            Reply::Failed(errno) => Err(io::Error::other(io::Error::from(Errno::from_raw_os_error(errno)))),
            _ => Err(io::ErrorKind::InvalidData.into()),
        }
    }

    /// The numbers of all objects there.
    ///
    /// # Errors
    /// As [`Link::ask`].
    pub fn list(&mut self) -> io::Result<Vec<Ino>> {
        let mut all: Vec<Ino> = Vec::new();
        loop {
            let after = all.last().copied().unwrap_or(Ino(0));
            let reply = self.ask(&Request::ListObjects { after }, &[])?;
            let Reply::Objects(page) = reply else { return Err(io::ErrorKind::InvalidData.into()) };
            if page.is_empty() {
                return Ok(all);
            }
            all.extend(page.iter().map(|(ino, _)| ino));
        }
    }

    /// Both. Whoever asks may hold an object that others wait for: a disk that takes longer than [`WAIT_MAX`] ends the
    /// connection.
    ///
    /// # Errors
    /// The connection's, or the other node's errno.
    pub fn ask(&mut self, request: &Request, payload: &[u8]) -> io::Result<Reply> {
        self.ask_within(request, payload, WAIT_MAX)
    }

    /// The same where nobody waits for who asks, which may take so long.
    ///
    /// # Errors
    /// As [`Link::ask`].
    pub fn ask_within(&mut self, request: &Request, payload: &[u8], patience: Duration) -> io::Result<Reply> {
        self.send(request, payload)?;
        match self.receive_within(patience)? {
            Reply::Failed(errno) => Err(Errno::from_raw_os_error(errno).into()),
            reply => Ok(reply),
        }
    }
}

/// Why a connection is no more, with what is behind that.
pub(super) fn told(error: &io::Error) -> String {
    let mut told = error.to_string();
    let mut cause = error.source();
    while let Some(one) = cause {
        told += &format!(": {one}");
        cause = one.source();
    }
    told
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn why_a_handshake_failed_is_told() {
        let refused = HelloError::Io(io::ErrorKind::ConnectionReset.into());
        assert_eq!(told(&io::Error::other(refused)), "handshake with storage node: connection reset");
    }
}
