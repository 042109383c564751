//! Objects as who sums them sees them: which there are, who has them open, and which should be there.

use std::fs::DirEntry;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use model::Ino;

use super::{Object, Objects, POISON};
use crate::integrity::closed::is_closed;
use crate::integrity::guard::Guard;
use crate::integrity::keeper::Keeper;
use crate::integrity::report::Fault;

/// Objects in one answer that lists them.
pub(super) const PAGE_OBJECTS_MAX: usize = 32_768;

/// What is left of a list that is told page by page: the folders are not searched again for each.
#[derive(Debug)]
pub(super) struct Listing {
    /// The last object that was told.
    after: Ino,
    /// Those that follow, the next last.
    rest: Vec<Ino>,
}

impl Objects {
    /// Their checksums.
    pub fn keeper(&self) -> &Keeper {
        &self.keeper
    }

    /// The guard of an object that was not changed since it was opened, and perhaps never: `None` where there is no
    /// object.
    pub fn guard(&self, ino: Ino) -> io::Result<Option<Arc<Guard>>> {
        Ok(self.existing(ino)?.map(|object| object.guard.clone()))
    }

    /// Runs `act` while nobody opens an object, with the guard of this one if it is open.
    pub fn while_none_opens<R>(&self, ino: Ino, act: impl FnOnce(Option<&Arc<Guard>>) -> R) -> R {
        let open = self.opened();
        act(open.get(ino).map(|object| &object.guard))
    }

    /// Whether nobody else can write to an object: whoever was given it has closed it.
    pub fn is_closed(&self, ino: Ino) -> io::Result<bool> {
        if self.space.counts() {
            return Ok(true);
        }
        if self.is_unsynced(ino) {
            // Else nobody would be told of an error of writing back.
            self.sync_object(ino)?;
        }
        let mut open = self.opened();
        match open.get(ino) {
            Some(object) if Arc::strong_count(object) > 1 || object.pending.is_unsynced() => {
                return Ok(false);
            }
            // Ours would be seen, too.
            _ => open.remove(ino),
        }
        is_closed(&self.path(ino))
    }

    /// Before these are looked at by [`Objects::is_closed`]: syncs those at once that nobody changed for `idle`, if
    /// that is to be.
    pub fn sync_before_closing(&self, inos: impl Iterator<Item = Ino>, idle: Duration) {
        if self.space.counts() {
            return;
        }
        let mut open: Vec<Arc<Object>> = inos.filter_map(|ino| self.opened().get(ino).cloned()).collect();
        // While its guard is held nobody begins to write to it: what is written after that is noted anew.
        open.retain(|object| object.guard.at_rest(idle).is_some_and(|_held| object.pending.take_unsynced()));
        // We have them open, so they stay so until it is known how that ended.
        if !open.is_empty() && !self.sync_whole() {
            open.iter().for_each(|object| object.pending.note_unsynced());
        }
    }

    /// Whether an object that was not there is rightly so.
    pub(super) fn absent(&self, ino: Ino) -> io::Result<()> {
        let look = |_: Option<&Arc<Guard>>| match std::fs::metadata(self.path(ino)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => self.keeper.check_absent(ino),
            // It was made meanwhile.
            found => found.map(drop),
        };
        self.keeper.check_absent(ino).or_else(|_| self.while_none_opens(ino, look))
    }

    /// Whether it was lost with the fragment whose place this one took, and was not written anew.
    ///
    /// # Errors
    /// It cannot be told.
    pub fn is_lost(&self, ino: Ino) -> io::Result<bool> {
        Ok(self.keeper.lost.length(ino).is_some() && self.existing(ino)?.is_none())
    }

    /// At most `count` of those. Of one that is there again nothing is lost any more.
    pub fn lost(&self, count: usize) -> Vec<Ino> {
        let mut lost = Vec::new();
        for (ino, _) in self.keeper.lost.all() {
            if lost.len() >= count {
                break;
            }
            match self.is_lost(ino) {
                Ok(false) => self.keeper.lost.forget(ino),
                _ => lost.push(ino),
            }
        }
        lost
    }

