//! Users take turns at what costs control time: one request of a user at a time, so that whoever comes, as the workload
//! manager, waits for one of each user at most, and not for hundreds of one.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::OwnedMutexGuard;

use crate::rights::Rights;

/// Whose turn is taken.
#[derive(Default)]
pub(crate) struct Turns {
    of_users: Mutex<HashMap<u32, Arc<tokio::sync::Mutex<()>>>>,
}

/// A turn, until it is dropped. Operators and workload managers wait for nobody.
pub(crate) struct Turn {
    _of_user: Option<OwnedMutexGuard<()>>,
}

impl Turns {
    /// Waits for the turn of who asks.
    pub(crate) async fn take(&self, rights: Rights) -> Turn {
        let Rights::Owner(uid) = rights else { return Turn { _of_user: None } };
        let of_user = {
            let mut of_users = self.of_users.lock().unwrap_or_else(PoisonError::into_inner);
            of_users.retain(|other, turn| *other == uid || Arc::strong_count(turn) > 1);
            Arc::clone(of_users.entry(uid).or_default())
        };
        Turn { _of_user: Some(of_user.lock_owned().await) }
    }
}
