//! The PFS side: a name that another node of the job has taken is not taken from it, and no name is reached through a
//! symbolic link.
//!
//! **Invariant:** which inode gets a name is noted before it has it, so that only that one is ever removed again.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{AtFlags, RenameFlags};
use rustix::io::Errno;
use stage::pfs::Pfs;
use stage::tree::{self, Found, Listing, New, OpenFile, Placement, Result, TargetFile, Tree, Xattr};
use wire::control::Side;
use wire::data::SetAttr;

use crate::below::{self, Place};
use crate::claims::Claims;
use crate::generation::{Seen, look};
use crate::placed::Placed;

/// Notes which inode is put under a name.
type Note = Box<dyn Fn(&Path, Placed) + Send + Sync>;

/// Files on the PFS.
pub(crate) struct Target {
    files: Pfs,
    /// The folder that is drained to.
    root: PathBuf,
    note: Note,
    /// Who has which name; `None` where the names cannot meet.
    claims: Option<Arc<Claims>>,
}

impl Target {
    /// Names below `root`. Asks `claims` before one is used for the first time, and tells `note` which inode gets it.
    pub(crate) fn new(
        root: &Path,
        claims: Option<Arc<Claims>>,
        note: impl Fn(&Path, Placed) + Send + Sync + 'static,
    ) -> Target {
        Target { files: Pfs, root: root.to_owned(), note: Box::new(note), claims }
    }

    fn reach(&self, path: &Path) -> Result<Place> {
        below::reach(&self.root, path)
    }

    /// Does something with an entry at the path by which it is reached.
    fn with<T>(&self, entry: &Found, work: impl FnOnce(&Found) -> Result<T>) -> Result<T> {
        let place = self.reach(&entry.path)?;
        work(&Found { path: place.path(), ..entry.clone() })
    }

    fn give_name(&self, from: &Path, to: &Path) -> Result<()> {
        let (part, name) = (self.reach(from)?, self.reach(to)?);
        let Some(claims) = self.claims.as_ref().filter(|claims| !claims.has(to)) else {
            return rename(&part, &name);
        };
        // Said before it is done: of two nodes, the second at least sees the first.
        claims.claim(to)?;
        match rename_to_new(&part, &name) {
            Err(Errno::EXIST) if claims.is_elsewhere(to)? => {
                claims.give_up(to)?;
                return Err(Errno::EXIST);
            }
            // Of an earlier job: this one replaces it, as a program on the PFS would.
            Err(Errno::EXIST) => rename(&part, &name)?,
            outcome => outcome?,
        }
        claims.keep(to);
        Ok(())
    }
}

impl Tree for Target {
    fn side(&self) -> Side {
        Side::Pfs
    }

    fn show(&self, path: &Path) -> String {
        self.files.show(path)
    }

    fn find(&self, path: &Path) -> Result<Found> {
        let found = self.files.find(&self.reach(path)?.path())?;
        Ok(Found { path: path.to_owned(), ..found })
    }

    // A link is found as a link: nothing is looked for behind it.
    fn locate(&self, path: &Path) -> Result<Found> {
        self.find(path)
    }

    fn list<'a>(&'a self, folder: &Found) -> Result<Listing<'a>> {
        let place = below::inside(&self.root, &folder.path)?;
        let entries = self.files.list(&Found { path: place.path(), ..folder.clone() })?;
        let folder = folder.path.clone();
        // It holds the place until the last entry has been looked at.
        let named = move |path: PathBuf| match path.strip_prefix(place.path()) {
            Ok(name) => folder.join(name),
            Err(_) => folder.clone(),
        };
        Ok(Box::new(entries.map(move |entry| match entry {
            Ok(found) => Ok(Found { path: named(found.path), ..found }),
            Err((path, errno)) => Err((named(path), errno)),
        })))
    }

    fn open(&self, file: &Found) -> Result<Box<dyn OpenFile>> {
        self.with(file, |file| self.files.open(file))
    }
}

impl tree::Target for Target {
    fn placement(&self) -> Placement {
        self.files.placement()
    }

    fn reopen(&self, file: &Found) -> Result<Box<dyn TargetFile>> {
        self.with(file, |file| self.files.reopen(file))
    }

    fn create(&self, path: &Path) -> Result<(Found, Box<dyn TargetFile>)> {
        let (found, file) = self.files.create(&self.reach(path)?.path())?;
        Ok((Found { path: path.to_owned(), ..found }, file))
    }

    fn make(&self, path: &Path, new: New<'_>) -> Result<Found> {
        let made = self.files.make(&self.reach(path)?.path(), new)?;
        Ok(Found { path: path.to_owned(), ..made })
    }

    fn link(&self, existing: &Found, path: &Path) -> Result<()> {
        let place = self.reach(path)?;
        self.with(existing, |existing| self.files.link(existing, &place.path()))
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        let before = look(&self.root, from)?;
        (self.note)(to, Placed::before(&before));
        self.give_name(from, to)?;
        // Somebody may have put another there since: then the first note stands, which that one does not match.
        let is_it = |seen: &Seen| Placed::before(seen) == Placed::before(&before);
        if let Some(there) = look(&self.root, to).ok().filter(is_it) {
            (self.note)(to, Placed::now(&there));
        }
        Ok(())
    }

    fn remove(&self, path: &Path) -> Result<()> {
        self.files.remove(&self.reach(path)?.path())
    }

    fn remove_folder(&self, path: &Path) -> Result<()> {
        self.files.remove_folder(&self.reach(path)?.path())
    }

    fn sync_folder(&self, path: &Path) -> Result<()> {
        self.files.sync_folder(&below::inside(&self.root, path)?.path())
    }

    fn set(&self, entry: &Found, change: &SetAttr) -> Result<()> {
        self.with(entry, |entry| self.files.set(entry, change))
    }

    fn set_xattr(&self, entry: &Found, xattr: &Xattr) -> Result<()> {
        self.with(entry, |entry| self.files.set_xattr(entry, xattr))
    }
}

fn rename(from: &Place, to: &Place) -> Result<()> {
    rustix::fs::renameat(&from.folder, &from.name, &to.folder, &to.name)
}

/// Renames unless there is something at `to`. NFS and some parallel file systems cannot do that in one; a link does.
fn rename_to_new(from: &Place, to: &Place) -> Result<()> {
    let flags = RenameFlags::NOREPLACE;
    match rustix::fs::renameat_with(&from.folder, &from.name, &to.folder, &to.name, flags) {
        Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => {
            rustix::fs::linkat(&from.folder, &from.name, &to.folder, &to.name, AtFlags::empty())?;
            rustix::fs::unlinkat(&from.folder, &from.name, AtFlags::empty())
        }
        outcome => outcome,
    }
}
