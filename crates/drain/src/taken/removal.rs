//! A name that goes from the PFS.

use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use rustix::io::{Errno, Result};

use super::{Taken, aside, name_in};
use crate::generation::{if_there, look_in};
use crate::placed::Under;

/// What became of a name that was to be removed.
pub(crate) enum Removal {
    /// It is not there any more.
    Removed,
    /// It stays, for this reason.
    Kept(&'static str),
}

impl Taken {
    /// Removes from the PFS what this drainer has put under the name `target`, if it is that, and nobody has touched
    /// it. It is taken to a name like `part` first.
    ///
    /// # Errors
    /// The PFS's.
    pub(crate) fn remove(
        &self,
        target: &Path,
        part: impl FnOnce() -> PathBuf,
        placed: Option<&Under>,
    ) -> Result<Removal> {
        let place = match self.root.reach(target) {
            Err(Errno::NOENT | Errno::NOTDIR) => return Ok(Removal::Removed),
            place => place?,
        };
        let Some(there) = if_there(look_in(place.folder.as_fd(), &place.name))? else {
            return Ok(Removal::Removed);
        };
        let differs =
            placed.map_or(Some("nothing is noted of what this drainer put there"), |it| it.differs(&there));
        if let Some(why) = differs {
            return Ok(Removal::Kept(why));
        }
        let aside = aside(&name_in(&part()), &there, &there, &place.name);
        let removed = place.remove_with(&aside, |folder, name| Ok(look_in(folder, name)?.is_still(&there)));
        self.note(&place, &aside, target);
        match removed {
            Ok(()) | Err(Errno::NOENT) => Ok(Removal::Removed),
            Err(Errno::EXIST) => Ok(Removal::Kept("another file has come there")),
            Err(errno) => Err(errno),
        }
    }
}
