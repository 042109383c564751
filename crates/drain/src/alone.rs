//! One drainer for one folder of its own.

use std::path::Path;
use std::time::{Duration, Instant};

use daemon::lock::{FolderLock, LockError};

/// How long a killed predecessor may take to end: the kernel first finishes what it has begun to write.
const PREDECESSOR_LIMIT: Duration = Duration::from_secs(10);

/// How often the lock is tried.
const PERIOD: Duration = Duration::from_millis(20);

/// Takes the lock; a predecessor that was killed may need a moment to be gone.
pub(crate) fn alone(path: &Path) -> Result<FolderLock, LockError> {
    let give_up = Instant::now() + PREDECESSOR_LIMIT;
    loop {
        match daemon::lock::exclusive(path) {
            Err(LockError::Held { .. }) if Instant::now() < give_up => std::thread::sleep(PERIOD),
            outcome => return outcome,
        }
    }
}
