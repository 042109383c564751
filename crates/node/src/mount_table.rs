//! The kernel's mount table: is something mounted here, and away with it.

use std::io;
use std::path::Path;

/// What the supervision of mounts asks of the kernel. Tests have their own.
pub(crate) trait MountTable: Send + Sync + 'static {
    /// Whether a file system of ours is mounted at `path`. Does not touch `path`: a dead FUSE mount would hang or fail.
    ///
    /// # Errors
    /// The table cannot be read.
    fn is_mounted(&self, path: &Path) -> io::Result<bool>;

    /// Takes the topmost mount at `path` out of the tree at once, also where files are open.
    ///
    /// # Errors
    /// It is still there.
    fn detach(&self, path: &Path) -> io::Result<()>;
}

/// The mount table of this process's mount namespace.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KernelTable;

impl MountTable for KernelTable {
    fn is_mounted(&self, path: &Path) -> io::Result<bool> {
        fuse::table::is_mounted(path)
    }

    fn detach(&self, path: &Path) -> io::Result<()> {
        fuse::mount::unmount(path)
    }
}
