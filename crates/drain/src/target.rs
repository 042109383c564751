//! The PFS side: a name that another node of the job has taken is not taken from it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{CWD, RenameFlags};
use rustix::io::Errno;
use stage::pfs::Pfs;
use stage::tree::{Found, Listing, New, OpenFile, Placement, Result, Tree, Usage, Xattr};
use wire::control::Side;
use wire::data::SetAttr;

use crate::claims::Claims;

/// Files on the PFS.
pub struct Target {
    files: Pfs,
    /// Who has which name; `None` where the names cannot meet.
    claims: Option<Arc<Claims>>,
}

impl Target {
    /// Asks `claims` before a name is used for the first time.
    pub fn new(claims: Option<Arc<Claims>>) -> Target {
        Target { files: Pfs, claims }
    }
}

impl Tree for Target {
    fn side(&self) -> Side {
        Side::Pfs
    }

    fn show(&self, path: &Path) -> String {
        self.files.show(path)
    }

    fn placement(&self) -> Placement {
        self.files.placement()
    }

    fn find(&self, path: &Path) -> Result<Found> {
        self.files.find(path)
    }

    fn locate(&self, path: &Path) -> Result<Found> {
        self.files.locate(path)
    }

    fn list<'a>(&'a self, folder: &Found) -> Result<Listing<'a>> {
        self.files.list(folder)
    }

    fn open(&self, file: &Found) -> Result<Box<dyn OpenFile>> {
        self.files.open(file)
    }

    fn reopen(&self, file: &Found) -> Result<Box<dyn OpenFile>> {
        self.files.reopen(file)
    }

    fn create(&self, path: &Path) -> Result<(Found, Box<dyn OpenFile>)> {
        self.files.create(path)
    }

    fn read_link(&self, link: &Found) -> Result<PathBuf> {
        self.files.read_link(link)
    }

    fn make(&self, path: &Path, new: New<'_>) -> Result<Found> {
        self.files.make(path, new)
    }

    fn link(&self, existing: &Found, path: &Path) -> Result<()> {
        self.files.link(existing, path)
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        let Some(claims) = self.claims.as_ref().filter(|claims| !claims.has(to)) else {
            return self.files.rename(from, to);
        };
        // Said before it is done: of two nodes, the second at least sees the first.
        claims.claim(to)?;
        match rename_to_new(from, to) {
            Err(Errno::EXIST) if claims.is_elsewhere(to)? => {
                claims.give_up(to)?;
                return Err(Errno::EXIST);
            }
            // Of an earlier job: this one replaces it, as a program on the PFS would.
            Err(Errno::EXIST) => self.files.rename(from, to)?,
            outcome => outcome?,
        }
        claims.keep(to);
        Ok(())
    }

    fn remove(&self, path: &Path) -> Result<()> {
        self.files.remove(path)
    }

    fn sync_folder(&self, path: &Path) -> Result<()> {
        self.files.sync_folder(path)
    }

    fn set(&self, entry: &Found, change: &SetAttr) -> Result<()> {
        self.files.set(entry, change)
    }

    fn xattrs(&self, entry: &Found) -> Result<Vec<Xattr>> {
        self.files.xattrs(entry)
    }

    fn set_xattr(&self, entry: &Found, xattr: &Xattr) -> Result<()> {
        self.files.set_xattr(entry, xattr)
    }

    fn usage(&self) -> Option<Usage> {
        None
    }
}

/// Renames unless there is something at `to`. NFS and some parallel file systems cannot do that in one; a link does.
fn rename_to_new(from: &Path, to: &Path) -> Result<()> {
    match rustix::fs::renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => {
            rustix::fs::link(from, to)?;
            rustix::fs::unlink(from)
        }
        outcome => outcome,
    }
}
