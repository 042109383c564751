//! A queue for each user, at what costs control time: control works on one request of a user at a time, so that another
//! caller, as the workload manager, waits for one request of each user at most, and not for hundreds of one user.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::OwnedMutexGuard;

use crate::rights::Rights;

/// The queues of all users.
#[derive(Default)]
pub(crate) struct UserQueues {
    of_users: Mutex<HashMap<u32, Arc<tokio::sync::Mutex<()>>>>,
}

/// A turn, until it is dropped. Operators and workload managers wait for nobody.
pub(crate) struct Turn {
    _of_user: Option<OwnedMutexGuard<()>>,
}

impl UserQueues {
    /// Waits until it is the caller's turn in its user's queue.
    pub(crate) async fn wait(&self, rights: Rights) -> Turn {
        let Rights::Owner(uid) = rights else { return Turn { _of_user: None } };
        let of_user = {
            let mut of_users = self.of_users.lock().unwrap_or_else(PoisonError::into_inner);
            of_users.retain(|other, turn| *other == uid || Arc::strong_count(turn) > 1);
            Arc::clone(of_users.entry(uid).or_default())
        };
        Turn { _of_user: Some(of_user.lock_owned().await) }
    }
}
