//! Objects whose seals were lost with their log: nobody can tell whether their bytes are what was written.
//!
//! ```text
//! FRAGMENT/sums/unverified-0      those of namespace 0: crc32c:u32le postcard((why, [inode], {inode: bool}))
//! ```
//!
//! They are read, and sealed anew so that what happens to them from now on is seen. Not so those that are being taken
//! from their mirror, the last of the three: they may be so in part, and are used by nobody. False are those that no
//! mirror has any more as they were. A note from before there were any lacks these.
//!
//! **Invariant:** an object is among them until it is written anew as a whole, removed, or taken as it is by somebody
//! who says so; also after a restart. None is called noted before the note is durable.

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};

use model::Ino;

use super::note::{self, Note};

/// Those of one namespace.
#[derive(Debug)]
pub struct Unverified {
    path: PathBuf,
    doubt: Note<Option<Doubt>>,
}

#[derive(Clone, Debug, Default)]
struct Doubt {
    why: String,
    objects: BTreeSet<Ino>,
    /// Those of which nothing is left, and that are noted still.
    gone: BTreeSet<Ino>,
    /// Those of all of them that are being taken from their mirror, and whether that has them still.
    taken: BTreeMap<Ino, bool>,
}

impl Unverified {
    /// Those that are noted beside the log of seals at `seals`. Where the note is damaged, `all` there are.
    ///
    /// # Errors
    /// It cannot be read, or written.
    pub fn open(seals: &Path, all: impl FnOnce() -> io::Result<Vec<Ino>>) -> io::Result<Unverified> {
        let name = seals.file_stem().unwrap_or_default().to_string_lossy();
        let path = seals.with_file_name(format!("unverified-{name}"));
        let found = disk::read(&path)?;
        let doubt = found.as_deref().and_then(parse);
        let is_damaged = found.is_some() && doubt.is_none();
        let unverified = Unverified { path, doubt: Note::of(doubt) };
        if is_damaged {
            unverified.begin(format!("{} is damaged", unverified.path.display()), all()?)?;
        }
        Ok(unverified)
    }

    /// Nobody can tell of these objects any more: noted durably.
    ///
    /// # Errors
    /// The file system's.
    pub fn begin(&self, why: String, objects: Vec<Ino>) -> io::Result<()> {
        let begin = |doubt: &mut Option<Doubt>| {
            let doubt = doubt.get_or_insert_default();
            doubt.objects.extend(&objects);
            doubt.why.clone_from(&why);
            true
        };
        // Also where there are none: what was lost is told until somebody accepts that.
        self.doubt.change(begin, |doubt| doubt.as_ref().map_or(Ok(()), |doubt| save(&self.path, doubt)))
    }

    /// This one is going to be taken from its mirror: noted durably.
    ///
    /// # Errors
    /// The file system's: nothing of it may be changed then.
    pub fn begin_taken(&self, ino: Ino, why: &str) -> io::Result<()> {
        self.change(|doubt| {
            if doubt.as_ref().is_some_and(|known| known.is_taken(ino)) {
                return false;
            }
            let first = || Doubt { why: why.to_owned(), ..Doubt::default() };
            let doubt = doubt.get_or_insert_with(first);
            doubt.gone.remove(&ino);
            doubt.objects.insert(ino);
            doubt.taken.insert(ino, true);
            true
        })
    }

    /// Whether it is being taken: it may be what it was in part.
    pub fn is_taken(&self, ino: Ino) -> bool {
        self.doubt.known().as_ref().is_some_and(|doubt| doubt.is_taken(ino))
    }

    /// Whether its mirror has it still as it was when that was begun.
    pub fn is_in_mirror(&self, ino: Ino) -> bool {
        self.doubt.known().as_ref().is_some_and(|doubt| doubt.taken.get(&ino) == Some(&true))
    }

    /// It is not being taken any more: noted durably. It is known from now on, or in doubt still.
    ///
    /// # Errors
    /// The file system's: it is being taken still.
    pub fn end_taken(&self, ino: Ino, is_known: bool) -> io::Result<()> {
        self.change(|doubt| {
            let Some(doubt) = doubt else { return false };
            let was_taken = doubt.taken.remove(&ino).is_some();
            let was_in_doubt = is_known && (doubt.objects.remove(&ino) | doubt.gone.remove(&ino));
            was_taken || was_in_doubt
        })
    }

