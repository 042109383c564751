//! Whether the PFS is still mounted to which a folder is drained: what it was on at the drainer's first start is noted
//! in the drainer's folder, and looked for at every start, before anything is made on the PFS, and before "done".
//!
//! **Invariant:** what was copied while that file system was away is never called drained.

use std::path::Path;
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, anyhow};
use stage::mounted::{Mounts, NotMounted, note};
use wire::node::PfsMount;

use crate::status::Trouble;

/// The file in the drainer's folder with what the PFS was on.
const NOTE: &str = "pfs.json";

/// What to do about it.
const ADVICE: &str =
    "mount it there; the drain goes on by itself where the node runs it, else start it again";

/// The file system that is drained to.
#[derive(Debug)]
pub(crate) struct Pfs {
    noted: Vec<PfsMount>,
    mounts: Mutex<Mounts>,
}

impl Pfs {
    /// Looks for what the folder `to` was on when a drainer with the folder `state` started first; notes it then.
    ///
    /// # Errors
    /// It is away, or the note cannot be read or written.
    pub(crate) fn open(state: &Path, to: &Path) -> anyhow::Result<Pfs> {
        let file = state.join(NOTE);
        let to = std::path::absolute(to).context("find the present folder")?;
        let known = disk::read(&file).with_context(|| format!("read {}", file.display()))?;
        let known: Option<Vec<PfsMount>> = known
            .map(|text| kept::from_text(&text))
            .transpose()
            .with_context(|| format!("understand {}", file.display()))?;
        let mut noted = known.unwrap_or_default();
        if !noted.iter().any(|noted| noted.path == to) {
            // Those of other folders stay: this drain may yet be refused, and the one before goes on.
            noted.extend(begin(&to));
            let text = kept::to_text(&noted)?;
            disk::replace(&file, text.as_bytes()).with_context(|| format!("write {}", file.display()))?;
        }
        noted.retain(|noted| noted.path == to);
        let mounts = Mutex::new(Mounts::check(&noted).map_err(|error| anyhow!("{error}; {ADVICE}"))?);
        Ok(Pfs { noted, mounts })
    }

    /// Makes the folder `to` if only it is missing.
    ///
    /// # Errors
    /// It cannot be made.
    pub(crate) fn make_folder(to: &Path) -> anyhow::Result<()> {
        let found = disk::is_folder(to).with_context(|| format!("look for {}", to.display()))?;
        match if found { Ok(()) } else { std::fs::create_dir(to) } {
            // Another node was first.
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Ok(()),
            made => made.with_context(|| format!("make the folder {}", to.display())),
        }
    }

    /// Whether what the folder `to` was on before is known not to be there now.
    pub(crate) fn is_away(state: &Path, to: &Path) -> bool {
        let (Ok(Some(text)), Ok(to)) = (disk::read(&state.join(NOTE)), std::path::absolute(to)) else {
            return false;
        };
        let noted = kept::from_text::<Vec<PfsMount>>(&text).unwrap_or_default();
        let noted: Vec<PfsMount> = noted.into_iter().filter(|noted| noted.path == to).collect();
        Mounts::check(&noted).is_err()
    }

    /// Whether it was there all the time since this was asked last.
    ///
    /// # Errors
    /// It was not: whatever was copied since may lie below its mount point.
    pub(crate) fn check(&self) -> Result<(), NotMounted> {
        let mut mounts = self.mounts.lock().unwrap_or_else(PoisonError::into_inner);
        mounts.check_again().inspect_err(|_| {
            if let Ok(anew) = Mounts::check(&self.noted) {
                *mounts = anew;
            }
        })
    }
}

/// What `to` is on. Where nobody can tell, nothing is looked for.
fn begin(to: &Path) -> Option<PfsMount> {
    let unknown = |error: &_| tracing::warn!("look for what {} is on: {error}", to.display());
    note(to).inspect_err(unknown).ok()
}

/// Why a copy does not count.
pub(crate) fn trouble(target: &Path, error: &NotMounted) -> Trouble {
    let (path, message) = (target.display().to_string(), error.to_string());
    Trouble { path, errno: 0, message, advice: ADVICE.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_folder_was_on_is_still_known_after_a_drain_to_another_was_tried() {
        let state = tempfile::tempdir().unwrap();
        let [first, second] = ["first", "second"].map(|name| state.path().join(name));
        drop(Pfs::open(state.path(), &first).unwrap());
        let known = std::fs::read(state.path().join(NOTE)).unwrap();
        let known: Vec<PfsMount> = kept::from_text(&known).unwrap();
        drop(Pfs::open(state.path(), &second).unwrap());
        assert_eq!(Pfs::open(state.path(), &first).unwrap().noted, known);
        let all: Vec<PfsMount> =
            serde_json::from_slice(&std::fs::read(state.path().join(NOTE)).unwrap()).unwrap();
        assert!(all.contains(&known[0]) && all.len() == 2, "{all:?}");
    }
}
