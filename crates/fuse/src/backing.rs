//! Backing files: what the kernel reads and writes by itself (passthrough). The only file with `unsafe`: two ioctls.
//!
//! They belong to the mount, not to the process that registered them: they survive it, and a successor that knows an id
//! can go on using it ([`BackingId::adopt`]).

#![allow(unsafe_code, reason = "ioctls have no safe form: their number decides what the argument is")]

use std::ffi::c_void;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use rustix::ioctl::{Ioctl, IoctlOutput, Opcode, Setter, ioctl, opcode};

use crate::abi::BackingMap;
use crate::device::Device;

/// The ioctls' group.
const GROUP: u8 = 229;
const CLOSE: Opcode = opcode::write::<u32>(GROUP, 2);

/// A file that is registered with a mount until this is dropped.
#[derive(Debug)]
pub struct BackingId {
    device: Device,
    id: u32,
}

impl BackingId {
    /// Registers `file`. Takes `CAP_SYS_ADMIN`.
    ///
    /// # Errors
    /// What the kernel says: EPERM, EOPNOTSUPP where passthrough was not negotiated, ELOOP where the file system below
    /// is itself stacked too high.
    pub fn register(device: &Device, file: BorrowedFd<'_>) -> io::Result<BackingId> {
        let map = BackingMap { fd: file.as_raw_fd(), flags: 0, unused: 0 };
        // SAFETY: `Open` describes FUSE_DEV_IOC_BACKING_OPEN truly: the kernel reads one `BackingMap`, which lives
        // until the call returns, writes nothing, and `file` is open, being borrowed.
        let id = unsafe { ioctl(device.as_fd(), Open(map)) }?;
        Ok(BackingId { device: device.clone(), id })
    }

    /// Takes over a file that a former process of this mount registered.
    pub fn adopt(device: &Device, id: u32) -> BackingId {
        BackingId { device: device.clone(), id }
    }

    /// For the reply to an open, and for a successor.
    pub fn number(&self) -> u32 {
        self.id
    }
}

impl Drop for BackingId {
    fn drop(&mut self) {
        // SAFETY: FUSE_DEV_IOC_BACKING_CLOSE reads one u32, and that is what this setter holds.
        let closed = unsafe { ioctl(self.device.as_fd(), Setter::<CLOSE, u32>::new(self.id)) };
        if let Err(error) = closed {
            tracing::warn!(id = self.id, %error, "a backing file stays registered until the mount ends");
        }
    }
}

/// `FUSE_DEV_IOC_BACKING_OPEN`: its result is the id.
struct Open(BackingMap);

// SAFETY: the opcode is the kernel's for this argument; the pointer is to a `BackingMap` that outlives the call; the
// kernel does not write to it; the result is a plain number.
unsafe impl Ioctl for Open {
    type Output = u32;

    const IS_MUTATING: bool = false;

    fn opcode(&self) -> Opcode {
        opcode::write::<BackingMap>(GROUP, 1)
    }

    fn as_ptr(&mut self) -> *mut c_void {
        (&raw mut self.0).cast()
    }

    unsafe fn output_from_ptr(result: IoctlOutput, _: *mut c_void) -> rustix::io::Result<u32> {
        u32::try_from(result).map_err(|_| rustix::io::Errno::RANGE)
    }
}
