//! Frames over a stream. Lengths are checked before anything is allocated for them.
//!
//! What arrives is taken from the socket in pieces of up to [`INBOX_BYTES`], so that a small frame costs one system
//! call and not one for each of its parts; of a long payload, all but its beginning goes straight to where it belongs.

use std::io::{self, IoSlice, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::inbox::{INBOX_BYTES, Inbox, LOOK_AGAIN, WhyNot};
use super::stream::Stream;
use super::{META_BYTES_MAX, PAYLOAD_BYTES_MAX};

const HEAD_BYTES: usize = 16;

/// Longer payloads are not copied to go out with other frames, and no more is held back.
const QUEUED_PAYLOAD_MAX: usize = 4096;
const QUEUED_BYTES_MAX: usize = 64 << 10;

/// One connection after the handshake.
#[derive(Debug)]
pub struct Connection {
    stream: Stream,
    /// Heads and messages of frames that are to go out; kept to spare the allocation.
    out: Vec<u8>,
    /// Message of the frame that came in.
    meta: Vec<u8>,
    inbox: Inbox,
    /// Why nothing more is said on it, asked before something is.
    is_over: Option<WhyNot>,
}

/// A frame's message; its payload is still in the stream and must be taken with [`Connection::payload`].
#[derive(Debug)]
pub struct Frame<M> {
    /// The request's id.
    pub id: u64,
    /// The message.
    pub message: M,
    /// Length of the payload that follows, bytes; at most [`PAYLOAD_BYTES_MAX`].
    pub payload_len: usize,
}

impl Connection {
    /// Wraps a stream whose handshake is done.
    pub fn new(stream: Stream) -> Connection {
        Connection {
            stream,
            out: Vec::with_capacity(INBOX_BYTES),
            meta: Vec::with_capacity(INBOX_BYTES),
            inbox: Inbox::default(),
            is_over: None,
        }
    }

    /// The same, where the other side is waited for only as long as `why_not`, asked while nothing comes, says
    /// nothing: a node that hangs may have been given up.
    ///
    /// # Errors
    /// The errno of `setsockopt`.
    pub fn waiting_unless(
        stream: Stream,
        why_not: impl Fn() -> Option<String> + Send + Sync + 'static,
    ) -> io::Result<Connection> {
        let mut connection = Connection::new(stream);
        connection.inbox.why_not = Some(WhyNot(Box::new(why_not)));
        connection.set_timeout(None)?;
        Ok(connection)
    }

    /// The same. Where a network carries it in clear text nothing more is said on it once that `is_over`.
    pub(super) fn in_clear_until(self, is_over: WhyNot) -> Connection {
        Connection { is_over: matches!(self.stream, Stream::Tcp(_)).then_some(is_over), ..self }
    }

    /// Whether something may be said on it.
    pub fn may_go_on(&self) -> bool {
        self.check_it_may_go_on().is_ok()
    }

    fn check_it_may_go_on(&self) -> io::Result<()> {
        let why_not = self.is_over.as_ref().and_then(|is_over| is_over.0());
        why_not.map_or(Ok(()), |why| Err(io::Error::new(io::ErrorKind::ConnectionAborted, why)))
    }

    /// How long an answer may take from now on; `None`: as long as the other side is there.
    ///
    /// # Errors
    /// The errno of `setsockopt`.
    pub fn set_timeout(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        self.stream.set_timeout(timeout)?;
        self.inbox.is_limited = timeout.is_some();
        match &self.inbox.why_not {
            Some(_) if timeout.is_none() => self.stream.set_read_timeout(Some(LOOK_AGAIN)),
            _ => Ok(()),
        }
    }

    /// The stream, for who wants to speak differently. What was taken from it and not asked for is gone: for
    /// connections that wait for nothing.
    ///
    /// # Errors
    /// The errno of `setsockopt`.
    pub fn into_stream(self) -> io::Result<Stream> {
        self.stream.set_timeout(None)?;
        Ok(self.stream)
    }

    /// A second handle on its stream.
    ///
    /// # Errors
    /// The errno of `dup`.
    pub fn try_clone_stream(&self) -> io::Result<Stream> {
        self.stream.try_clone()
    }

    /// Sends one frame.
    ///
    /// # Errors
    /// InvalidInput when the message or payload is longer than the protocol allows; ConnectionAborted when nothing may
    /// be said in clear any more; else the errno of the write.
    pub fn send<M: Serialize>(&mut self, id: u64, message: &M, payload: &[u8]) -> io::Result<()> {
        self.check_it_may_go_on()?;
        self.put(id, message, payload.len())?;
        let sent = write_both(&mut self.stream, &self.out, payload);
        self.out.clear();
        sent
    }

    /// The same for one of several frames: it goes out with the next that is sent, or before this side waits for the
    /// other.
    ///
    /// # Errors
    /// As [`Connection::send`].
    pub fn queue<M: Serialize>(&mut self, id: u64, message: &M, payload: &[u8]) -> io::Result<()> {
        if payload.len() > QUEUED_PAYLOAD_MAX || self.out.len() > QUEUED_BYTES_MAX {
            return self.send(id, message, payload);
        }
        self.put(id, message, payload.len())?;
        self.out.extend_from_slice(payload);
        Ok(())
    }

    /// Adds a frame to what goes out, but for its payload.
    fn put<M: Serialize>(&mut self, id: u64, message: &M, payload_len: usize) -> io::Result<()> {
        let start = self.out.len();
        self.out.resize(start + HEAD_BYTES, 0);
        self.out = postcard::to_extend(message, std::mem::take(&mut self.out)).map_err(io::Error::other)?;
        let meta_len = self.out.len() - start - HEAD_BYTES;
        if meta_len > META_BYTES_MAX || payload_len > PAYLOAD_BYTES_MAX {
            self.out.truncate(start);
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "message longer than the protocol allows",
            ));
        }
        let length = |len: usize| u32::try_from(len).expect("both bounds are below 4 GiB").to_le_bytes();
        let head = &mut self.out[start..start + HEAD_BYTES];
        head[0..4].copy_from_slice(&length(meta_len));
        head[4..8].copy_from_slice(&length(payload_len));
        head[8..16].copy_from_slice(&id.to_le_bytes());
        Ok(())
    }

    /// Sends what is queued.
    ///
    /// # Errors
    /// ConnectionAborted when nothing may be said in clear any more; else the errno of the write.
    pub fn flush(&mut self) -> io::Result<()> {
        if self.out.is_empty() {
            return Ok(());
        }
        self.check_it_may_go_on()?;
        let sent = self.stream.write_all(&self.out);
        self.out.clear();
        sent
    }

    /// Takes bytes from the other side; what is queued for it goes first, if it must be waited for.
    fn take(&mut self, buffer: &mut [u8]) -> io::Result<()> {
        if self.inbox.taken.len() < buffer.len() {
            self.flush()?;
        }
        self.inbox.take(&mut self.stream, buffer)
    }

    /// Receives one frame's head and message.
    ///
    /// # Errors
    /// UnexpectedEof when the other side closed between frames or in one; InvalidData for a frame that is too long or
    /// no valid message: the connection is of no more use then.
    pub fn receive<M: DeserializeOwned>(&mut self) -> io::Result<Frame<M>> {
        let mut head = [0; HEAD_BYTES];
        self.take(&mut head)?;
        let number = |at: usize| u32::from_le_bytes(head[at..at + 4].try_into().expect("4 bytes")) as usize;
        let (meta_len, payload_len) = (number(0), number(4));
        if meta_len > META_BYTES_MAX || payload_len > PAYLOAD_BYTES_MAX {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "frame longer than the protocol allows"));
        }
        let mut meta = std::mem::take(&mut self.meta);
        meta.resize(meta_len, 0);
        let taken = self.take(&mut meta);
        self.meta = meta;
        taken?;
        let message = postcard::from_bytes(&self.meta)
            .map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "frame holds no valid message"))?;
        let id = u64::from_le_bytes(head[8..16].try_into().expect("8 bytes"));
        Ok(Frame { id, message, payload_len })
    }

    /// Whether the other side has sent something, or ended the connection; waits so long for it.
    ///
    /// # Errors
    /// The errno of the wait.
    pub fn is_ready(&mut self, patience: Duration) -> io::Result<bool> {
        self.flush()?;
        Ok(!self.inbox.taken.is_empty() || self.stream.is_readable_within(patience)?)
    }

    /// Takes the payload of the frame just received; `buffer` has exactly its length.
    ///
    /// # Errors
    /// The errno of the read.
    pub fn payload(&mut self, buffer: &mut [u8]) -> io::Result<()> {
        self.take(buffer)
    }

    /// Sends a file descriptor after a frame.
    ///
    /// # Errors
    /// Unsupported over TCP; else the errno of `sendmsg`.
    pub fn send_descriptor(&mut self, descriptor: BorrowedFd<'_>) -> io::Result<()> {
        use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
        self.flush()?;
        let socket = self.unix()?;
        let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        let descriptors = [descriptor];
        ancillary.push(SendAncillaryMessage::ScmRights(&descriptors));
        sendmsg(socket, &[IoSlice::new(b"d")], &mut ancillary, SendFlags::empty())?;
        Ok(())
    }

    /// Receives the file descriptor that follows a frame.
    ///
    /// # Errors
    /// EMFILE when this process has no place for it: the connection stays of use. InvalidData when none came; else the
    /// errno of `recvmsg`.
    pub fn receive_descriptor(&mut self) -> io::Result<OwnedFd> {
        self.take(&mut [0])?;
        if std::mem::take(&mut self.inbox.is_lost) {
            return Err(rustix::io::Errno::MFILE.into());
        }
        let none = || io::Error::new(io::ErrorKind::InvalidData, "no descriptor came with the reply");
        self.inbox.descriptor.take().ok_or_else(none)
    }

    /// Whether it can carry descriptors.
    pub fn is_local(&self) -> bool {
        matches!(self.stream, Stream::Unix(_))
    }

    fn unix(&self) -> io::Result<BorrowedFd<'_>> {
        match &self.stream {
            Stream::Unix(socket) => Ok(socket.as_fd()),
            Stream::Tcp(_) | Stream::Encrypted(_) => {
                Err(io::Error::new(io::ErrorKind::Unsupported, "descriptors need a unix socket"))
            }
        }
    }
}

/// Whether a call failed because this process, or the system, has no descriptor left.
pub fn is_shortage(error: &io::Error) -> bool {
    use rustix::io::Errno;
    matches!(Errno::from_io_error(error), Some(Errno::MFILE | Errno::NFILE))
}

/// A message as it is in a frame.
pub fn encode<M: Serialize>(message: &M) -> Vec<u8> {
    postcard::to_extend(message, Vec::new()).expect("messages can be encoded")
}

/// Writes `head` and then `tail`, in one system call where the socket takes all.
fn write_both(stream: &mut Stream, mut head: &[u8], mut tail: &[u8]) -> io::Result<()> {
    while !head.is_empty() {
        let written = match stream.write_vectored(&[IoSlice::new(head), IoSlice::new(tail)]) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => written,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        let of_head = written.min(head.len());
        head = &head[of_head..];
        tail = &tail[written - of_head..];
    }
    stream.write_all(tail)
}

#[cfg(test)]
mod tests;
