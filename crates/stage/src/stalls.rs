//! Operations that are under way, so that one that does not come back can be named: a mount whose server is away holds
//! its callers for ever, and they cannot even be killed.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use wire::control::{Side, Stall};

/// All operations of a stage that are under way, oldest first.
#[derive(Default)]
pub(crate) struct Stalls {
    table: Mutex<Table>,
}

#[derive(Default)]
struct Table {
    next: u64,
    running: BTreeMap<u64, Running>,
}

struct Running {
    since: Instant,
    side: Side,
    operation: &'static str,
    path: String,
}

impl Stalls {
    /// Runs `operation` on the path that `show` tells.
    pub(crate) fn watch<T>(
        &self,
        side: Side,
        operation: &'static str,
        path: &Path,
        run: impl FnOnce() -> T,
    ) -> T {
        let path = path.to_string_lossy().into_owned();
        let number = {
            let mut table = self.lock();
            table.next += 1;
            let number = table.next;
            table.running.insert(number, Running { since: Instant::now(), side, operation, path });
            number
        };
        let outcome = run();
        self.lock().running.remove(&number);
        outcome
    }

    /// The oldest operation, if it is under way for so long.
    pub(crate) fn longer_than(&self, limit: Duration) -> Option<Stall> {
        let table = self.lock();
        let oldest = table.running.values().next()?;
        let passed = oldest.since.elapsed();
        (passed >= limit).then(|| Stall {
            side: oldest.side,
            path: oldest.path.clone(),
            operation: oldest.operation.to_owned(),
            for_ms: u64::try_from(passed.as_millis()).unwrap_or(u64::MAX),
        })
    }

    /// Whether another operation than these is under way for so long.
    pub(crate) fn has_other(&self, operation: &str, limit: Duration) -> bool {
        let table = self.lock();
        table.running.values().any(|one| one.operation != operation && one.since.elapsed() >= limit)
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().expect("no thread panics with the lock")
    }
}
