//! The two sides of a run, and with whose rights it works on them.

use std::sync::Arc;

use model::phase::Direction;

use crate::identity::Identity;
use crate::monitor::Monitor;
use crate::tree::Tree;
use crate::watched::Watched;

/// From where to where.
pub(crate) struct Sides {
    pub(crate) direction: Direction,
    pub(crate) source: Arc<dyn Tree>,
    pub(crate) target: Arc<dyn Tree>,
    pub(crate) identity: Identity,
}

impl Sides {
    /// With the rights of the calling thread; the monitor tells what does not come back.
    pub(crate) fn new(
        direction: Direction,
        pfs: Arc<dyn Tree>,
        buffer: Arc<dyn Tree>,
        monitor: &Arc<Monitor>,
    ) -> Sides {
        let watched = |tree| -> Arc<dyn Tree> { Arc::new(Watched::new(tree, monitor)) };
        let (pfs, buffer) = (watched(pfs), watched(buffer));
        let (source, target) = match direction {
            Direction::In => (pfs, buffer),
            Direction::Out => (buffer, pfs),
        };
        Sides { direction, source, target, identity: Identity::current() }
    }
}
