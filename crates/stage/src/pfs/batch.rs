//! One sync for many files of the PFS: of the whole file system that they are on, and for all who wait for one.
//!
//! Since Linux 5.8 syncfs(2) reports what could not be written since the descriptor that it is called on was opened, or was
//! synced last. That is true of the file systems that are named here; what syncfs does on others, as parallel ones, differs
//! too much.

use std::collections::HashMap;
use std::ffi::c_long;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::{Arc, Condvar, LazyLock, Mutex, Weak};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use crate::tree::{Batch, Found, Result};

/// XFS; ext2, ext3 and ext4; Btrfs; tmpfs: as in statfs(2).
const RELIABLE: [c_long; 4] = [0x5846_5342, 0xef53, 0x9123_683e, 0x0102_1994];

/// The file systems in which batches are written, by their devices.
static SYSTEMS: LazyLock<Mutex<HashMap<u64, Weak<System>>>> = LazyLock::new(Mutex::default);

/// A batch in one file system.
struct PfsBatch {
    system: Arc<System>,
    device: u64,
    /// Syncs that were over before it.
    before: u64,
}

/// A file system, and who syncs it.
struct System {
    /// A folder in it. Opened before any batch that uses it was begun, so that syncfs reports what concerns those.
    folder: OwnedFd,
    syncs: Mutex<Syncs>,
    ended: Condvar,
}

/// The syncs of a file system, which come one after the other.
#[derive(Default)]
struct Syncs {
    begun: u64,
    ended: u64,
    /// The last one that failed, and why.
    failed: Option<(u64, Errno)>,
}

/// Begins a batch of files that are made in `folder`, or elsewhere in its file system.
pub(super) fn begin(folder: &Found) -> Result<Option<Box<dyn Batch>>> {
    let release = rustix::system::uname();
    if !model::kernel::syncfs_reports_errors(&release.release().to_string_lossy()) {
        return Ok(None);
    }
    let device = folder.device;
    let mut systems = SYSTEMS.lock().expect("no thread panics with the lock");
    let system = match systems.get(&device).and_then(Weak::upgrade) {
        Some(system) => system,
        None => {
            let Some(system) = open(&folder.path)?.map(Arc::new) else { return Ok(None) };
            systems.retain(|_, system| system.strong_count() > 0);
            systems.insert(device, Arc::downgrade(&system));
            system
        }
    };
    drop(systems);
    let before = system.lock().ended;
    Ok(Some(Box::new(PfsBatch { system, device, before })))
}

/// The file system of a folder, if its syncfs can be relied on.
fn open(folder: &Path) -> Result<Option<System>> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let folder = match rustix::fs::open(folder, flags, Mode::empty()) {
        // Files can be made in a folder that cannot be read.
        Err(Errno::ACCESS) => return Ok(None),
        folder => folder?,
    };
    let is_reliable = RELIABLE.contains(&rustix::fs::fstatfs(&folder)?.f_type);
    Ok(is_reliable.then(|| System { folder, syncs: Mutex::default(), ended: Condvar::new() }))
}

impl Batch for PfsBatch {
    fn sync(&self, files: &[&Found]) -> Result<()> {
        // The folder's path leads elsewhere than it did.
        if files.iter().any(|file| file.device != self.device) {
            return Err(Errno::XDEV);
        }
        self.system.wait_for(self.system.next(), self.before)
    }
}

impl System {
    /// The sync that is begun next.
    fn next(&self) -> u64 {
        self.lock().begun + 1
    }

    /// Waits for the end of a sync, by whomever. What went wrong with any that was not over when a batch was begun may have
    /// been the batch's.
    fn wait_for(&self, wanted: u64, before: u64) -> Result<()> {
        let mut syncs = self.lock();
        while syncs.ended < wanted {
            if syncs.begun > syncs.ended {
                syncs = self.ended.wait(syncs).expect("no thread panics with the lock");
                continue;
            }
            syncs.begun += 1;
            drop(syncs);
            let synced = rustix::fs::syncfs(&self.folder);
            syncs = self.lock();
            syncs.ended += 1;
            if let Err(errno) = synced {
                syncs.failed = Some((syncs.ended, errno));
            }
            self.ended.notify_all();
        }
        match syncs.failed {
            Some((number, errno)) if number > before => Err(errno),
            _ => Ok(()),
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Syncs> {
        self.syncs.lock().expect("no thread panics with the lock")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(path: &Path) -> Found {
        use crate::tree::Tree;
        crate::pfs::Pfs.find(path).unwrap()
    }

    #[test]
    fn who_waits_for_a_sync_shares_it_with_those_who_wait_too() {
        let dir = tempfile::tempdir().unwrap();
        let system =
            Arc::new(open(dir.path()).unwrap().expect("temporary folders are on such a file system"));
        // One is under way, and may have missed what was written since it began.
        system.lock().begun = 1;
        let wanted: Vec<u64> = (0..8).map(|_| system.next()).collect();
        std::thread::scope(|scope| {
            for wanted in wanted {
                let system = &system;
                scope.spawn(move || system.wait_for(wanted, 0).unwrap());
            }
            system.lock().ended = 1;
            system.ended.notify_all();
        });
        assert_eq!(system.lock().begun, 2);
    }

    #[test]
    fn a_sync_that_failed_is_told_to_all_who_had_begun_to_write_and_to_nobody_else() {
        let dir = tempfile::tempdir().unwrap();
        let found = folder(dir.path());
        let before = begin(&found).unwrap().unwrap();
        let system = SYSTEMS.lock().unwrap().get(&found.device).and_then(Weak::upgrade).unwrap();
        before.sync(&[]).unwrap();
        {
            let mut syncs = system.lock();
            (syncs.begun, syncs.ended) = (syncs.begun + 1, syncs.ended + 1);
            syncs.failed = Some((syncs.ended, Errno::IO));
        }
        assert_eq!(before.sync(&[]), Err(Errno::IO));
        system.lock().begun += 1;
        system.lock().ended += 1;
        begin(&found).unwrap().unwrap().sync(&[]).unwrap();
    }
}
