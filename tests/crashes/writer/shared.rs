//! Work that several mounts do on the same files: records that are appended, and counters under locks.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::Ordering;

use rustix::fs::{FlockOperation, fcntl_lock, flock};

use super::{Failure, STOP, failed};

/// Appends records until it is told to stop; how many. Each is whole and names its writer and its number.
pub fn append(mount: &Path, number: u64) -> Result<u64, Failure> {
    let path = mount.join("appended");
    let mut file = OpenOptions::new().append(true).create(true).open(&path).map_err(failed("open", &path))?;
    let mut count = 0;
    while !STOP.load(Ordering::Relaxed) {
        let record = format!("{number:04} {count:010}{}\n", " record".repeat(3 + (count % 5) as usize));
        let written = file.write(record.as_bytes()).map_err(failed("append to", &path))?;
        if written != record.len() {
            return Err(format!("append to {path:?}: wrote {written} of {} bytes", record.len()));
        }
        count += 1;
    }
    Ok(count)
}

/// How a counter is locked.
#[derive(Clone, Copy)]
pub enum Lock {
    /// `flock`.
    Whole,
    /// `fcntl`.
    Range,
}

impl Lock {
    fn name(self) -> &'static str {
        match self {
            Lock::Whole => "counted-flock",
            Lock::Range => "counted-fcntl",
        }
    }

    fn set(self, file: &File, operation: FlockOperation) -> rustix::io::Result<()> {
        match self {
            Lock::Whole => flock(file.as_fd(), operation),
            Lock::Range => fcntl_lock(file.as_fd(), operation),
        }
    }
}

/// Counts up under a lock until it is told to stop; how often.
pub fn count(mount: &Path, lock: Lock) -> Result<u64, Failure> {
    let path = mount.join(lock.name());
    let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path);
    let file = file.map_err(failed("open", &path))?;
    let mut count = 0;
    while !STOP.load(Ordering::Relaxed) {
        lock.set(&file, FlockOperation::LockExclusive).map_err(failed("lock", &path))?;
        let mut bytes = [0; 8];
        // Empty at the very first.
        let _length = file.read_at(&mut bytes, 0).map_err(failed("read", &path))?;
        let next = u64::from_le_bytes(bytes) + 1;
        file.write_all_at(&next.to_le_bytes(), 0).map_err(failed("write", &path))?;
        lock.set(&file, FlockOperation::Unlock).map_err(failed("unlock", &path))?;
        count += 1;
    }
    Ok(count)
}
