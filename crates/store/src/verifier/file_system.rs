//! File systems that are mounted, which fragments may share, and syncs of them as a whole.
//!
//! **Invariant:** the kernel tells one caller of an error, and who opens the file system later hears nothing: what one
//! sync was told counts for all of this process.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::fs::{AtFlags, CWD, StatxFlags};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

/// `STATX_MNT_ID_UNIQUE` of statx(2), since Linux 6.8, which rustix does not name.
const MNT_ID_UNIQUE: StatxFlags = StatxFlags::from_bits_retain(0x4000);

/// One mount of a file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) struct Mounted {
    id: u64,
    device: (u32, u32),
}

impl Mounted {
    /// What `place` is on.
    ///
    /// # Errors
    /// The errno of statx(2).
    pub(super) fn of(place: &Path) -> io::Result<Mounted> {
        let found = rustix::fs::statx(CWD, place, AtFlags::empty(), StatxFlags::MNT_ID | MNT_ID_UNIQUE)?;
        let told =
            StatxFlags::from_bits_retain(found.stx_mask).intersects(StatxFlags::MNT_ID | MNT_ID_UNIQUE);
        let id = if told { found.stx_mnt_id } else { 0 };
        Ok(Mounted { id, device: (found.stx_dev_major, found.stx_dev_minor) })
    }
}

/// What this process has synced as a whole, and whether that never failed.
static SYNCED: Mutex<BTreeMap<Mounted, bool>> = Mutex::new(BTreeMap::new());

fn synced() -> MutexGuard<'static, BTreeMap<Mounted, bool>> {
    SYNCED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Makes everything that was written to the file system of `place` survive a power loss.
///
/// # Errors
/// The errno of what failed; EIO where it failed before; ENOTSUP where this kernel would not tell.
pub fn sync_file_system(place: &Path) -> io::Result<()> {
    if !model::kernel::syncfs_reports_errors(&rustix::system::uname().release().to_string_lossy()) {
        return Err(Errno::NOTSUP.into());
    }
    let (folder, mounted) = (File::open(place)?, Mounted::of(place)?);
    let mut synced = synced();
    if synced.get(&mounted) == Some(&false) {
        return Err(Errno::IO.into());
    }
    let done = rustix::fs::syncfs(folder);
    synced.insert(mounted, done.is_ok());
    Ok(done?)
}

/// Whether all that was written to the file system of `place` before this process began is on its disk, as far as the
/// kernel tells.
pub(super) fn is_written_back(place: &Path) -> bool {
    let known = Mounted::of(place).ok().and_then(|mounted| synced().get(&mounted).copied());
    known.unwrap_or_else(|| match sync_file_system(place) {
        Err(error) => error.raw_os_error() == Some(Errno::NOTSUP.raw_os_error()),
        Ok(()) => true,
    })
}
