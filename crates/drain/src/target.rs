//! The PFS side: a name that another node of the job has taken is not taken from it, and no name is reached through a
//! symbolic link.
//!
//! **Invariant:** which inode gets a name is noted before it has it, so that only that one is ever removed again.

use std::path::Path;
use std::sync::Arc;

use disk::below::{Place, Root};
use rustix::fs::{AtFlags, RenameFlags};
use rustix::io::Errno;
use stage::pfs::Pfs;
use stage::tree::{self, Found, Listing, New, OpenFile, Placement, Result, TargetFile, Tree, Xattr};
use wire::control::Side;
use wire::data::SetAttr;

use crate::claims::Claims;
use crate::generation::{Seen, look};
use crate::placed::Placed;

/// Notes which inode is put under a name.
type Note = Box<dyn Fn(&Path, Placed) + Send + Sync>;

/// Files on the PFS.
pub(crate) struct Target {
    files: Pfs,
    /// The folder that is drained to.
    root: Root,
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
        Target { files: Pfs::at(root), root: Root::at(root), note: Box::new(note), claims }
    }

    fn give_name(&self, folder: &Found, from: &Path, to: &Path) -> Result<()> {
        let Some(claims) = self.claims.as_ref().filter(|claims| !claims.has(to)) else {
            return tree::Target::rename(&self.files, folder, from, to);
        };
        let (part, name) = (self.root.reach(from)?, self.root.reach(to)?);
        // Said before it is done: of two nodes, the second at least sees the first.
        claims.claim(to)?;
        match rename_to_new(&part, &name) {
            Err(Errno::EXIST) if claims.is_elsewhere(to)? => {
                claims.give_up(to)?;
                return Err(Errno::EXIST);
            }
            // Of an earlier job: this one replaces it, as a program on the PFS would.
            Err(Errno::EXIST) => tree::Target::rename(&self.files, folder, from, to)?,
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
        self.files.find(path)
    }

    // A link is found as a link: nothing is looked for behind it.
    fn locate(&self, path: &Path) -> Result<Found> {
        self.find(path)
    }

    fn list<'a>(&'a self, folder: &Found) -> Result<Listing<'a>> {
        self.files.list(folder)
    }

    fn open(&self, file: &Found) -> Result<Box<dyn OpenFile>> {
        self.files.open(file)
    }
}

impl tree::Target for Target {
    fn placement(&self) -> Placement {
        self.files.placement()
    }

    fn reopen(&self, file: &Found) -> Result<Box<dyn TargetFile>> {
        self.files.reopen(file)
    }

    fn create(&self, path: &Path) -> Result<(Found, Box<dyn TargetFile>)> {
        self.files.create(path)
    }

    fn make(&self, path: &Path, new: New<'_>) -> Result<Found> {
        self.files.make(path, new)
    }

    fn link(&self, existing: &Found, path: &Path) -> Result<()> {
        self.files.link(existing, path)
    }

    fn rename(&self, folder: &Found, from: &Path, to: &Path) -> Result<()> {
        let before = look(&self.root, from)?;
        (self.note)(to, Placed::before(&before));
        self.give_name(folder, from, to)?;
        // Somebody may have put another there since: then the first note stands, which that one does not match.
        let is_it = |seen: &Seen| Placed::before(seen) == Placed::before(&before);
        if let Some(there) = look(&self.root, to).ok().filter(is_it) {
            (self.note)(to, Placed::now(&there));
        }
        Ok(())
    }

    fn remove(&self, path: &Path) -> Result<()> {
        self.files.remove(path)
    }

    fn remove_folder(&self, path: &Path) -> Result<()> {
        self.files.remove_folder(path)
    }

    fn sync_folder(&self, path: &Path) -> Result<()> {
        self.files.sync_folder(path)
    }

    fn set(&self, entry: &Found, change: &SetAttr) -> Result<()> {
        self.files.set(entry, change)
    }

    fn set_xattr(&self, entry: &Found, xattr: &Xattr) -> Result<()> {
        self.files.set_xattr(entry, xattr)
    }
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
