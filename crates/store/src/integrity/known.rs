//! What is known to be damaged, as scrubs, reads and the sealer find it.
//!
//! ```text
//! FRAGMENT/sums/damaged-0      that of namespace 0: crc32c:u32le postcard([(inode, [fault])])
//! ```
//!
//! What was found in an earlier life is only remembered: it is told, but nobody is refused for it before it was found
//! again. The object may have been written anew as a whole, and nobody have noted that.
//!
//! **Invariant:** what was found is told until it is repaired, written anew, removed or found whole; also after a
//! restart.

use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::MutexGuard;

use model::Ino;

use super::note::{self, Note};
use super::report::Fault;

/// With more objects than this the note is not written for each of them, but when the sealer makes its next turn.
const AT_ONCE_MAX: usize = 64;

/// Places that are known of one object: more say nothing new of it.
const PLACES_MAX: usize = 256;

type Faults = BTreeMap<Ino, Vec<Fault>>;

/// That of one namespace.
#[derive(Debug)]
pub struct Known {
    path: PathBuf,
    state: Note<State>,
}

#[derive(Clone, Debug, Default)]
struct State {
    found: Faults,
    /// Of an earlier life, and not found since.
    remembered: Faults,
    /// The note is another.
    unsaved: bool,
}

impl Known {
    /// What is noted beside the log of seals at `seals`, of objects that can be damaged still.
    pub fn open(seals: &Path, may_be: impl Fn(Ino) -> bool) -> Known {
        let name = seals.file_stem().unwrap_or_default().to_string_lossy();
        let path = seals.with_file_name(format!("damaged-{name}"));
        // Nobody is served by its word: without it the next scrub tells.
        let mut remembered = read(&path).unwrap_or_else(|error| {
            tracing::warn!(path = %path.display(), %error, "cannot read the note of known damage: it is unknown \
                                                            until a scrub");
            Faults::new()
        });
        remembered.retain(|ino, _| may_be(*ino));
        Known { path, state: Note::of(State { remembered, ..State::default() }) }
    }

    /// What was found to be wrong with an object in this life.
    pub fn first(&self, ino: Ino) -> Option<Fault> {
        self.state.known().found.get(&ino)?.first().cloned()
    }

    /// Whether something was wrong with it in an earlier life, and nobody has looked since.
    pub fn is_remembered(&self, ino: Ino) -> bool {
        self.state.known().remembered.contains_key(&ino)
    }

    /// All that is wrong with an object, as was found just now. Tells whether that is news.
    pub fn set(&self, ino: Ino, found: Vec<Fault>) -> bool {
        let mut state = self.state.known();
        let remembered = state.remembered.remove(&ino);
        let is_damaged = !found.is_empty();
        let before = match is_damaged {
            true => state.found.insert(ino, found.clone()),
            false => state.found.remove(&ino),
        };
        let is_told = remembered.as_ref() == Some(&found) || before.as_ref() == Some(&found);
        if !is_told && (is_damaged || remembered.is_some() || before.is_some()) {
            self.changed(state);
        }
        is_damaged && before.as_ref() != Some(&found)
    }

    /// Somebody met this, and perhaps not all that is wrong with the object. Tells whether that is news.
    pub fn add(&self, ino: Ino, fault: &Fault) -> bool {
        let mut state = self.state.known();
        let State { found, remembered, .. } = &mut *state;
        let known = found.entry(ino).or_insert_with(|| remembered.remove(&ino).unwrap_or_default());
        let is_news = known.len() < PLACES_MAX && !known.iter().any(|other| covers(other, &fault.bytes()));
        if is_news {
            known.push(fault.clone());
            self.changed(state);
        }
        is_news
    }

    /// These bytes of an object are as they should be again.
    pub fn repaired(&self, ino: Ino, bytes: &Range<u64>) {
        let mut state = self.state.known();
        let State { found, remembered, .. } = &mut *state;
        let mut is_other = false;
        for of in [found, remembered] {
            let Some(known) = of.get_mut(&ino) else { continue };
            let before = known.len();
            known.retain(|fault| {
                let Range { start, end } = fault.bytes();
                start < bytes.start || bytes.end < end
            });
            is_other |= known.len() < before;
            if known.is_empty() {
                of.remove(&ino);
            }
        }
        if is_other {
            self.changed(state);
        }
    }

    /// Nothing is left of an object as it was.
    pub fn forget(&self, ino: Ino) {
        self.retain(|other| other != ino);
    }

    /// Only these can be damaged still.
    pub fn retain(&self, may_be: impl Fn(Ino) -> bool) {
        let mut state = self.state.known();
        let before = state.found.len() + state.remembered.len();
        state.found.retain(|ino, _| may_be(*ino));
        state.remembered.retain(|ino, _| may_be(*ino));
        if state.found.len() + state.remembered.len() < before {
            self.changed(state);
        }
    }

    /// How many objects.
    pub fn count(&self) -> usize {
        let state = self.state.known();
        state.found.len() + state.remembered.len()
    }

    /// All.
    pub fn all(&self) -> Faults {
        self.state.known().all()
    }

    /// Makes durable what is not yet.
    ///
    /// # Errors
    /// The file system's.
    pub fn save(&self) -> io::Result<()> {
        self.write()
    }

    fn changed(&self, mut state: MutexGuard<'_, State>) {
        state.unsaved = true;
        if state.found.len() + state.remembered.len() > AT_ONCE_MAX {
            return;
        }
        drop(state);
        if let Err(error) = self.write() {
            tracing::warn!(path = %self.path.display(), %error, "cannot note yet what is known to be damaged");
        }
    }

    fn write(&self) -> io::Result<()> {
        let _in_order = self.state.writing();
        let mut state = self.state.known();
        if !std::mem::take(&mut state.unsaved) {
            return Ok(());
        }
        let all = state.all();
        drop(state);
        save(&self.path, &all).inspect_err(|_| self.state.known().unsaved = true)
    }
}

impl State {
    fn all(&self) -> Faults {
        // None is in both.
        self.remembered.iter().chain(&self.found).map(|(ino, faults)| (*ino, faults.clone())).collect()
    }
}

fn covers(fault: &Fault, bytes: &Range<u64>) -> bool {
    let known = fault.bytes();
    known.start <= bytes.start && bytes.end <= known.end
}

fn save(path: &Path, all: &Faults) -> io::Result<()> {
    if all.is_empty() {
        return disk::remove_file(path);
    }
    let body = postcard::to_stdvec(all).map_err(io::Error::other)?;
    note::write(path, &body)
}

fn read(path: &Path) -> io::Result<Faults> {
    let Some(bytes) = disk::read(path)? else { return Ok(Faults::new()) };
    let damaged = || io::Error::from(io::ErrorKind::InvalidData);
    postcard::from_bytes(note::body(&bytes).ok_or_else(damaged)?).map_err(|_| damaged())
}
