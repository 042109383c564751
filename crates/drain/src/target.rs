//! The PFS side: a name that another node of the job has taken is not taken from it, and no name is reached through a
//! symbolic link.
//!
//! **Invariant:** which inode gets a name is noted before it has it, so that only that one is ever removed again.

use std::ffi::OsStr;
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::Arc;

use disk::below::{Place, Root};
use rustix::io::Errno;
use stage::outside::Outside;
use stage::pfs::Pfs;
use stage::tree::{
    self, Found, Held, Listing, New, OpenFile, Placement, Result, TargetFile, Tree, Xattr, split,
};
use wire::control::Side;
use wire::data::SetAttr;

use crate::claims::Claims;
use crate::generation::{Seen, if_there, look_in};
use crate::placed::{Placed, Under};

/// What was put under the names on the PFS.
pub(crate) trait Names: Send + Sync {
    /// What may have the name, if anything was put there.
    fn under(&self, name: &Path) -> Option<Under>;

    /// Notes which inode is put there.
    fn note(&self, name: &Path, inode: Placed);
}

/// What has the name that a copy is to get is not what this drainer has put there.
pub(crate) const REPLACED: Errno = Errno::STALE;

/// Files on the PFS.
pub(crate) struct Target {
    files: Pfs,
    /// The folder that is drained to.
    root: Root,
    names: Arc<dyn Names>,
    /// Who has which name; `None` where the names cannot meet.
    claims: Option<Arc<Claims>>,
}

impl Target {
    /// Names below `root`. Asks `claims` before one is used for the first time, and tells `names` which inode gets it.
    pub(crate) fn new(root: &Path, claims: Option<Arc<Claims>>, names: Arc<dyn Names>) -> Target {
        Target { files: Pfs::below(Root::at(root)), root: Root::at(root), names, claims }
    }

    /// Whether what has the name is known as what this drainer has put there.
    ///
    /// # Errors
    /// [`REPLACED`] where somebody has put another in the place of that, or changed it.
    fn is_own(&self, place: &Place, to: &Path) -> Result<bool> {
        let Some(under) = self.names.under(to) else { return Ok(false) };
        let Some(there) = if_there(look_in(place.folder.as_fd(), &place.name))? else { return Ok(false) };
        let differs = under.holds_another(&there).is_some();
        if differs && under.had_name() { Err(REPLACED) } else { Ok(!differs) }
    }

    /// Where `to` is now, if its folder still is this one: the names in it are made there, whoever renames what.
    fn place(&self, folder: &Found, to: &Path) -> Result<Place> {
        let place = self.root.reach(to)?;
        match folder.is(&rustix::fs::fstat(&place.folder)?) {
            true => Ok(place),
            false => Err(Errno::NOENT),
        }
    }

