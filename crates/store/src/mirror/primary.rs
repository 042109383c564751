//! The fragment whose objects are mirrored here, as who repairs the mirror asks it.
//!
//! **Invariant:** only reads are asked of it: what changes is told by the fragment.

use std::sync::{Mutex, PoisonError};

use model::{Ino, NodeName};

use super::link::Link;
use crate::integrity::other::{NotRead, OtherCopy};
use crate::link::Place;

/// Where it is, and a connection to it.
pub struct Primary {
    place: Place,
    idle: Mutex<Option<Link>>,
}

impl std::fmt::Debug for Primary {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Primary").field("node", &self.place.node()).finish_non_exhaustive()
    }
}

impl Primary {
    /// At `place`.
    pub fn new(place: Place) -> Primary {
        Primary { place, idle: Mutex::default() }
    }

    fn read_by(&self, link: Option<Link>, (ino, offset, len): (Ino, u64, u32)) -> Result<Vec<u8>, NotRead> {
        let mut link = link.map_or_else(|| Link::reach(&self.place, 0), Ok).map_err(NotRead::Away)?;
        let read = link.read_checked(ino, offset, len);
        if !link.is_broken() {
            *self.idle.lock().unwrap_or_else(PoisonError::into_inner) = Some(link);
        }
        read
    }
}

impl OtherCopy for Primary {
    fn node(&self) -> NodeName {
        self.place.node()
    }

    fn read(&self, ino: Ino, offset: u64, len: u32) -> Result<Vec<u8>, NotRead> {
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).take();
        let was_idle = idle.is_some();
        match self.read_by(idle, (ino, offset, len)) {
            // Its node may have been started again since.
            Err(NotRead::Away(_)) if was_idle => self.read_by(None, (ino, offset, len)),
            read => read,
        }
    }
}
