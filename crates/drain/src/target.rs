//! The PFS side: a name that another node of the job has taken is not taken from it, and no name is reached through a
//! symbolic link.
//!
//! **Invariant:** which inode gets a name, and in place of what, is noted before it has it, in the ledger and on the
//! PFS: only that one is ever removed again, and what came to the name since is never replaced.

use std::ffi::OsStr;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use disk::below::{Place, Root};
use model::Ino;
use rustix::io::Errno;
use stage::outside::Outside;
use stage::pfs::Pfs;
use stage::tree::{
    self, Found, Held, Listing, New, OpenFile, Placement, Result, TargetFile, Tree, Xattr, split,
};
use wire::control::Side;
use wire::data::SetAttr;

use crate::claims::Claims;
use crate::generation::{Kind, Seen, if_there, look_in};
use crate::intents::Intent;
use crate::placed::{Names, Over, Placed};
use crate::taken::{Taken, aside};

/// What has the name that a copy is to get is not what this drainer has put there.
pub(crate) const REPLACED: Errno = Errno::STALE;

/// Files on the PFS.
pub(crate) struct Target {
    files: Pfs,
    /// The folder that is drained to.
    root: Root,
    names: Arc<dyn Names>,
    /// Who has which name, and what is about to get it.
    claims: Option<Arc<Claims>>,
    taken: Arc<Taken>,
}

impl Target {
    /// Names below `root`. Asks `claims` before one is used for the first time, and tells `names` which inode gets it.
    pub(crate) fn new(root: &Path, claims: Option<Arc<Claims>>, names: Arc<dyn Names>) -> Target {
        let taken = Arc::new(Taken::of(root, Arc::clone(&names)));
        Target { files: Pfs::below(Root::at(root)), root: Root::at(root), names, claims, taken }
    }

    /// What was taken from names, and nobody has decided about.
    pub(crate) fn taken(&self) -> Arc<Taken> {
        Arc::clone(&self.taken)
    }

    /// What has the name now.
    ///
    /// # Errors
    /// [`REPLACED`] where somebody has put another in the place of what this drainer had put there, or changed it.
    fn there(&self, place: &Place, to: &Path) -> Result<Option<There>> {
        let Some(seen) = if_there(look_in(place.folder.as_fd(), &place.name))? else { return Ok(None) };
        let Some(under) = self.names.under(to) else { return Ok(Some(There { seen, is_own: false })) };
        let differs = under.differs(&seen).is_some();
        let is_elsewhere = || self.claims.as_ref().map_or(Ok(false), |claims| claims.is_elsewhere(to));
        match differs && (under.had_name() || under.is_succeeded(&seen) && !is_elsewhere()?) {
            true => Err(REPLACED),
            false => Ok(Some(There { seen, is_own: !differs })),
        }
    }

    /// Whether what is `there` came since the first copy for the name was begun, or was changed. Where that was not
    /// noted, while `part` was made: by one clock, as both are on one file system.
    fn came_meanwhile(&self, part: &Seen, there: Option<&There>, to: &Path) -> bool {
        let Some(There { seen, is_own: false }) = there else { return false };
        match self.names.first(to) {
            Some(Over::It(first)) => first.differs(seen).is_some(),
            Some(Over::Nothing) => true,
            None => part.generation.is_told() && seen.generation.ctime > part.generation.born,
        }
    }

    /// Where `to` is now, if its folder still is this one: the names in it are made there, whoever renames what.
    fn place(&self, folder: &Found, to: &Path) -> Result<Place> {
        let place = self.root.reach(to)?;
        match folder.is(&rustix::fs::fstat(&place.folder)?) {
            true => Ok(place),
            false => Err(Errno::NOENT),
        }
    }

    /// Gives `part` the name `to`. Of what has that, only what was seen there goes: `over`.
    ///
    /// # Errors
    /// EXIST where another node of the session has the name; [`REPLACED`] where somebody else has come to it.
    fn give_name(
        &self,
        part: (&OsStr, &Seen),
        place: &Place,
        to: &Path,
        (there, over): (Option<&There>, Over),
    ) -> Result<()> {
        // A name that had become free may be another node's by now, also where this one had it before.
        let is_own = there.is_some_and(|there| there.is_own);
        let new = self.claims.as_ref().filter(|claims| claims.meet() && !(is_own && claims.has(to)));
        if let Some(claims) = &self.claims {
            // Said before it is done: of two nodes, the second at least sees the first.
            let intent = Intent { name: to.to_owned(), inode: Placed::before(part.1), over };
            claims.claim(&intent, new.is_some())?;
        }
        let put = if there.is_none() { place.fill_with(part.0) } else { Err(Errno::EXIST) };
        if let (Err(Errno::EXIST), Some(claims)) = (put, new)
            && claims.is_elsewhere(to)?
        {
            claims.forget(to)?;
            return Err(Errno::EXIST);
        }
        let may_go = there.filter(|_| over != Over::Nothing);
        match put.or_else(|errno| match errno {
            Errno::EXIST => self.displace(part, place, (may_go, to)),
            errno => Err(errno),
        }) {
            Err(Errno::EXIST) => {
                // It stays, also when this is tried again, and by whatever process.
                self.names.note(to, Placed::now(part.1), None);
                return Err(REPLACED);
            }
            outcome => outcome?,
        }
        new.into_iter().for_each(|claims| claims.keep(to));
        Ok(())
    }

