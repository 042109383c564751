//! Objects whose seals were lost with their log: nobody can tell whether their bytes are what was written.
//!
//! ```text
//! FRAGMENT/sums/unverified-0      those of namespace 0: crc32c:u32le postcard((why, [inode]))
//! ```
//!
//! They are read, and sealed anew so that what happens to them from now on is seen.
//!
//! **Invariant:** an object is among them until it is written anew as a whole, removed, or taken as it is by somebody
//! who says so; also after a restart. None is called noted before the note is durable.

use std::collections::BTreeSet;
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
        self.put(&mut doubt, next)
    }

    /// Nobody can tell of this one, too, until it is forgotten: noted durably.
    ///
    /// # Errors
    /// The file system's.
    pub fn add(&self, ino: Ino, why: &str) -> io::Result<()> {
        let mut doubt = self.lock();
        if doubt.as_ref().is_some_and(|known| known.objects.contains(&ino)) {
            return Ok(());
        }
        let first = || Doubt { why: why.to_owned(), ..Doubt::default() };
        let mut next = doubt.clone().unwrap_or_else(first);
        next.gone.remove(&ino);
        next.objects.insert(ino);
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
        let Some(mut next) = doubt.clone().filter(|doubt| doubt.gone.iter().any(|ino| is_durable(*ino))) else {
            return Ok(());
        };
        next.gone.retain(|ino| !is_durable(*ino));
        if next.objects.is_empty() && next.gone.is_empty() {
            remove(&self.path)?;
            *doubt = None;
            return Ok(());
        }
        self.put(&mut doubt, next)
    }

    /// Takes all as they are, durably. How many.
    ///
    /// # Errors
    /// The file system's.
    pub fn accept(&self) -> io::Result<u64> {
        let mut doubt = self.lock();
        if doubt.is_none() {
            return Ok(0);
        }
        remove(&self.path)?;
        // Who accepts what is there also accepts that there may be nothing.
        Ok(doubt.take().map_or(0, |doubt| doubt.objects.len().max(1) as u64))
    }

    /// Makes that durable, and then what is known.
    fn put(&self, doubt: &mut Option<Doubt>, next: Doubt) -> io::Result<()> {
        save(&self.path, &next)?;
        *doubt = Some(next);
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, Option<Doubt>> {
        self.doubt.lock().expect("no thread panics while it holds the list of unverified objects")
    }
}

fn save(path: &Path, doubt: &Doubt) -> io::Result<()> {
    let objects: BTreeSet<Ino> = doubt.objects.union(&doubt.gone).copied().collect();
    let body = postcard::to_stdvec(&(&doubt.why, objects)).map_err(io::Error::other)?;
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
    let (why, objects) = postcard::from_bytes(body).ok()?;
    Some(Doubt { why, objects, gone: BTreeSet::new() })
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
        unverified.add(Ino(7), "a test").unwrap_err();
        unverified.begin("a test".into(), vec![Ino(8)]).unwrap_err();
        assert_eq!(unverified.all(), [], "it is not noted");
        std::fs::create_dir(&sums).unwrap();
        unverified.add(Ino(7), "a test").unwrap();
        unverified.begin("a test".into(), vec![Ino(8)]).unwrap();
        assert_eq!(open().all(), [Ino(7), Ino(8)]);
        std::fs::remove_dir_all(&sums).unwrap();
        unverified.forget(Ino(7));
        unverified.save(|_| true).unwrap_err();
        std::fs::create_dir(&sums).unwrap();
        unverified.save(|_| true).unwrap();
        assert_eq!(open().all(), [Ino(8)], "what could not be forgotten is forgotten when it is tried again");
    }
}
