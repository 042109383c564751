//! One sync for many files of the PFS: of the whole file system that they are on.
//!
//! Since Linux 5.8 syncfs(2) reports what could not be written since the descriptor that it is called on was opened.
//! That is true of the file systems that are named here; what syncfs does on others, as parallel ones, differs too
//! much.

use std::ffi::c_long;
use std::os::fd::OwnedFd;

use rustix::io::Errno;

use crate::tree::{Batch, Found, Result};

/// XFS; ext2, ext3 and ext4; Btrfs; tmpfs: as in statfs(2).
const RELIABLE: [c_long; 4] = [0x5846_5342, 0xef53, 0x9123_683e, 0x0102_1994];

/// A batch in one file system.
struct PfsBatch {
    folder: OwnedFd,
    device: u64,
}

/// Begins a batch of files that are made in a folder, or elsewhere in its file system.
pub(super) fn begin(device: u64, open: impl FnOnce() -> Result<OwnedFd>) -> Result<Option<Box<dyn Batch>>> {
    let system = rustix::system::uname();
    if !model::kernel::syncfs_reports_errors(&system.release().to_string_lossy()) {
        return Ok(None);
    }
    let folder = match open() {
        // Files can be made in a folder that cannot be read.
        Err(Errno::ACCESS) => return Ok(None),
        folder => folder?,
    };
    if !RELIABLE.contains(&rustix::fs::fstatfs(&folder)?.f_type) {
        return Ok(None);
    }
    Ok(Some(Box::new(PfsBatch { folder, device })))
}

impl Batch for PfsBatch {
    fn sync(&self, files: &[&Found]) -> Result<()> {
        // The folder's path leads elsewhere than it did.
        if files.iter().any(|file| file.device != self.device) {
            return Err(Errno::XDEV);
        }
        rustix::fs::syncfs(&self.folder)
    }
}
