//! Objects whose seals were lost with their log: nobody can tell whether their bytes are what was written.
//!
//! ```text
//! FRAGMENT/sums/unverified-0      those of namespace 0: crc32c:u32le postcard((why, [inode], {inode: bool}))
//! ```
//!
//! They are read, and sealed anew so that what happens to them from now on is seen. Not so those that are being taken
//! from their mirror, the last of the three: they may be so in part, and are used by nobody. False are those that no
//! mirror has any more as they were. A note of before there were any lacks these.
//!
//! **Invariant:** an object is among them until it is written anew as a whole, removed, or taken as it is by somebody
//! who says so; also after a restart. None is called noted before the note is durable.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard};

use model::Ino;

/// Those of one namespace.
#[derive(Debug)]
pub struct Unverified {
    path: PathBuf,
    doubt: Mutex<Option<Doubt>>,
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
        let unverified = Unverified { path, doubt: Mutex::new(doubt) };
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
        let mut doubt = self.lock();
        let mut next = doubt.clone().unwrap_or_default();
        next.objects.extend(objects);
        next.why = why;
        // Also where there are none: what was lost is told until somebody accepts that.
        save(&self.path, &next)?;
        *doubt = Some(next);
        Ok(())
    }

    /// This one is going to be taken from its mirror: noted durably.
    ///
    /// # Errors
    /// The file system's: nothing of it may be changed then.
    pub fn begin_taken(&self, ino: Ino, why: &str) -> io::Result<()> {
        let mut doubt = self.lock();
        if doubt.as_ref().is_some_and(|known| known.is_taken(ino)) {
            return Ok(());
        }
        let first = || Doubt { why: why.to_owned(), ..Doubt::default() };
        let mut next = doubt.clone().unwrap_or_else(first);
        next.gone.remove(&ino);
        next.objects.insert(ino);
        next.taken.insert(ino, true);
        self.put(&mut doubt, next)
    }

    /// Whether it is being taken: it may be what it was in part.
    pub fn is_taken(&self, ino: Ino) -> bool {
        self.lock().as_ref().is_some_and(|doubt| doubt.is_taken(ino))
    }

    /// Whether its mirror has it still as it was when that was begun.
    pub fn is_in_mirror(&self, ino: Ino) -> bool {
        self.lock().as_ref().is_some_and(|doubt| doubt.taken.get(&ino) == Some(&true))
    }

    /// It is not being taken any more: noted durably. It is known from now on, or in doubt still.
    ///
    /// # Errors
    /// The file system's: it is being taken still.
    pub fn end_taken(&self, ino: Ino, is_known: bool) -> io::Result<()> {
        let mut doubt = self.lock();
        let Some(mut next) = doubt.clone() else { return Ok(()) };
        let was_taken = next.taken.remove(&ino).is_some();
        let was_in_doubt = is_known && (next.objects.remove(&ino) | next.gone.remove(&ino));
        if was_taken || was_in_doubt { self.put(&mut doubt, next) } else { Ok(()) }
    }

    /// The mirror is another, or was replaced by an older copy: noted durably.
    ///
    /// # Errors
    /// The file system's.
    pub fn lose_mirror(&self) -> io::Result<()> {
        let mut doubt = self.lock();
        let Some(mut next) = doubt.clone().filter(|doubt| doubt.taken.values().any(|has| *has)) else {
            return Ok(());
        };
        next.taken.values_mut().for_each(|has| *has = false);
        self.put(&mut doubt, next)
    }

    /// Why there are any; `None`: there are none.
    pub fn why(&self) -> Option<String> {
        self.lock().as_ref().map(|doubt| doubt.why.clone())
    }

    /// Which.
    pub fn all(&self) -> Vec<Ino> {
        self.lock().iter().flat_map(|doubt| &doubt.objects).copied().collect()
    }

    /// How many.
    pub fn count(&self) -> usize {
        self.lock().as_ref().map_or(0, |doubt| doubt.objects.len())
    }

    /// Whether this is one.
    pub fn has(&self, ino: Ino) -> bool {
        self.lock().as_ref().is_some_and(|doubt| doubt.objects.contains(&ino))
    }

    /// Nothing is left of what it was.
    pub fn forget(&self, ino: Ino) {
        if let Some(doubt) = self.lock().as_mut() {
            doubt.gone.extend(doubt.objects.take(&ino));
        }
    }

    /// Makes durable what was forgotten of objects whose bytes are durable. With the last object the doubt ends.
    ///
    /// # Errors
    /// The file system's.
    pub fn save(&self, is_durable: impl Fn(Ino) -> bool) -> io::Result<()> {
        let mut doubt = self.lock();
        let Some(mut next) = doubt.clone().filter(|doubt| doubt.gone.iter().any(|ino| is_durable(*ino)))
        else {
            return Ok(());
        };
        next.gone.retain(|ino| !is_durable(*ino));
        next.taken.retain(|ino, _| next.objects.contains(ino) || next.gone.contains(ino));
        self.put(&mut doubt, next)
    }

    /// Takes all as they are, durably, but for those that are being taken from their mirror. How many.
    ///
    /// # Errors
    /// The file system's.
    pub fn accept(&self) -> io::Result<u64> {
        let mut doubt = self.lock();
        let Some(mut next) = doubt.clone() else { return Ok(0) };
        next.objects.retain(|ino| next.taken.contains_key(ino));
        next.gone.retain(|ino| next.taken.contains_key(ino));
        let accepted = doubt.as_ref().map_or(0, |doubt| doubt.objects.len()) - next.objects.len();
        let is_over = next.taken.is_empty();
        self.put(&mut doubt, next)?;
        // Who accepts what is there also accepts that there may be nothing.
        Ok(if is_over { accepted.max(1) } else { accepted } as u64)
    }

    /// Makes that durable, and then what is known. The doubt ends with the last object.
    fn put(&self, doubt: &mut Option<Doubt>, next: Doubt) -> io::Result<()> {
        if next.objects.is_empty() && next.gone.is_empty() {
            remove(&self.path)?;
            *doubt = None;
            return Ok(());
        }
        save(&self.path, &next)?;
        *doubt = Some(next);
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, Option<Doubt>> {
        self.doubt.lock().expect("no thread panics while it holds the list of unverified objects")
    }
}