    /// Puts `part` in the place of what was seen `there`: this drainer's older version, or a file of an earlier job.
    ///
    /// # Errors
    /// EXIST where something else is there by now.
    fn displace(
        &self,
        (part, ours): (&OsStr, &Seen),
        place: &Place,
        (there, to): (Option<&There>, &Path),
    ) -> Result<()> {
        let Some(There { seen, .. }) = there else { return Err(Errno::EXIST) };
        let aside = aside(part, ours, seen, &place.name);
        let put = place.displace_with(part, &aside, |folder, name| Ok(look_in(folder, name)?.is_still(seen)));
        put.inspect_err(|_| self.taken.note(place, &aside, to))
    }
}

/// What has a name that is to be another's.
struct There {
    seen: Seen,
    /// This drainer has put it there.
    is_own: bool,
}

impl Tree for Target {
    fn side(&self) -> Side {
        Side::Pfs
    }

    fn show(&self, path: &Path) -> String {
        self.files.show(path)
    }

    // Once at the start.
    fn enter(&self, _folder: &Path) -> std::result::Result<(), Outside> {
        Ok(())
    }

    fn find(&self, path: &Path) -> Result<Found> {
        self.files.find(path)
    }

    // A link is found as a link: nothing is looked for behind it.
    fn locate(&self, path: &Path) -> Result<Found> {
        // A folder is looked for where it is now, before anything is made in it.
        self.files.let_go();
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

    fn make(&self, path: &Path, new: New<'_>) -> Result<(Found, Held)> {
        self.files.make(path, new)
    }

    fn link(&self, existing: &Found, path: &Path) -> Result<Held> {
        self.files.link(existing, path)
    }

    fn rename(&self, folder: &Found, entry: &Found, to: &Path) -> Result<()> {
        self.taken.settle_of(to)?;
        // A part is made beside its name.
        let part = split(&entry.path)?.1;
        let place = self.place(folder, to).inspect_err(|_| self.files.let_go())?;
        // Its number tells it: who made it holds it open.
        let before = look_in(place.folder.as_fd(), part)?;
        if before.generation.ino != u64::from(entry.attr.ino) {
            return Err(Errno::STALE);
        }
        // It was looked for before the copy was made, which takes its time.
        let there = self.there(&place, to)?;
        if there.as_ref().is_some_and(|there| there.seen.kind == Kind::Folder) {
            return Err(Errno::ISDIR);
        }
        let over = match &there {
            Some(it) if !self.came_meanwhile(&before, there.as_ref(), to) => Over::It(Placed::now(&it.seen)),
            _ => Over::Nothing,
        };
        self.names.note(to, Placed::before(&before), Some(over));
        self.give_name((part, &before), &place, to, (there.as_ref(), over))?;
        // Somebody may have put another there since, or changed it: then the first note stands, which that one does not
        // match.
        let is_it = |seen: &Seen| Placed::before(seen) == Placed::before(&before);
        if let Some(there) = look_in(place.folder.as_fd(), &place.name).ok().filter(is_it) {
            let now = Placed::now(&there);
            self.names.note(to, now, None);
            self.claims
                .iter()
                .for_each(|claims| claims.say(&Intent { name: to.to_owned(), inode: now, over }));
        }
        Ok(())
    }

    fn settle_taken(&self, path: &Path) -> Result<()> {
        self.taken.settle(path)
    }

    fn miss_taken(&self, path: &Path, ino: Ino, is_sure: bool) {
        // It is said at the next wait.
        let _ = self.taken.miss(path, ino, is_sure);
    }

    fn undecided(&self) -> Vec<(PathBuf, Ino)> {
        self.taken.folders()
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

    fn disinherit(&self, entry: &Found, kept: &[Xattr]) -> Result<()> {
        self.files.disinherit(entry, kept)
    }
}

#[cfg(test)]
mod tests;
