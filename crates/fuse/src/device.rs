//! An open `/dev/fuse`, connected to one mount.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use rustix::event::{PollFd, PollFlags};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags,
};

/// An open `/dev/fuse`. Clones are the same open file; the mount ends when the last one, in any process, is closed.
#[derive(Clone, Debug)]
pub struct Device(Arc<OwnedFd>);

impl Device {
    /// Opens the device, not yet connected to a mount.
    ///
    /// # Errors
    /// What `open` says, with the device's name.
    pub fn open() -> io::Result<Device> {
        let opened = rustix::fs::open("/dev/fuse", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty());
        opened.map(Device::from).map_err(|errno| {
            let error = io::Error::from(errno);
            io::Error::new(error.kind(), format!("open /dev/fuse: {error}"))
        })
    }

    /// Whether the mount is still there. Also true while it is detached but in use, and where nobody can tell: programs
    /// lose their open files with a mount that is given up.
    pub fn is_connected(&self) -> bool {
        let mut device = [PollFd::new(&self.0, PollFlags::empty())];
        let now = rustix::time::Timespec { tv_sec: 0, tv_nsec: 0 };
        // The death of the mount's process is a signal to its node, which looks in that moment.
        match rustix::io::retry_on_intr(|| rustix::event::poll(&mut device, Some(&now))) {
            Ok(_) => !device[0].revents().intersects(PollFlags::ERR),
            Err(_) => true,
        }
    }

    /// Gives another process the same open file, over a socket that both have.
    ///
    /// # Errors
    /// What `sendmsg` says.
    pub fn send(&self, socket: &UnixStream) -> io::Result<()> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        let descriptors = [self.0.as_fd()];
        ancillary.push(SendAncillaryMessage::ScmRights(&descriptors));
        let byte = [IoSlice::new(&[0])];
        rustix::io::retry_on_intr(|| {
            rustix::net::sendmsg(socket, &byte, &mut ancillary, SendFlags::NOSIGNAL)
        })?;
        Ok(())
    }

    /// Takes an open device that another process gave, by [`Device::send`] or as `fusermount3` does.
    ///
    /// # Errors
    /// What `recvmsg` says; `UnexpectedEof` when the other side closed the socket instead.
    pub fn receive(socket: &UnixStream) -> io::Result<Device> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let mut byte = [0];
        let mut bytes = [IoSliceMut::new(&mut byte)];
        rustix::io::retry_on_intr(|| {
            rustix::net::recvmsg(socket, &mut bytes, &mut ancillary, RecvFlags::CMSG_CLOEXEC)
        })?;
        ancillary
            .drain()
            .find_map(|message| match message {
                RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
                _ => None,
            })
            .map(Device::from)
            .ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
    }

    /// Waits for a request.
    pub(crate) fn read(&self, buffer: &mut [u8]) -> Result<usize, Errno> {
        rustix::io::read(&self.0, buffer)
    }

    /// Writes one reply or notification. The device takes all of it or fails.
    pub(crate) fn write(&self, parts: &[IoSlice<'_>]) -> Result<(), Errno> {
        rustix::io::retry_on_intr(|| rustix::io::writev(&self.0, parts)).map(drop)
    }
}

impl From<OwnedFd> for Device {
    fn from(descriptor: OwnedFd) -> Device {
        Device(Arc::new(descriptor))
    }
}

impl AsFd for Device {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
