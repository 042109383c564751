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
    /// Users of whom nothing is started, once for each who waits for the end of what he stopped of theirs.
    paused: Mutex<Vec<u32>>,
    /// Changes whenever the state of any transfer may have.
    changes: watch::Sender<u64>,
}

impl Running {
    pub(super) fn stops(&self) -> MutexGuard<'_, HashMap<u64, watch::Sender<bool>>> {
        self.stops.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps others from being started until it is dropped. Whoever holds it waits for no node: that is everybody's.
    pub(super) async fn hold(&self) -> tokio::sync::MutexGuard<'_, ()> {
        self.scheduling.lock().await
    }

    /// Keeps stages of these users from being started until it is dropped; whoever calls it holds the scheduling.
    /// Each of them has one that was told to stop, whose end starts what waits.
    pub(super) fn pause(&self, users: Vec<u32>) -> Pause<'_> {
        self.paused().extend(&users);
        Pause { running: self, users }
    }

    /// Users of whom nothing is started now.
    pub(crate) fn paused(&self) -> MutexGuard<'_, Vec<u32>> {
        self.paused.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until stages of the user may be started.
    pub(super) async fn until_not_paused(&self, user: u32) {
        let mut changes = self.changes();
        loop {
            changes.mark_unchanged();
            if !self.paused().contains(&user) {
                return;
            }
            let _ = changes.changed().await;
        }
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

/// Some users' stages are not started while it is there.
pub(super) struct Pause<'a> {
    running: &'a Running,
    users: Vec<u32>,
}

impl Drop for Pause<'_> {
    fn drop(&mut self) {
        let mut paused = self.running.paused();
        for user in &self.users {
            let at = paused.iter().position(|one| one == user);
            at.map(|at| paused.swap_remove(at));
        }
        drop(paused);
        self.running.changed();
    }
}
