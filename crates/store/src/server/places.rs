//! How many connections a node takes at once.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::Server;

/// One of the connections that a node takes at once, until it is dropped.
pub(crate) struct Place(Arc<Server>);

impl Place {
    /// Who serves it.
    pub(crate) fn server(&self) -> &Server {
        &self.0
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.connections.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Server {
    /// A place for one more connection; `None` where as many are served as may be.
    pub(crate) fn place(self: &Arc<Server>) -> Option<Place> {
        let before = self.connections.fetch_add(1, Ordering::AcqRel);
        let place = Place(self.clone());
        if before >= self.connections_max {
            tracing::warn!(limit = self.connections_max, "refused a connection past the limit");
            return None;
        }
        Some(place)
    }
}
