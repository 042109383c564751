//! What a client does by itself every second, whether anybody asks it for anything or not.

use std::sync::Arc;
use std::time::Duration;

use super::Client;

const PERIOD: Duration = Duration::from_secs(1);

impl Client {
    /// Does `work` every second, from a thread of this name that ends with the client.
    ///
    /// # Panics
    /// When the system has no thread left.
    pub(super) fn every_second(
        self: &Arc<Client>,
        name: &'static str,
        mut work: impl FnMut(&Client) + Send + 'static,
    ) {
        let weak = Arc::downgrade(self);
        let run = move || {
            while let Some(client) = weak.upgrade() {
                work(&client);
                drop(client);
                std::thread::sleep(PERIOD);
            }
        };
        let thread = std::thread::Builder::new().name(name.into());
        thread.spawn(run).unwrap_or_else(|error| panic!("the system has a thread named {name}: {error}"));
    }
}
