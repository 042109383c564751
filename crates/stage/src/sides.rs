//! The two sides of a run, and with whose rights it works on them.

use std::sync::Arc;

use model::phase::Direction;

use crate::identity::Identity;
use crate::monitor::Monitor;
use crate::tree::{Source, Target};
use crate::watched::Watched;

/// From where to where.
pub(crate) struct Sides {
    pub(crate) direction: Direction,
    pub(crate) source: Arc<dyn Source>,
    pub(crate) target: Arc<dyn Target>,
    pub(crate) identity: Identity,
}

impl Sides {
    /// With the rights of the calling thread; the monitor tells what does not come back.
    pub(crate) fn new(
        direction: Direction,
        source: Arc<dyn Source>,
        target: Arc<dyn Target>,
        monitor: &Arc<Monitor>,
    ) -> Sides {
        let source = Arc::new(Watched::new(source, monitor));
        let target = Arc::new(Watched::new(target, monitor));
        Sides { direction, source, target, identity: Identity::current() }
    }
}