impl Doubt {
    fn is_taken(&self, ino: Ino) -> bool {
        self.objects.contains(&ino) && self.taken.contains_key(&ino)
    }
}

fn save(path: &Path, doubt: &Doubt) -> io::Result<()> {
    let objects: BTreeSet<Ino> = doubt.objects.union(&doubt.gone).copied().collect();
    let body = postcard::to_stdvec(&(&doubt.why, objects, &doubt.taken)).map_err(io::Error::other)?;
    disk::replace(path, &[&crc32c::crc32c(&body).to_le_bytes(), body.as_slice()].concat())
}

fn remove(path: &Path) -> io::Result<()> {
    disk::remove_file(path)?;
    disk::sync_names(path)
}

fn parse(bytes: &[u8]) -> Option<Doubt> {
    let (crc, body) = bytes.split_first_chunk::<4>()?;
    if crc32c::crc32c(body) != u32::from_le_bytes(*crc) {
        return None;
    }
    let (why, objects, taken) = postcard::from_bytes(body)
        .or_else(|_| {
            let (why, objects) = postcard::from_bytes(body)?;
            Ok::<_, postcard::Error>((why, objects, BTreeMap::new()))
        })
        .ok()?;
    Some(Doubt { why, objects, gone: BTreeSet::new(), taken })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_could_not_be_noted_is_noted_when_it_is_tried_again() {
        let dir = tempfile::tempdir().unwrap();
        let (sums, seals) = (dir.path().join("sums"), dir.path().join("sums/0.log"));
        std::fs::create_dir(&sums).unwrap();
        let open = || Unverified::open(&seals, || Ok(Vec::new())).unwrap();
        let unverified = open();
        // Nothing can be written there.
        std::fs::remove_dir(&sums).unwrap();
        unverified.begin_taken(Ino(7), "a test").unwrap_err();
        unverified.begin("a test".into(), vec![Ino(8)]).unwrap_err();
        assert_eq!(unverified.all(), [], "it is not noted");
        std::fs::create_dir(&sums).unwrap();
        unverified.begin_taken(Ino(7), "a test").unwrap();
        unverified.begin("a test".into(), vec![Ino(8)]).unwrap();
        assert_eq!(open().all(), [Ino(7), Ino(8)]);
        std::fs::remove_dir_all(&sums).unwrap();
        unverified.forget(Ino(7));
        unverified.save(|_| true).unwrap_err();
        std::fs::create_dir(&sums).unwrap();
        unverified.save(|_| true).unwrap();
        assert_eq!(open().all(), [Ino(8)], "what could not be forgotten is forgotten when it is tried again");
    }
    #[test]
    fn what_is_being_taken_stays_so_until_it_is_there_and_nobody_accepts_it_as_it_is() {
        let dir = tempfile::tempdir().unwrap();
        let seals = dir.path().join("0.log");
        let open = || Unverified::open(&seals, || Ok(Vec::new())).unwrap();
        let unverified = open();
        unverified.begin_taken(Ino(7), "a test").unwrap();
        unverified.begin_taken(Ino(8), "a test").unwrap();
        unverified.begin("a test".into(), vec![Ino(9)]).unwrap();
        assert_eq!(unverified.accept().unwrap(), 1);
        for unverified in [&unverified, &open()] {
            assert_eq!(unverified.all(), [Ino(7), Ino(8)]);
            assert!(
                [7, 8].map(Ino).iter().all(|ino| unverified.is_taken(*ino) && unverified.is_in_mirror(*ino))
            );
        }
        unverified.end_taken(Ino(8), true).unwrap();
        unverified.lose_mirror().unwrap();
        for unverified in [&unverified, &open()] {
            assert!(!unverified.has(Ino(8)), "it is there");
            assert!(unverified.is_taken(Ino(7)) && !unverified.is_in_mirror(Ino(7)));
        }
        // Removed, and perhaps not durably.
        unverified.forget(Ino(7));
        assert!(!unverified.is_taken(Ino(7)) && open().is_taken(Ino(7)));
        unverified.save(|_| true).unwrap();
        assert_eq!((unverified.why(), open().why()), (None, None));
    }

    #[test]
    fn a_note_of_before_anything_was_taken_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let body = postcard::to_stdvec(&("why", BTreeSet::from([Ino(7)]))).unwrap();
        let bytes = [&crc32c::crc32c(&body).to_le_bytes(), body.as_slice()].concat();
        std::fs::write(dir.path().join("unverified-0"), bytes).unwrap();
        let unverified = Unverified::open(&dir.path().join("0.log"), || Ok(Vec::new())).unwrap();
        assert!(unverified.has(Ino(7)) && !unverified.is_taken(Ino(7)));
    }
}
