//! Whether a FUSE file system is mounted at a place, and until when.

use std::io;
use std::path::Path;

use disk::mount_table::{self, TABLE};
use rustix::event::{PollFd, PollFlags};

/// Whether a FUSE file system is mounted at `path`. Does not touch `path`: a dead mount would hang or fail.
///
/// # Errors
/// The table cannot be read.
pub fn is_mounted(path: &Path) -> io::Result<bool> {
    Ok(mount_table::mounts()?.iter().any(|mount| mount.is_fuse() && mount.mountpoint == path))
}

/// Waits until no FUSE file system is mounted at `path`, whoever unmounts it.
///
/// # Errors
/// The table cannot be read.
pub fn wait_until_unmounted(path: &Path) -> io::Result<()> {
    // The kernel tells whoever has the table open of each change (proc_pid_mounts(5)), also of one before the wait
    // began.
    let table = std::fs::File::open(TABLE)?;
    while is_mounted(path)? {
        rustix::io::retry_on_intr(|| rustix::event::poll(&mut [PollFd::new(&table, PollFlags::PRI)], None))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ordinary_folder_is_not_mounted() {
        let dir = tempfile::tempdir().unwrap();
        assert!(!is_mounted(dir.path()).unwrap());
        wait_until_unmounted(dir.path()).unwrap();
    }
}
