//! Room for a service's own files on a disk that others may fill to the last block. Without any it could not even make
//! a socket, and would not start again.
//!
//! **Invariant:** it is kept while the service runs, also through a power loss, and given up only where nothing else is
//! left.

use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{FallocateFlags, Mode, OFlags, fallocate, statvfs};

use crate::regular;

/// As much as there is of it, bytes. A start takes some tens of KiB of it, and XFS wants a few hundred to be free for
/// that.
const SIZES: [u64; 5] = [1 << 20, 768 << 10, 512 << 10, 256 << 10, 64 << 10];

/// A file that only takes space, until it is needed.
#[derive(Debug)]
pub struct Room(PathBuf);

impl Room {
    /// That of a service which keeps its files in the folder `state`.
    pub fn of(state: &Path) -> Room {
        Room(state.join("room"))
    }

    /// Takes what there is, and makes it durable: others may fill what a power loss gives back.
    pub fn take(&self) {
        let file = regular::open(&self.0, OFlags::WRONLY | OFlags::CREATE, Mode::from_raw_mode(0o666));
        let taken = file.is_ok_and(|file| {
            let mut sizes = SIZES.into_iter();
            sizes.any(|size| fallocate(&file, FallocateFlags::empty(), 0, size).is_ok())
                && file.sync_all().is_ok()
        });
        if !taken {
            tracing::info!("there is no room to keep in {}", self.0.display());
        }
    }

    /// Gives it up if not as much is left elsewhere.
    pub fn make_way(&self) {
        let left = |found: rustix::fs::StatVfs| found.f_bavail * found.f_frsize;
        if statvfs(&self.0).is_ok_and(|found| left(found) < SIZES[0]) {
            self.give_up();
        }
    }

    /// Gives up half of it, where all of it is there: the other half is for the next start. Says whether it did.
    pub fn give_up_some(&self) -> bool {
        self.shorten(SIZES[0] / 2)
    }

    /// Gives it up; says whether there was any.
    fn give_up(&self) -> bool {
        self.shorten(0)
    }

    /// Not by removing the file: some file systems free its space only later.
    fn shorten(&self, length: u64) -> bool {
        let file = regular::open(&self.0, OFlags::WRONLY, Mode::empty());
        file.is_ok_and(|file| {
            let had = file.metadata().is_ok_and(|found| found.len() > length) && file.set_len(length).is_ok();
            // XFS allocates what was freed only once its log is on the disk.
            had && file.sync_all().is_ok()
        })
    }

    /// Does what writes a little, once more with half of this room if the file system is full.
    ///
    /// # Errors
    /// That of the last try.
    pub fn or_give_up_some(&self, mut work: impl FnMut() -> io::Result<()>) -> io::Result<()> {
        match work() {
            Err(error) if crate::is_full(&error) && self.give_up_some() => work(),
            outcome => outcome,
        }
    }

    /// Does what writes a little, once more without this room if the file system is full.
    ///
    /// # Errors
    /// That of the last try.
    pub fn or_give_up(&self, mut work: impl FnMut() -> io::Result<()>) -> io::Result<()> {
        match work() {
            Err(error) if crate::is_full(&error) && self.give_up() => work(),
            outcome => outcome,
        }
    }
}
