//! Which inode this drainer has put under a name on the PFS: what may be removed there again.
//!
//! **Invariant:** somebody else's file, and one that was touched since, is never taken for the drainer's.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use disk::below::Root;
use rustix::fs::{AtFlags, Mode, OFlags, unlinkat};
use serde::{Deserialize, Serialize};

use crate::generation::{Seen, Stamp, find};

/// Bytes that are read at once.
const SUM_AT_ONCE: usize = 1 << 20;

/// An inode as it was when it got its name. Its device is not noted: the number of one is another after a remount.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Placed {
    ino: u64,
    size: u64,
    mtime: Stamp,
    /// `None`: it was about to get the name, which changes this time.
    ctime: Option<Stamp>,
}

/// What became of a name that was to be removed.
pub(crate) enum Removal {
    /// It is not there any more.
    Removed,
    /// It stays, for this reason.
    Kept(&'static str),
}

impl Placed {
    /// What is about to get its name.
    pub(crate) fn before(part: &Seen) -> Placed {
        let seen = &part.generation;
        Placed { ino: seen.ino, size: seen.size, mtime: seen.mtime, ctime: None }
    }

    /// What has just got its name.
    pub(crate) fn now(there: &Seen) -> Placed {
        Placed { ctime: Some(there.generation.ctime), ..Placed::before(there) }
    }

    /// Why what is there now does not hold what this held, by all that is seen without reading it. Other names, modes
    /// and owners do not matter.
    pub(crate) fn holds_another(&self, there: &Seen) -> Option<&'static str> {
        Placed { ctime: None, ..*self }.differs(there)
    }

    /// Whether what is there is this, and nobody has touched it.
    pub(crate) fn is(&self, there: &Seen) -> bool {
        self.ctime.is_some() && self.differs(there).is_none()
    }

    /// Why what is there now is not this.
    fn differs(&self, there: &Seen) -> Option<&'static str> {
        let now = Placed::now(there);
        match () {
            () if now.ino != self.ino => Some("another file is there now"),
            () if (now.size, now.mtime) != (self.size, self.mtime) => Some("it was changed there"),
            () if self.ctime.is_some() && self.ctime != now.ctime => Some("it was changed or touched there"),
            () => None,
        }
    }
}

/// CRC32C of what the file `target` holds now.
///
/// # Errors
/// The PFS's.
pub(crate) fn sum_of(root: &Root, target: &Path) -> std::io::Result<u32> {
    let mut file = File::from(root.open(target, OFlags::RDONLY | OFlags::NONBLOCK, Mode::empty())?);
    let (mut sum, mut buffer) = (0, vec![0; SUM_AT_ONCE]);
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(sum),
            len => sum = crc32c::crc32c_append(sum, &buffer[..len]),
        }
    }
}

/// Removes from the PFS what this drainer has put under the name `target`, if it is that, and nobody has touched it.
///
/// # Errors
/// The PFS's.
pub(crate) fn remove(root: &Root, target: &Path, placed: Option<Placed>) -> rustix::io::Result<Removal> {
    let Some(there) = find(root, target)? else { return Ok(Removal::Removed) };
    let differs =
        placed.map_or(Some("nothing is noted of what this drain put there"), |it| it.differs(&there));
    if let Some(why) = differs {
        return Ok(Removal::Kept(why));
    }
    let place = root.reach(target)?;
    unlinkat(&place.folder, &place.name, AtFlags::empty())?;
    Ok(Removal::Removed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generation::look;

    #[test]
    fn only_what_was_put_there_and_is_as_it_was_goes() {
        let folder = tempfile::tempdir().unwrap();
        let (root, name, path) = (&Root::at(folder.path()), Path::new("a"), folder.path().join("a"));
        std::fs::write(&path, "text").unwrap();
        let seen = look(root, name).unwrap();
        let (before, now) = (Placed::before(&seen), Placed::now(&seen));
        let stays = |placed| matches!(remove(root, name, placed), Ok(Removal::Kept(_)));
        assert!(stays(None), "nobody knows whose it is");
        assert!(stays(Some(Placed { ino: seen.generation.ino + 1, ..now })));
        assert!(stays(Some(Placed { size: 5, ..before })));
        assert!(stays(Some(Placed { ctime: Some((1, 2)), ..now })));
        // A drainer was killed between the rename and the second note.
        assert!(matches!(remove(root, name, Some(before)), Ok(Removal::Removed)));
        assert!(!disk::exists(&path).unwrap());
        assert!(matches!(remove(root, name, Some(now)), Ok(Removal::Removed)), "there is nothing to keep");
    }
}
