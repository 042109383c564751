//! One sync for many files of the PFS: of the whole file system that they are on.
//!
//! Since Linux 5.8 syncfs(2) reports what could not be written since the descriptor that it is called on was opened. That
//! is true of the file systems that are named here; what syncfs does on others, as parallel ones, differs too much.

use std::ffi::c_long;
use std::os::fd::OwnedFd;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use crate::tree::{Batch, Found, Result};

/// The first Linux whose syncfs(2) reports errors.
const LINUX_MIN: (u32, u32) = (5, 8);

/// XFS; ext2, ext3 and ext4; Btrfs; tmpfs: as in statfs(2).
const RELIABLE: [c_long; 4] = [0x5846_5342, 0xef53, 0x9123_683e, 0x0102_1994];

/// A batch in one file system.
struct PfsBatch {
    folder: OwnedFd,
    device: u64,
}

/// Begins a batch of files that are made in `folder`, or elsewhere in its file system.
pub(super) fn begin(folder: &Found) -> Result<Option<Box<dyn Batch>>> {
    if !reports_errors() {
        return Ok(None);
    }
    let (device, path) = (folder.device, &folder.path);
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let folder = match rustix::fs::open(path, flags, Mode::empty()) {
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

fn reports_errors() -> bool {
    let release = rustix::system::uname();
    let release = release.release().to_string_lossy();
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map_while(|number| number.parse().ok());
    numbers.next().zip(numbers.next()).is_some_and(|version| version >= LINUX_MIN)
}
