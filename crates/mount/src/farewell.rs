//! The last words of a mount.

use std::sync::Arc;

use client::Client;

use crate::behind::Behind;

/// What is to be said when a mount ends, whoever else still has the namespace in hand.
pub struct Farewell {
    client: Arc<Client>,
    behind: Option<Arc<Behind>>,
}

impl Farewell {
    /// Of a mount whose small writes may be held back in `behind`.
    pub fn new(client: Arc<Client>, behind: Option<Arc<Behind>>) -> Farewell {
        Farewell { client, behind }
    }

    /// Sends what is held back, and ends the session: what it had open is closed, and the space of what was removed is
    /// free. A storage node that hangs holds it up.
    pub fn say(&self) {
        self.behind.iter().for_each(|behind| behind.settle_all(&self.client));
        // An error of a close is nobody's any more, and was logged.
        let _closed = self.client.send_held();
        self.client.leave();
    }
}
