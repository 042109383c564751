//! Stores into shared mappings: the kernel stamps a file with the first store into a clean page only, so that a page
//! which is dirty already could be changed in the middle of a copy, and no time would tell.
//!
//! Not on tmpfs, which stamps no store at all. What other hosts store is their kernels' to send, and the server stamps
//! it.
#![expect(unsafe_code, reason = "rustix and nix have no sync_file_range")]

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

use rustix::io::Errno;

use super::PfsFile;
use crate::tree::Result;

impl PfsFile {
    /// Has every store from now on stamp the file: its dirty pages are handed to the disk, which makes them read-only
    /// until the next store. Waits for no disk but where a page is on its way to it already. A file system that cannot
    /// do so stays as it is.
    ///
    /// # Errors
    /// As [`PfsFile::write_back`].
    pub(super) fn stamp_from_now_on(&self) -> Result<()> {
        range(self.file(), libc::SYNC_FILE_RANGE_WAIT_BEFORE | libc::SYNC_FILE_RANGE_WRITE)
    }

    /// Has the kernel write back what it holds of the file, also on a file system that refuses syncs as it is
    /// read-only now. What the disk has of names and sizes it does not say.
    ///
    /// # Errors
    /// The kernel could not, now or before: EIO, ENOSPC, or whatever the disk said. It says so once; no later sync of
    /// the file does.
    pub fn write_back(&self) -> Result<()> {
        let all = libc::SYNC_FILE_RANGE_WAIT_BEFORE
            | libc::SYNC_FILE_RANGE_WRITE
            | libc::SYNC_FILE_RANGE_WAIT_AFTER;
        range(self.file(), all)
    }
}

fn range(file: &File, flags: libc::c_uint) -> Result<()> {
    // SAFETY: the descriptor is open as long as `file` is borrowed, and the call touches no memory of ours.
    let done = unsafe { libc::sync_file_range(file.as_raw_fd(), 0, 0, flags) };
    match if done == 0 { None } else { Errno::from_io_error(&io::Error::last_os_error()) } {
        // It cannot do so. ENOTSUP and EROFS are what the device said of a page.
        None | Some(Errno::INVAL | Errno::SPIPE | Errno::NOSYS | Errno::PERM) => Ok(()),
        Some(errno) => Err(errno),
    }
}
