//! Answers to requests.

use std::io::IoSlice;

use rustix::io::Errno;
use zerocopy::IntoBytes;

use crate::abi::{
    AttrOut, EntryOut, FileLock, GetXattrOut, OpenOut, OutHeader, SeekOut, StatFsOut, WriteOut,
};
use crate::device::Device;

/// The kernel takes errnos below this only, and ends the mount's connection to nobody's good for others.
const ERRNO_END: i32 = 512;

/// The answer to one request, to be given once, by any thread, at any time. Dropped unanswered, it says EIO.
#[derive(Debug)]
pub struct Reply {
    device: Device,
    unique: u64,
    answered: bool,
}

impl Reply {
    /// For the request `unique` that was read from `device`.
    pub(crate) fn new(device: &Device, unique: u64) -> Reply {
        Reply { device: device.clone(), unique, answered: false }
    }

    /// It failed.
    pub fn error(mut self, errno: Errno) {
        self.fail(errno);
    }

    /// It is done, and there is nothing to tell.
    pub fn done(self) {
        self.send(&[]);
    }

    /// An inode behind a name.
    pub fn entry(self, entry: &EntryOut) {
        self.send(&[entry.as_bytes()]);
    }

    /// An inode's attributes.
    pub fn attr(self, attr: &AttrOut) {
        self.send(&[attr.as_bytes()]);
    }

    /// A handle.
    pub fn opened(self, opened: &OpenOut) {
        self.send(&[opened.as_bytes()]);
    }

    /// A new inode and a handle on it.
    pub fn created(self, entry: &EntryOut, opened: &OpenOut) {
        self.send(&[entry.as_bytes(), opened.as_bytes()]);
    }

    /// A file's bytes, a link's text, entries, an extended attribute.
    pub fn bytes(self, bytes: &[u8]) {
        self.send(&[bytes]);
    }

    /// How many bytes were written.
    pub fn written(self, size: u32) {
        self.send(&[WriteOut { size, unused: 0 }.as_bytes()]);
    }

    /// How full the file system is.
    pub fn statfs(self, statfs: &StatFsOut) {
        self.send(&[statfs.as_bytes()]);
    }

    /// How many bytes an extended attribute, or the list of their names, has.
    pub fn xattr_size(self, size: u32) {
        self.send(&[GetXattrOut { size, unused: 0 }.as_bytes()]);
    }

    /// A lock that is in the way, or one of kind `F_UNLCK`.
    pub fn lock(self, lock: &FileLock) {
        self.send(&[lock.as_bytes()]);
    }

    /// Where data or a hole begins.
    pub fn offset(self, offset: u64) {
        self.send(&[SeekOut { offset }.as_bytes()]);
    }

    fn send(mut self, parts: &[&[u8]]) {
        self.write(0, parts);
    }

    fn fail(&mut self, errno: Errno) {
        let raw = errno.raw_os_error();
        let known = (1..ERRNO_END).contains(&raw);
        self.write(if known { -raw } else { -Errno::IO.raw_os_error() }, &[]);
    }

    fn write(&mut self, error: i32, parts: &[&[u8]]) {
        self.answered = true;
        let header = OutHeader { len: 0, error, unique: self.unique };
        let sent = match parts {
            [] => write(&self.device, header, &[], &[]),
            [one] => write(&self.device, header, one, &[]),
            [one, two, ..] => write(&self.device, header, one, two),
        };
        match sent {
            // Nobody waits any more: the mount was ended.
            Ok(()) | Err(Errno::NOENT | Errno::NODEV) => {}
            Err(errno) => {
                tracing::warn!(unique = self.unique, %errno, "the kernel refused a reply");
                self.give_up();
            }
        }
    }

    /// Whoever waits for what the kernel would not take is told of an error. Where the kernel has told it, it says
    /// ENOENT.
    fn give_up(&self) {
        let header = OutHeader { len: 0, error: -Errno::IO.raw_os_error(), unique: self.unique };
        match write(&self.device, header, &[], &[]) {
            Ok(()) | Err(Errno::NOENT | Errno::NODEV) => {}
            Err(errno) => tracing::error!(unique = self.unique, %errno, "somebody may wait for ever"),
        }
    }
}

/// Three parts are enough for every reply, and cost no allocation.
fn write(device: &Device, mut header: OutHeader, one: &[u8], two: &[u8]) -> Result<(), Errno> {
    let len = size_of::<OutHeader>() + one.len() + two.len();
    header.len = u32::try_from(len).map_err(|_| Errno::MSGSIZE)?;
    let parts = [IoSlice::new(header.as_bytes()), IoSlice::new(one), IoSlice::new(two)];
    let used = if two.is_empty() { 2 } else { 3 };
    device.write(if one.is_empty() { &parts[..1] } else { &parts[..used] })
}