    /// The mirror is another, or was replaced by an older copy: noted durably.
    ///
    /// # Errors
    /// The file system's.
    pub fn lose_mirror(&self) -> io::Result<()> {
        self.change(|doubt| {
            let Some(doubt) = doubt else { return false };
            let had_any = doubt.taken.values().any(|has| *has);
            doubt.taken.values_mut().for_each(|has| *has = false);
            had_any
        })
    }

    /// Why there are any; `None`: there are none.
    pub fn why(&self) -> Option<String> {
        self.doubt.known().as_ref().map(|doubt| doubt.why.clone())
    }

    /// Which.
    pub fn all(&self) -> Vec<Ino> {
        self.doubt.known().iter().flat_map(|doubt| &doubt.objects).copied().collect()
    }

    /// How many.
    pub fn count(&self) -> usize {
        self.doubt.known().as_ref().map_or(0, |doubt| doubt.objects.len())
    }

    /// Whether this is one.
    pub fn has(&self, ino: Ino) -> bool {
        self.doubt.known().as_ref().is_some_and(|doubt| doubt.objects.contains(&ino))
    }

    /// Nothing is left of what it was.
    pub fn forget(&self, ino: Ino) {
        if let Some(doubt) = self.doubt.known().as_mut() {
            doubt.gone.extend(doubt.objects.take(&ino));
        }
    }

    /// Makes durable what was forgotten of objects whose bytes are durable. With the last object the doubt ends.
    ///
    /// # Errors
    /// The file system's.
    pub fn save(&self, is_durable: impl Fn(Ino) -> bool) -> io::Result<()> {
        // The same both times: what is forgotten while this is written is not.
        let durable = OnceCell::new();
        self.change(|doubt| {
            let Some(doubt) = doubt else { return false };
            let are = || doubt.gone.iter().copied().filter(|ino| is_durable(*ino)).collect::<BTreeSet<Ino>>();
            let durable = durable.get_or_init(are);
            if durable.is_empty() {
                return false;
            }
            doubt.gone.retain(|ino| !durable.contains(ino));
            doubt.taken.retain(|ino, _| doubt.objects.contains(ino) || doubt.gone.contains(ino));
            true
        })
    }

    /// Takes all as they are, durably, but for those that are being taken from their mirror. How many.
    ///
    /// # Errors
    /// The file system's.
    pub fn accept(&self) -> io::Result<u64> {
        let (was_there, before) = (self.why().is_some(), self.count());
        self.change(|doubt| {
            let Some(doubt) = doubt else { return false };
            doubt.objects.retain(|ino| doubt.taken.contains_key(ino));
            doubt.gone.retain(|ino| doubt.taken.contains_key(ino));
            true
        })?;
        let accepted = before.saturating_sub(self.count()) as u64;
        // Who accepts what is there also accepts that there may be nothing.
        let is_over = was_there && self.why().is_none();
        Ok(if is_over { accepted.max(1) } else { accepted })
    }

    /// Makes a change durable, and has it count then. The doubt ends with the last object.
    fn change(&self, change: impl Fn(&mut Option<Doubt>) -> bool) -> io::Result<()> {
        let whole = |doubt: &mut Option<Doubt>| {
            let is_other = change(doubt);
            if is_other && doubt.as_ref().is_some_and(Doubt::is_over) {
                *doubt = None;
            }
            is_other
        };
        self.doubt.change(whole, |doubt| match doubt {
            Some(doubt) => save(&self.path, doubt),
            None => remove(&self.path),
        })
    }
}

impl Doubt {
    fn is_taken(&self, ino: Ino) -> bool {
        self.objects.contains(&ino) && self.taken.contains_key(&ino)
    }

    fn is_over(&self) -> bool {
        self.objects.is_empty() && self.gone.is_empty()
    }
}

fn save(path: &Path, doubt: &Doubt) -> io::Result<()> {
    let objects: BTreeSet<Ino> = doubt.objects.union(&doubt.gone).copied().collect();
    let body = postcard::to_stdvec(&(&doubt.why, objects, &doubt.taken)).map_err(io::Error::other)?;
    note::write(path, &body)
}

fn remove(path: &Path) -> io::Result<()> {
    disk::remove_file(path)?;
    disk::sync_names(path)
}

fn parse(bytes: &[u8]) -> Option<Doubt> {
    let body = note::body(bytes)?;
    let (why, objects, taken) = postcard::from_bytes(body)
        .or_else(|_| {
            let (why, objects) = postcard::from_bytes(body)?;
            Ok::<_, postcard::Error>((why, objects, BTreeMap::new()))
        })
        .ok()?;
    Some(Doubt { why, objects, gone: BTreeSet::new(), taken })
}

#[cfg(test)]
mod tests;
