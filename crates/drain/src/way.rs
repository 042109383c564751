//! What is in the way of a folder on the PFS: a symbolic link that this drainer made goes when it has gone on the node,
//! everything else is named and stays.

use std::path::Path;

use disk::below::Root;
use rustix::io::Errno;

use crate::copy::Outcome;
use crate::drain::Drain;
use crate::generation::{Kind, find};
use crate::settings::Removed;
use crate::status::Trouble;
use crate::table::Attempt;

impl Drain {
    /// Removes `obstacle`, which is above the name of `path` on the PFS, if it landed from a link that is none on the
    /// node any more, or from a file, where removals are followed.
    pub(crate) fn clear_the_way(&self, path: &Path, obstacle: &Path) -> Outcome {
        let may_go = match find(&Root::at(&self.to), obstacle) {
            // Somebody has removed it meanwhile.
            Ok(None) => return Outcome::Changed,
            Ok(Some(there)) => there.kind == Kind::Link || self.removed == Removed::Follow,
            Err(_) => false,
        };
        let owner = self.lock().ledger.path_of(obstacle).filter(|_| may_go);
        let is_folder = |owner: &Path| {
            self.top.find(owner).is_ok_and(|seen| seen.is_some_and(|seen| seen.kind == Kind::Folder))
        };
        // It may have another name by now, under which it is not there yet.
        let free =
            owner.filter(|owner| is_folder(owner)).and_then(|owner| self.without_heir(vec![owner]).pop());
        let Some(owner) = free else { return Outcome::Failed(self.blocked(path, obstacle)) };
        let mut state = self.lock();
        if state.table.seize(&owner) {
            let traces = state.ledger.traces(&owner);
            drop(state);
            self.retire(&owner, &traces);
            self.settle_one(&mut self.lock(), &owner, Attempt::Done);
        }
        Outcome::Changed
    }

    /// Says what is in the way.
    pub(crate) fn blocked(&self, path: &Path, obstacle: &Path) -> Trouble {
        let what = match find(&Root::at(&self.to), obstacle) {
            Ok(Some(seen)) if seen.kind == Kind::Link => "a symbolic link",
            _ => "a file",
        };
        Trouble {
            path: path.display().to_string(),
            errno: Errno::NOTDIR.raw_os_error(),
            message: format!(
                "make folder {}: {what} is in the way, and nothing is written through it",
                obstacle.display()
            ),
            advice: "move it away, or give the folder on the node another name; the drainer tries again"
                .to_owned(),
        }
    }
}
