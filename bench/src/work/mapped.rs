//! A file that is read through a mapping of it.

#![expect(unsafe_code, reason = "maps a file into memory")]

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::ptr::null_mut;
use std::slice;

use super::MEBIBYTE;

/// Copies the bytes of the file out of a mapping, a MiB at a time.
pub fn read(file: &File) -> io::Result<()> {
    let len = usize::try_from(file.metadata()?.len()).map_err(io::Error::other)?;
    // SAFETY: the kernel chooses where, so nothing that is there is replaced.
    let at = unsafe { libc::mmap(null_mut(), len, libc::PROT_READ, libc::MAP_SHARED, file.as_raw_fd(), 0) };
    if at == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    let mut buffer = vec![0; MEBIBYTE];
    // SAFETY: it is mapped until below, and nobody writes to the benchmark's file or cuts it meanwhile.
    for part in unsafe { slice::from_raw_parts(at.cast::<u8>(), len) }.chunks(MEBIBYTE) {
        buffer[..part.len()].copy_from_slice(part);
        // What nobody looks at need not be copied.
        std::hint::black_box(&buffer);
    }
    // SAFETY: the slice of it is gone.
    unsafe { libc::munmap(at, len) };
    Ok(())
}
