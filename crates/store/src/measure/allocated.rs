//! Where an object has space that was allocated and never written: `SEEK_DATA` shows a hole there.
//!
//! Only asks; what counts as used is the caller's to say. Space beyond the end that the file system keeps back for
//! writes to come, and has not placed yet, is none of it.

#![expect(unsafe_code, reason = "rustix has no FS_IOC_FIEMAP")]

use std::ffi::c_void;
use std::fs::File;
use std::io;
use std::ops::Range;

use rustix::io::Errno;
use rustix::ioctl::{Ioctl, IoctlOutput, Opcode, ioctl, opcode};

/// Extents that are asked for at once.
const EXTENTS: usize = 32;
/// It is the last of the file.
const LAST: u32 = 0x1;
/// It has no place on the disk yet.
const DELAYED: u32 = 0x4;
/// It has space and no data.
const UNWRITTEN: u32 = 0x800;

/// `struct fiemap` of `linux/fiemap.h`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Head {
    start: u64,
    length: u64,
    flags: u32,
    mapped: u32,
    count: u32,
    reserved: u32,
}

/// `struct fiemap_extent`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Extent {
    logical: u64,
    physical: u64,
    length: u64,
    reserved: [u64; 2],
    flags: u32,
    unused: [u32; 3],
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Map {
    head: Head,
    extents: [Extent; EXTENTS],
}

struct Ask<'a>(&'a mut Map);

// SAFETY: the opcode is the kernel's for a `struct fiemap`; the pointer is to one with room for as many extents as its
// `count` says, borrowed for the call; the kernel writes no more than those.
unsafe impl Ioctl for Ask<'_> {
    type Output = ();

    const IS_MUTATING: bool = true;

    fn opcode(&self) -> Opcode {
        opcode::read_write::<Head>(b'f', 11)
    }

    fn as_ptr(&mut self) -> *mut c_void {
        std::ptr::from_mut(self.0).cast()
    }

    unsafe fn output_from_ptr(_: IoctlOutput, _: *mut c_void) -> rustix::io::Result<()> {
        Ok(())
    }
}

/// Tells `found` each range, bytes, that is allocated and was not written. None where the file system does not say.
pub fn unwritten(file: &File, mut found: impl FnMut(Range<u64>)) -> io::Result<()> {
    let mut start = 0;
    loop {
        let count = u32::try_from(EXTENTS).expect("32");
        let head = Head { start, length: u64::MAX - start, count, ..Head::default() };
        let mut map = Map { head, ..Map::default() };
        // SAFETY: `Ask` describes FS_IOC_FIEMAP truly, and `map` lives until the call returns.
        match unsafe { ioctl(file, Ask(&mut map)) } {
            Err(Errno::OPNOTSUPP | Errno::NOTTY) => return Ok(()),
            done => done?,
        }
        let extents = &map.extents[..EXTENTS.min(map.head.mapped as usize)];
        for extent in extents.iter().filter(|extent| extent.flags & (UNWRITTEN | DELAYED) == UNWRITTEN) {
            found(extent.logical..extent.logical.saturating_add(extent.length));
        }
        match extents.last() {
            Some(last) if last.flags & LAST == 0 => start = last.logical.saturating_add(last.length),
            _ => return Ok(()),
        }
    }
}