    /// How many are noted as lost: perhaps some of those that were written anew since are among them.
    pub fn noted_lost(&self) -> usize {
        self.keeper.lost.all().len()
    }

    /// The number of every object.
    pub fn list(&self) -> io::Result<Vec<Ino>> {
        list(&self.root)
    }

    /// What is in the folders of objects and is none, or is in the wrong one: nothing else looks at it.
    pub fn strays(&self) -> io::Result<Vec<PathBuf>> {
        let mut found = Vec::new();
        walk(&self.root, |ino, entry| found.extend(ino.is_none().then(|| entry.path())))?;
        Ok(found)
    }

    /// Objects with numbers above `after`, in order, with their lengths: so many that they fit a message. Also those
    /// that had a seal and are gone, or are lost: nobody may take them for objects that never were. Whoever asks for
    /// one page after the other may not be told of objects that are made meanwhile.
    pub fn page(&self, after: Ino) -> io::Result<Vec<(Ino, u64)>> {
        self.page_of(PAGE_OBJECTS_MAX, after)
    }

    /// The same, of at most so many.
    pub(super) fn page_of(&self, count: usize, after: Ino) -> io::Result<Vec<(Ino, u64)>> {
        let began_here = |listing: &mut Listing| listing.after == after;
        let kept = self.listing.lock().expect(POISON).take_if(began_here);
        let mut rest = kept.map_or_else(|| self.all_after(after), |listing| Ok(listing.rest))?;
        let mut page = Vec::new();
        // Those of a whole page may be gone since they were listed.
        while page.is_empty() && !rest.is_empty() {
            let inos = rest.split_off(rest.len().saturating_sub(count)).into_iter().rev();
            page = inos.filter_map(|ino| self.listed(ino).transpose()).collect::<io::Result<_>>()?;
        }
        if let (Some((last, _)), false) = (page.last(), rest.is_empty()) {
            *self.listing.lock().expect(POISON) = Some(Listing { after: *last, rest });
        }
        Ok(page)
    }

    /// The numbers of all that may be listed above `after`, the highest first.
    fn all_after(&self, after: Ino) -> io::Result<Vec<Ino>> {
        let mut inos = self.list()?;
        inos.extend(self.keeper.log.must_be_there());
        inos.extend(self.keeper.lost.all().into_iter().map(|(ino, _)| ino));
        inos.extend(self.keeper.unverified.all());
        inos.retain(|ino| *ino > after);
        inos.sort_unstable_by(|one, other| other.cmp(one));
        inos.dedup();
        Ok(inos)
    }

    /// An object that was listed, with its length; `None` where it was removed since.
    fn listed(&self, ino: Ino) -> io::Result<Option<(Ino, u64)>> {
        match std::fs::metadata(self.path(ino)) {
            Ok(found) => Ok(Some((ino, found.len()))),
            // It was just removed, or is lost.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let was = self.keeper.shown_absent(ino);
                Ok((was > 0).then_some((ino, was)))
            }
            Err(error) => {
                let error = self.unopened(ino, error);
                Fault::of(&error).map(|fault| Some((ino, fault.bytes().end))).ok_or(error)
            }
        }
    }
}

/// The number of every object below `root`.
pub(super) fn list(root: &Path) -> io::Result<Vec<Ino>> {
    let mut found = Vec::new();
    walk(root, |ino, _| found.extend(ino))?;
    Ok(found)
}

/// Shows every entry to `look`, with its number where it is an object.
fn walk(root: &Path, mut look: impl FnMut(Option<Ino>, &DirEntry)) -> io::Result<()> {
    for folder in std::fs::read_dir(root)? {
        let folder = folder?;
        if !folder.file_type()?.is_dir() {
            look(None, &folder);
            continue;
        }
        let low = folder.file_name();
        for entry in std::fs::read_dir(folder.path())? {
            let entry = entry?;
            let name = entry.file_name();
            let ino = name.to_str().and_then(|name| u64::from_str_radix(name, 16).ok()).map(Ino::from);
            let is_object =
                |ino: &Ino| low == *format!("{:02x}", ino.to_le_bytes()[0]) && name == *format!("{ino:016x}");
            look(ino.filter(is_object), &entry);
        }
    }
    Ok(())
}
