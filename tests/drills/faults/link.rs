//! Links between mounts and storage nodes.

use crate::ground::Ground;
use crate::relay::Link;
use crate::scenario::Fault;

/// So long a link is bad, at most, milliseconds: below the 11 s after which a machine counts as gone.
const BAD_MAX_MS: u64 = 600;

impl Ground {
    /// The link of a storage node is bad for a moment.
    #[track_caller]
    pub fn disturb_link(&mut self, fault: Fault) {
        let n = self.any_storage();
        self.relays[n].set(match fault {
            Fault::LinkCut => Link::Cut,
            Fault::LinkHeld => Link::Held,
            _ => Link::Slow,
        });
        self.pause(BAD_MAX_MS);
        self.relays[n].set(Link::Open);
    }
}
