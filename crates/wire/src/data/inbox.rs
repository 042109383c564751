//! What has come over a connection: taken from the socket in larger pieces than are asked for.

use std::io::{self, Read};
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use super::stream::Stream;

/// Enough for all but the rarest messages; of a payload, so much at most is copied once more.
pub(super) const INBOX_BYTES: usize = 512;

/// While nothing comes, how often to check whether anything will.
pub(super) const LOOK_AGAIN: Duration = Duration::from_secs(2);

/// What was taken from the socket and not asked for yet.
/// Says why the other side is not waited for any more.
pub(super) struct WhyNot(pub(super) Box<dyn Fn() -> Option<String> + Send + Sync>);

impl std::fmt::Debug for WhyNot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("WhyNot")
    }
}

#[derive(Debug)]
pub(super) struct Inbox {
    bytes: [u8; INBOX_BYTES],
    pub(super) taken: Range<usize>,
    /// The last descriptor that came with any of them.
    pub(super) descriptor: Option<OwnedFd>,
    /// One came that this process had no place for.
    pub(super) is_lost: bool,
    /// Why nothing will come, asked while nothing comes.
    pub(super) why_not: Option<WhyNot>,
    /// What does not come in the socket's time does not come.
    pub(super) is_limited: bool,
}

impl Default for Inbox {
    fn default() -> Inbox {
        Inbox {
            bytes: [0; INBOX_BYTES],
            taken: 0..0,
            descriptor: None,
            is_lost: false,
            why_not: None,
            is_limited: false,
        }
    }
}

impl Inbox {
    /// Fills `buffer`.
    pub(super) fn take(&mut self, stream: &mut Stream, buffer: &mut [u8]) -> io::Result<()> {
        let mut done = 0;
        while done < buffer.len() {
            if self.taken.is_empty() {
                if buffer.len() - done >= INBOX_BYTES {
                    done += self.wait(|_| match stream.read(&mut buffer[done..])? {
                        0 => Err(io::ErrorKind::UnexpectedEof.into()),
                        len => Ok(len),
                    })?;
                    continue;
                }
                self.wait(|inbox| inbox.refill(stream))?;
            }
            let ready = &self.bytes[self.taken.clone()];
            let len = ready.len().min(buffer.len() - done);
            buffer[done..done + len].copy_from_slice(&ready[..len]);
            self.taken.start += len;
            done += len;
        }
        Ok(())
    }

    /// Reads until something comes, or nothing will.
    fn wait<T>(&mut self, mut read: impl FnMut(&mut Inbox) -> io::Result<T>) -> io::Result<T> {
        loop {
            match read(self) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock && !self.is_limited => {
                    let Some(WhyNot(why_not)) = &self.why_not else { return Err(error) };
                    if let Some(why) = why_not() {
                        return Err(io::Error::new(io::ErrorKind::ConnectionAborted, why));
                    }
                }
                done => return done,
            }
        }
    }

    fn refill(&mut self, stream: &mut Stream) -> io::Result<()> {
        let len = match stream {
            Stream::Tcp(tcp) => rustix::io::retry_on_intr(|| rustix::io::read(&*tcp, &mut self.bytes[..]))?,
            Stream::Unix(unix) => self.refill_with_descriptor(unix)?,
            Stream::Encrypted(encrypted) => encrypted.read(&mut self.bytes)?,
        };
        if len == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.taken = 0..len;
        Ok(())
    }

    /// Whoever takes bytes that a descriptor came with must take the descriptor too, or it is lost.
    fn refill_with_descriptor(&mut self, unix: &UnixStream) -> io::Result<usize> {
        use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, recvmsg};
        let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let received = rustix::io::retry_on_intr(|| {
            let mut bytes = [io::IoSliceMut::new(&mut self.bytes)];
            recvmsg(unix, &mut bytes, &mut ancillary, RecvFlags::CMSG_CLOEXEC)
        })?;
        let descriptor = ancillary.drain().find_map(|message| match message {
            RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
            _ => None,
        });
        self.is_lost |= received.flags.contains(ReturnFlags::CTRUNC);
        self.descriptor = descriptor.or(self.descriptor.take());
        Ok(received.bytes)
    }
}
