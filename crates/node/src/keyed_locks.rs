//! Turns: calls that make, change or remove what has an id are done one after the other, so that one that is repeated,
//! or goes against another, finds what that has left and not what it was at.
//!
//! **Invariant:** calls with one id never overlap; those with different ids never wait for each other.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use tokio::sync::OwnedMutexGuard;

/// The turns of all things of one kind, by id.
#[derive(Debug, Default)]
pub(crate) struct Turns(Mutex<HashMap<String, Weak<tokio::sync::Mutex<()>>>>);

/// A turn of one call; it ends when this is dropped.
pub(crate) struct Turn {
    _held: OwnedMutexGuard<()>,
}

impl Turns {
    /// Waits until all earlier calls with this id are done.
    pub(crate) async fn take(&self, id: &str) -> Turn {
        let queue = {
            let mut queues = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            queues.retain(|_, queue| queue.strong_count() > 0);
            queues.get(id).and_then(Weak::upgrade).unwrap_or_else(|| {
                let queue = Arc::default();
                queues.insert(id.to_owned(), Arc::downgrade(&queue));
                queue
            })
        };
        Turn { _held: queue.lock_owned().await }
    }
}
