//! Stores into shared mappings: the kernel stamps a file with the first store into a clean page only, so that a page
//! which is dirty already could be changed in the middle of a copy, and no time would tell.
//!
//! Not on tmpfs, which stamps no store at all. What other hosts store is their kernels' to send, and the server stamps
//! it.
#![expect(unsafe_code, reason = "rustix and nix have no sync_file_range")]

use std::fs::File;
use std::os::fd::AsRawFd;

/// Has every store from now on stamp the file: its dirty pages are handed to the disk, which makes them read-only until
/// the next store. Waits for no disk but where a page is on its way to it already. A file system that cannot do so
/// stays as it is.
pub(super) fn stamp_from_now_on(file: &File) {
    let flags = libc::SYNC_FILE_RANGE_WAIT_BEFORE | libc::SYNC_FILE_RANGE_WRITE;
    // SAFETY: the descriptor is open as long as `file` is borrowed, and the call touches no memory of ours.
    let _at_best = unsafe { libc::sync_file_range(file.as_raw_fd(), 0, 0, flags) };
}