    fn give_name(&self, part: &OsStr, place: &Place, to: &Path, is_own: bool) -> Result<()> {
        // A name that had become free may be another node's by now, also where this one had it before.
        let Some(claims) = self.claims.as_ref().filter(|claims| !(is_own && claims.has(to))) else {
            return place.replace_with(part);
        };
        // Said before it is done: of two nodes, the second at least sees the first.
        claims.claim(to)?;
        match place.fill_with(part) {
            Err(Errno::EXIST) if claims.is_elsewhere(to)? => {
                claims.forget(to)?;
                return Err(Errno::EXIST);
            }
            // Of an earlier job: this one replaces it, as a program on the PFS would.
            Err(Errno::EXIST) => place.replace_with(part)?,
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
        // A part is made beside its name.
        let part = split(&entry.path)?.1;
        let place = self.place(folder, to).inspect_err(|_| self.files.let_go())?;
        // Its number tells it: who made it holds it open.
        let before = look_in(place.folder.as_fd(), part)?;
        if before.generation.ino != u64::from(entry.attr.ino) {
            return Err(Errno::STALE);
        }
        // It was looked for before the copy was made, which takes its time.
        let is_own = self.is_own(&place, to)?;
        self.names.note(to, Placed::before(&before));
        self.give_name(part, &place, to, is_own)?;
        // Somebody may have put another there since, or changed it: then the first note stands, which that one does not
        // match.
        let is_it = |seen: &Seen| Placed::before(seen) == Placed::before(&before);
        if let Some(there) = look_in(place.folder.as_fd(), &place.name).ok().filter(is_it) {
            self.names.note(to, Placed::now(&there));
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

    fn disinherit(&self, entry: &Found, kept: &[Xattr]) -> Result<()> {
        self.files.disinherit(entry, kept)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::sync::Mutex;

    use stage::tree::Target as _;

    use super::*;

    type Act = Box<dyn Fn() + Send + Sync>;

    /// What is noted; at the first note something happens.
    #[derive(Clone, Default)]
    struct Noted {
        under: Arc<Mutex<Option<Under>>>,
        notes: Arc<Mutex<Vec<Placed>>>,
        first: Arc<Mutex<Option<Act>>>,
    }

    impl Names for Noted {
        fn under(&self, _: &Path) -> Option<Under> {
            self.under.lock().unwrap().clone()
        }

        fn note(&self, _: &Path, inode: Placed) {
            if let Some(act) = self.first.lock().unwrap().take() {
                act();
            }
            self.notes.lock().unwrap().push(inode);
        }
    }

    /// Gives a copy its name while somebody puts another in its place, before the first look at it or after.
    fn renamed_with(swap_at_once: bool) -> (Result<()>, Vec<Placed>, u64) {
        let folder = tempfile::tempdir().unwrap();
        let to = folder.path().canonicalize().unwrap();
        let (part, noted) = (to.join("part"), Noted::default());
        let swap = {
            let part = part.clone();
            move || {
                fs::write(part.with_file_name("other"), "another").unwrap();
                fs::rename(part.with_file_name("other"), &part).unwrap();
            }
        };
        let target = Target::new(&to, None, Arc::new(noted.clone()));
        let (made, file) = target.create(&part).unwrap();
        if swap_at_once {
            swap();
        } else {
            *noted.first.lock().unwrap() = Some(Box::new(swap));
        }
        let renamed = target.rename(&target.find(&to).unwrap(), &made, &to.join("f"));
        drop(file);
        let notes = std::mem::take(&mut *noted.notes.lock().unwrap());
        (renamed, notes, made.attr.ino.into())
    }

    #[test]
    fn what_somebody_puts_in_the_place_of_a_copy_while_the_next_is_made_stays() {
        let folder = tempfile::tempdir().unwrap();
        let to = folder.path().canonicalize().unwrap();
        let noted = Noted::default();
        let target = Target::new(&to, None, Arc::new(noted.clone()));
        let copy = |part: &str| {
            let (made, _file) = target.create(&to.join(part)).unwrap();
            target.rename(&target.find(&to).unwrap(), &made, &to.join("f"))
        };
        copy("first").unwrap();
        let mut notes = std::mem::take(&mut *noted.notes.lock().unwrap()).into_iter();
        let mut under = Under::new(notes.next().unwrap());
        notes.for_each(|placed| under.note(placed));
        *noted.under.lock().unwrap() = Some(under);
        fs::write(to.join("f"), "somebody's").unwrap();
        assert_eq!(copy("second"), Err(REPLACED));
        assert_eq!(fs::read_to_string(to.join("f")).unwrap(), "somebody's");
        // It is moved away: what is owed gets its name.
        fs::rename(to.join("f"), to.join("mine")).unwrap();
        fs::remove_file(to.join("second")).unwrap();
        copy("second").unwrap();
    }

    #[test]
    fn what_is_put_in_the_place_of_a_copy_is_never_noted_as_the_drainers() {
        let (renamed, notes, _) = renamed_with(true);
        assert_eq!((renamed, notes.len()), (Err(Errno::STALE), 0));
        // That is seen by who looks at the name.
        let (renamed, notes, ours) = renamed_with(false);
        assert_eq!((renamed, notes.len()), (Ok(()), 1));
        assert!(format!("{notes:?}").contains(&format!("ino: {ours},")), "{notes:?}");
    }
}
