//! What the kernel is told without having asked.

use std::io::{self, IoSlice};

use rustix::io::Errno;
use zerocopy::IntoBytes;

use crate::abi::{InvalEntryOut, InvalInodeOut, OutHeader, notification};
use crate::device::Device;

/// Tells the kernel of changes that it did not make.
#[derive(Clone, Debug)]
pub struct Notifier(Device);

impl Notifier {
    /// For the mount of `device`.
    pub fn new(device: &Device) -> Notifier {
        Notifier(device.clone())
    }

    /// The inode's attributes have changed, and its bytes in `offset..offset + len` (`len` 0: to its end; a negative
    /// `offset`: no bytes).
    ///
    /// With bytes it returns when their pages are written back and dropped, for which others must answer meanwhile:
    /// fills of these pages, pages that are written back, and a change of the file's size, which holds those back.
    ///
    /// # Errors
    /// What the device says; an inode that the kernel does not know is no error.
    pub fn inode_changed(&self, ino: u64, offset: i64, len: i64) -> io::Result<()> {
        self.send(notification::INVAL_INODE, &[InvalInodeOut { ino, off: offset, len }.as_bytes()])
    }

    /// The name means something else now, or nothing.
    ///
    /// # Errors
    /// What the device says; a name that the kernel does not know is no error.
    pub fn name_changed(&self, parent: u64, name: &[u8]) -> io::Result<()> {
        let namelen = u32::try_from(name.len()).map_err(|_| Errno::NAMETOOLONG)?;
        let head = InvalEntryOut { parent, namelen, flags: 0 };
        self.send(notification::INVAL_ENTRY, &[head.as_bytes(), name, &[0]])
    }

    /// Every name may mean something else now, or nothing.
    ///
    /// # Errors
    /// What the device says: EINVAL where the kernel cannot ([`crate::abi::MINOR_EPOCHS`]).
    pub fn names_changed(&self) -> io::Result<()> {
        self.send(notification::INC_EPOCH, &[])
    }

    /// Asks for every request that was read and not answered, once more.
    ///
    /// # Errors
    /// What the device says: EINVAL where the kernel cannot.
    pub(crate) fn resend(&self) -> io::Result<()> {
        self.send(notification::RESEND, &[])
    }

    fn send(&self, code: i32, parts: &[&[u8]]) -> io::Result<()> {
        let len = size_of::<OutHeader>() + parts.iter().map(|part| part.len()).sum::<usize>();
        let len = u32::try_from(len).map_err(|_| Errno::MSGSIZE)?;
        let header = OutHeader { len, error: code, unique: 0 };
        let mut slices = vec![IoSlice::new(header.as_bytes())];
        slices.extend(parts.iter().map(|part| IoSlice::new(part)));
        match self.0.write(&slices) {
            Err(Errno::NOENT) | Ok(()) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reply::tests::{device_pair, received};

    #[test]
    fn notifications_have_the_bytes_of_the_protocol() {
        let (device, kernel) = device_pair();
        Notifier::new(&device).name_changed(1, b"ab").unwrap();
        let mut golden = vec![35, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        golden.extend([1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, b'a', b'b', 0]);
        assert_eq!(received(&kernel), golden);
        Notifier::new(&device).inode_changed(9, -1, 0).unwrap();
        let bytes = received(&kernel);
        assert_eq!((bytes.len(), bytes[4], &bytes[24..32]), (40, 2, [0xff; 8].as_slice()));
        Notifier::new(&device).names_changed().unwrap();
        assert_eq!(received(&kernel), [16, 0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        Notifier::new(&device).resend().unwrap();
        assert_eq!(received(&kernel), [16, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    }
}
