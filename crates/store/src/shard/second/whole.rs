//! Whether this node's log has all that its second copy is known to have, asked before something is done for good
//! because the log does not name it.

use std::io;

use model::NodeName;

use super::{SILENT_MAX, Second};
use crate::link::Found;
use crate::shard::Shard;

impl Shard {
    /// Makes sure that the log has lost nothing that was confirmed, for all that the node with its copy knows.
    ///
    /// # Errors
    /// It has, or that node cannot be asked: its name, and why.
    pub fn check_log(&self) -> Result<(), (NodeName, io::Error)> {
        let Some(second) = &self.second else { return Ok(()) };
        second.check_whole().map_err(|error| (second.place.node(), error))
    }

    /// Whether the log is known to have lost its end: the copy says so. Where nobody can be asked it is not known.
    pub fn is_log_cut(&self) -> bool {
        self.second.as_ref().is_some_and(|second| second.has_lost_its_end())
    }
}

impl Second {
    /// Before the first copy of this life is begun: how far does the other node know that the log was synced? It may
    /// have been away when this node started, and have the only copy of what was lost here.
    pub(super) fn compare(&self, found: Found) -> io::Result<()> {
        let mut progress = self.lock();
        if !progress.compared && !self.accepted && found.confirmed > self.opened {
            let (has, knew) = (self.opened, found.confirmed);
            return Err(io::Error::other(format!(
                "the log had {has} entries when this node started, but was synced up to entry {knew}: its end was \
                 lost. The copy is kept as it is"
            )));
        }
        progress.compared = true;
        Ok(())
    }

    fn has_lost_its_end(&self) -> bool {
        if self.accepted || self.lock().compared {
            return false;
        }
        let found = self.place.reach(SILENT_MAX).map_err(io::Error::other).and_then(|mut link| link.find());
        found.is_ok_and(|found| self.compare(found).is_err())
    }

    fn check_whole(&self) -> io::Result<()> {
        // Once the two were found to agree, nothing is in the copy but what this node has sent.
        if self.accepted || self.lock().compared {
            return Ok(());
        }
        let mut link = self.place.reach(SILENT_MAX).map_err(io::Error::other)?;
        self.compare(link.find()?)
    }
}