impl Drop for Reply {
    fn drop(&mut self) {
        if !self.answered {
            self.fail(Errno::IO);
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::os::unix::net::UnixDatagram;

    use super::*;
    use crate::abi::{Attr, open_flag};

    /// A device whose replies can be looked at.
    pub(crate) fn device_pair() -> (Device, UnixDatagram) {
        let (ours, kernel) = UnixDatagram::pair().unwrap();
        kernel.set_nonblocking(true).unwrap();
        (Device::from(std::os::fd::OwnedFd::from(ours)), kernel)
    }

    /// The next reply.
    pub(crate) fn received(kernel: &UnixDatagram) -> Vec<u8> {
        let mut buffer = vec![0; 1 << 16];
        let len = kernel.recv(&mut buffer).unwrap();
        buffer.truncate(len);
        buffer
    }

    fn header(len: u8, error: i32) -> Vec<u8> {
        let mut golden = vec![len, 0, 0, 0];
        golden.extend(error.to_le_bytes());
        golden.extend([7, 0, 0, 0, 0, 0, 0, 0x80]);
        golden
    }

    const UNIQUE: u64 = 7 | crate::abi::UNIQUE_RESEND;

    #[test]
    fn small_replies_have_the_bytes_of_the_protocol() {
        let (device, kernel) = device_pair();
        let reply = || Reply::new(&device, UNIQUE);
        reply().done();
        assert_eq!(received(&kernel), header(16, 0));
        reply().error(Errno::NOENT);
        assert_eq!(received(&kernel), header(16, -2));
        reply().bytes(b"abc");
        assert_eq!(received(&kernel), [header(19, 0), b"abc".to_vec()].concat());
        reply().written(0x0102);
        assert_eq!(received(&kernel), [header(24, 0), vec![2, 1, 0, 0, 0, 0, 0, 0]].concat());
        reply().offset(0x0304);
        assert_eq!(received(&kernel), [header(24, 0), vec![4, 3, 0, 0, 0, 0, 0, 0]].concat());
        reply().opened(&OpenOut { fh: 1, open_flags: open_flag::PASSTHROUGH, backing_id: 9 });
        let opened = vec![1, 0, 0, 0, 0, 0, 0, 0, 128, 0, 0, 0, 9, 0, 0, 0];
        assert_eq!(received(&kernel), [header(32, 0), opened].concat());
    }

    #[test]
    fn a_created_file_is_an_entry_and_then_a_handle() {
        let (device, kernel) = device_pair();
        let attr = Attr { ino: 5, mode: 0o100_644, ..Attr::default() };
        let entry = EntryOut { nodeid: 5, entry_valid_nsec: 3, attr, ..EntryOut::default() };
        Reply::new(&device, UNIQUE).created(&entry, &OpenOut { fh: 6, ..OpenOut::default() });
        let bytes = received(&kernel);
        assert_eq!(bytes.len(), 16 + 128 + 16);
        assert_eq!((bytes[16], bytes[48], bytes[56], bytes[144]), (5, 3, 5, 6));
        assert_eq!(bytes[56 + 60..56 + 64], 0o100_644_u32.to_le_bytes());
    }

    #[test]
    fn a_reply_that_is_refused_is_an_error_and_not_silence() {
        let (device, kernel) = device_pair();
        // EMSGSIZE: longer than the socket takes at once.
        Reply::new(&device, UNIQUE).bytes(&vec![1; 16 << 20]);
        assert_eq!(received(&kernel), header(16, -5));
    }

    #[test]
    fn a_reply_that_is_forgotten_says_eio_and_an_answered_one_nothing_more() {
        let (device, kernel) = device_pair();
        drop(Reply::new(&device, UNIQUE));
        assert_eq!(received(&kernel), header(16, -5));
        Reply::new(&device, UNIQUE).done();
        received(&kernel);
        assert!(kernel.recv(&mut [0; 16]).is_err(), "there is one answer");
    }

    #[test]
    fn an_errno_that_the_kernel_would_not_take_becomes_eio() {
        let (device, kernel) = device_pair();
        Reply::new(&device, UNIQUE).error(Errno::from_raw_os_error(524));
        assert_eq!(received(&kernel), header(16, -5));
    }
}
