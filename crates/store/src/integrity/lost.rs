//! Objects that were lost together with the fragment whose place this one took, and that no other node has.
//!
//! ```text
//! FRAGMENT/sums/lost-0      those of namespace 0: crc32c:u32le postcard([(inode, length)])
//! ```
//!
//! Written before anybody is served, and where an object is found to be gone that neither this node's checksums nor its
//! mirror can tell of. An object that is made since is one that was written anew as a whole.
//!
//! **Invariant:** what is lost reads as an error until nothing of it is left in its file; what is not lost any more is
//! not lost after a restart either, once what took its place, if anything, is durable.

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};

use model::Ino;
use wire::data::message::UNKNOWN_BYTES;

use super::note::{self, Note};

/// Those of one namespace.
#[derive(Debug)]
pub struct Lost {
    path: PathBuf,
    state: Note<State>,
}

#[derive(Clone, Debug, Default)]
struct State {
    /// How long they were.
    lengths: BTreeMap<Ino, u64>,
    /// Those that are not lost any more, and that are noted still.
    gone: BTreeMap<Ino, u64>,
}

/// Where they are noted, beside the log of seals.
pub fn path_of(seals: &Path) -> PathBuf {
    let name = seals.file_stem().unwrap_or_default().to_string_lossy();
    seals.with_file_name(format!("lost-{name}"))
}

/// How long the file of an object is to look that had this length: what is lost is within it.
pub fn shown(length: u64) -> u64 {
    // Of one whose length is not known, at least a byte is lost: nobody reads its end for the file's.
    length.checked_sub(UNKNOWN_BYTES).map_or(length, |known| known.max(1))
}

/// Notes them durably.
///
/// # Errors
/// The file system's.
pub fn note(path: &Path, lost: &[(Ino, u64)]) -> io::Result<()> {
    let body = postcard::to_stdvec(lost).map_err(io::Error::other)?;
    if let Some(folder) = path.parent() {
        disk::make_folder(folder)?;
    }
    note::write(path, &body)
}

impl Lost {
    /// Those that are noted at `path`; none where there is no note.
    ///
    /// # Errors
    /// It cannot be read, or is damaged.
    pub fn open(path: &Path) -> io::Result<Lost> {
        let path = path.to_owned();
        let Some(bytes) = disk::read(&path)? else { return Ok(Lost { path, state: Note::default() }) };
        let damaged = || io::Error::new(io::ErrorKind::InvalidData, format!("{} is damaged", path.display()));
        let body = note::body(&bytes).ok_or_else(damaged)?;
        let lost: Vec<(Ino, u64)> = postcard::from_bytes(body).map_err(|_| damaged())?;
        let state = State { lengths: lost.into_iter().collect(), gone: BTreeMap::new() };
        Ok(Lost { path, state: Note::of(state) })
    }

    /// One more is lost, which had so many bytes: noted durably.
    ///
    /// # Errors
    /// The file system's.
    pub fn add(&self, ino: Ino, length: u64) -> io::Result<()> {
        let add = |state: &mut State| {
            state.gone.remove(&ino);
            state.lengths.insert(ino, length);
            true
        };
        self.state.change(add, |state| state.note(&self.path))
    }

    /// Makes durable what was forgotten of objects that are durably what they are now.
    ///
    /// # Errors
    /// The file system's.
    pub fn save(&self, is_durable: impl Fn(Ino) -> bool) -> io::Result<()> {
        // The same both times: what is forgotten while this is written is not.
        let durable = OnceCell::new();
        let save = |state: &mut State| {
            let are = || state.gone.keys().copied().filter(|ino| is_durable(*ino)).collect::<BTreeSet<Ino>>();
            let durable = durable.get_or_init(are);
            state.gone.retain(|ino, _| !durable.contains(ino));
            !durable.is_empty()
        };
        self.state.change(save, |state| state.note(&self.path))
    }

    /// How long this object was, if it is lost.
    pub fn length(&self, ino: Ino) -> Option<u64> {
        self.state.known().lengths.get(&ino).copied()
    }

    /// Nothing of it is left in its file.
    pub fn forget(&self, ino: Ino) {
        let mut state = self.state.known();
        let gone = state.lengths.remove_entry(&ino);
        state.gone.extend(gone);
    }

    /// All, also those of which there are new objects since.
    pub fn all(&self) -> Vec<(Ino, u64)> {
        self.state.known().lengths.iter().map(|(ino, length)| (*ino, *length)).collect()
    }
}

impl State {
    fn note(&self, path: &Path) -> io::Result<()> {
        let all: Vec<(Ino, u64)> =
            self.lengths.iter().chain(&self.gone).map(|(ino, was)| (*ino, *was)).collect();
        note(path, &all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_lost_stays_so_until_it_is_forgotten_and_a_damaged_note_is_no_empty_one() {
        let dir = tempfile::tempdir().unwrap();
        let path = path_of(&dir.path().join("sums/0.log"));
        assert!(Lost::open(&path).unwrap().all().is_empty());
        note(&path, &[(Ino(7), 4096), (Ino(8), UNKNOWN_BYTES + 9), (Ino(9), UNKNOWN_BYTES)]).unwrap();
        let lost = Lost::open(&path).unwrap();
        assert_eq!((lost.length(Ino(7)), lost.length(Ino(6))), (Some(4096), None));
        assert_eq!([4096, UNKNOWN_BYTES + 9, UNKNOWN_BYTES].map(shown), [4096, 9, 1]);
        lost.forget(Ino(7));
        lost.forget(Ino(8));
        assert_eq!(lost.all(), [(Ino(9), UNKNOWN_BYTES)]);
        lost.save(|ino| ino == Ino(7)).unwrap();
        let noted = Lost::open(&path).unwrap().all();
        assert_eq!(
            noted,
            [(Ino(8), UNKNOWN_BYTES + 9), (Ino(9), UNKNOWN_BYTES)],
            "what took its place may not be durable"
        );
        let mut bytes = std::fs::read(&path).unwrap();
        bytes[5] ^= 1;
        std::fs::write(&path, bytes).unwrap();
        assert_eq!(Lost::open(&path).unwrap_err().kind(), io::ErrorKind::InvalidData);
    }
}
