//! The two sides of a run, and with whose rights it works on them.

use std::path::PathBuf;
use std::sync::Arc;

use model::phase::Direction;
use wire::node::StageSpec;

use crate::identity::Identity;
use crate::monitor::Monitor;
use crate::pfs::Pfs;
use crate::tree::{Source, Target};
use crate::watched::Watched;

/// A tree that can be either side.
pub trait Side: Source + Target {}

impl<T: Source + Target> Side for T {}

/// The side of a stage that is not the buffer, of whatever kind its paths are. Stages may reach what is below `roots`;
/// all of it, if there are none.
pub(crate) fn open(_spec: &StageSpec, roots: &[PathBuf]) -> Arc<dyn Side> {
    Arc::new(Pfs::within(roots))
}

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
