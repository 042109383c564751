//! The mirror of another fragment's objects, as the node keeps it that is next to that fragment's: objects as its own,
//! which only that fragment changes.
//!
//! ```text
//! FRAGMENT/mirrors/0.json             which mirror of namespace 0's objects it is, and whether it has all of them
//! FRAGMENT/mirror/0/ab/00…12ab        the objects; in a volume: FRAGMENT/volume/mirror/0/ab/00…12ab
//! FRAGMENT/sums/mirror-0.log          their checksums
//! ```
//!
//! **Invariant:** that it is whole is said by its fragment alone, and taken back before anything differs for longer.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use disk::format;
use model::Ino;
use serde::{Deserialize, Serialize};
use wire::data::Reply;

use crate::formats;
use crate::objects::Objects;
use crate::verifier::Verifier;

/// One namespace's.
#[derive(Debug)]
pub struct Replica {
    objects: Arc<Objects>,
    path: PathBuf,
    kept: Mutex<Kept>,
    verifier: Arc<Verifier>,
}

/// What is kept of it beside the objects.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Kept {
    /// Drawn when it was made.
    id: u64,
    /// It has all that its fragment has answered, but for those that it lacks.
    whole: bool,
    /// Objects that it does not have as they were answered.
    #[serde(default)]
    lacking: Vec<Ino>,
    /// The commit verifier that its fragment said it has, and the one that this node had then.
    fragment: Option<(u64, u64)>,
    /// How often that has found it: see [`crate::mirror::meetings`].
    #[serde(default)]
    meeting: u64,
}

/// Where that is kept for the fragment below `folder`.
pub fn path_of(folder: &Path, namespace: u32) -> PathBuf {
    folder.join("mirrors").join(format!("{namespace}.json"))
}

/// Makes the note of a mirror without objects, durably.
///
/// # Errors
/// The file system's.
pub fn create(folder: &Path, namespace: u32) -> io::Result<()> {
    let path = path_of(folder, namespace);
    disk::make_folder(path.parent().expect("it is in a folder"))?;
    let mut id = [0; 8];
    getrandom::fill(&mut id).map_err(io::Error::other)?;
    let id = u64::from_le_bytes(id);
    keep(&path, &Kept { id, whole: false, lacking: Vec::new(), fragment: None, meeting: 0 })
}

/// How often the fragment whose mirror is in the fragment below `folder` has found it, where nobody serves that.
///
/// # Errors
/// The note is not there, or cannot be read.
pub fn meeting(folder: &Path, namespace: u32) -> io::Result<u64> {
    let text = disk::read(&path_of(folder, namespace))?.ok_or(io::ErrorKind::NotFound)?;
    Ok(format::decode::<Kept>(&text, formats::MIRROR)?.meeting)
}

fn keep(path: &Path, kept: &Kept) -> io::Result<()> {
    disk::replace(path, &format::encode(kept, formats::MIRROR)?)
}

impl Replica {
    /// The one of which these are the objects, in the fragment below `folder` that has this verifier.
    ///
    /// # Errors
    /// Its note is not there, or cannot be read.
    pub fn open(
        folder: &Path,
        namespace: u32,
        objects: Arc<Objects>,
        verifier: Arc<Verifier>,
    ) -> io::Result<Replica> {
        let path = path_of(folder, namespace);
        let text = disk::read(&path)?.ok_or(io::ErrorKind::NotFound)?;
        let kept = Mutex::new(format::decode(&text, formats::MIRROR)?);
        Ok(Replica { objects, path, kept, verifier })
    }

    /// Its objects.
    pub fn objects(&self) -> &Arc<Objects> {
        &self.objects
    }

    /// Notes durably whether it has all of its fragment, but for these objects.
    ///
    /// # Errors
    /// The file system's.
    pub fn note(&self, whole: bool, lacking: &[Ino]) -> io::Result<()> {
        self.keep(|kept| Kept { whole, lacking: lacking.to_vec(), ..kept })
    }

    /// Notes durably which commit verifier its fragment has.
    ///
    /// # Errors
    /// The file system's.
    pub fn begin(&self, verifier: u64) -> io::Result<()> {
        self.keep(|kept| Kept { fragment: Some((verifier, self.verifier.number())), ..kept })
    }

    /// Notes durably how often its fragment has found it.
    ///
    /// # Errors
    /// The file system's.
    pub fn meet(&self, number: u64) -> io::Result<()> {
        self.keep(|kept| Kept { meeting: number, ..kept })
    }

    /// How often that was, for all that it has heard.
    pub fn meeting(&self) -> u64 {
        self.kept.lock().expect(POISON).meeting
    }

    /// What there is, for its fragment or for one that takes the place of that.
    pub fn describe(&self) -> Reply {
        let kept = self.kept.lock().expect(POISON).clone();
        let own = self.verifier.number();
        let verifier = kept.fragment.filter(|(_, then)| *then == own).map(|(verifier, _)| verifier);
        Reply::Mirror { life: kept.id ^ own, whole: kept.whole, lacking: kept.lacking, verifier }
    }

    fn keep(&self, change: impl FnOnce(Kept) -> Kept) -> io::Result<()> {
        let mut kept = self.kept.lock().expect(POISON);
        let next = change(kept.clone());
        if next != *kept {
            keep(&self.path, &next)?;
            *kept = next;
        }
        Ok(())
    }
}

const POISON: &str = "no thread panics while it holds the note of a mirror";
