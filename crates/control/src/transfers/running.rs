//! Which transfers on demand run now, how to stop them, and who waits for their end.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

/// What runs now, and who waits for its end.
#[derive(Default)]
pub(crate) struct Running {
    /// How to stop each transfer that runs, by its number.
    stops: Mutex<HashMap<u64, watch::Sender<bool>>>,
    /// Held while it is decided what runs: what is active in the database has its stop in the table.
    scheduling: tokio::sync::Mutex<()>,
    /// Changes whenever the state of any transfer may have.
    changes: watch::Sender<u64>,
}

impl Running {
    pub(super) fn stops(&self) -> MutexGuard<'_, HashMap<u64, watch::Sender<bool>>> {
        self.stops.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps others from being started until it is dropped.
    pub(super) async fn hold(&self) -> tokio::sync::MutexGuard<'_, ()> {
        self.scheduling.lock().await
    }

    /// Tells of changes from now on.
    pub(super) fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// Says that something has changed.
    pub(super) fn changed(&self) {
        self.changes.send_modify(|count| *count += 1);
    }
}
