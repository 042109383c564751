//! The commit verifier of a fragment: a random number that changes exactly when what was written and not synced may be
//! lost.
//!
//! ```text
//! FRAGMENT/verifier.json    the number, and what the page cache that held the writes depends on
//! ```
//!
//! Writes that were answered are in the kernel's page cache. They outlive this process, but neither the machine
//! (another boot id) nor the mount of the file system below (another mount id). A clean stop syncs everything and notes
//! that, durably: the next start then keeps the number whatever was mounted anew meanwhile. Clients compare the number
//! that their writes were answered under with that of today (`client::commits`), as NFS clients do with COMMIT's.
//!
//! What a process left in the page cache when it was killed its disk may fail to take before there is another one, and
//! the kernel gives up the pages and the inode. Then the file system is what remembers it, and is asked.
//!
//! Kernels before 6.8 use the numbers of mounts again, so that a file system which is mounted anew within one boot may
//! not be noticed; before 5.8 they tell none. There the doubt goes to the writers' advantage: `kill -9` must never look
//! like a loss.
//!
//! **Invariant:** a note of a clean stop is gone from the disk before anything is written after it.

mod file_system;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use disk::format;
use serde::{Deserialize, Serialize};

pub use self::file_system::sync_file_system;
use self::file_system::{Mounted, is_written_back};
use crate::formats;

/// A fragment's verifier, as it is while this process serves the fragment.
#[derive(Debug)]
pub struct Verifier {
    path: PathBuf,
    kept: Kept,
    /// The next start is to draw another number.
    renounced: AtomicBool,
    /// It will: that is on the disk.
    anew: AtomicBool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Kept {
    verifier: u64,
    boot_id: String,
    mounts: Vec<Mounted>,
    /// Everything was synced, and nothing written since.
    clean: bool,
}

/// Has each of these fragments draw another number whose file system could not write back what a process left that was
/// killed. Before any of them is opened: this process may end before all are, and the next hears nothing.
pub fn look<'a>(folders: impl Iterator<Item = &'a Path>) {
    for folder in folders {
        let is_unclean = |kept: Option<Kept>| kept.is_some_and(|kept| !kept.clean);
        let may_have_lost = read(&folder.join("verifier.json")).is_ok_and(is_unclean);
        if may_have_lost
            && !is_written_back(folder)
            && let Err(error) = Verifier::forget(folder)
        {
            tracing::error!(path = %folder.display(), %error, "cannot keep that the file system has lost something");
        }
    }
}

impl Verifier {
    /// The verifier of the fragment in `folder`, which keeps its bytes on the file systems of `places`.
    ///
    /// # Errors
    /// The errno of what failed: without its verifier a fragment must not be served.
    pub fn open(folder: &Path, places: &[PathBuf]) -> io::Result<Verifier> {
        let path = folder.join("verifier.json");
        let boot_id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id")?.trim().to_owned();
        let mounts = places.iter().map(|place| Mounted::of(place)).collect::<io::Result<Vec<_>>>()?;
        let before = read(&path)?;
        let is_mounted_still = |kept: &Kept| (&kept.boot_id, &kept.mounts) == (&boot_id, &mounts);
        let same = |kept: &&Kept| {
            kept.clean || is_mounted_still(kept) && places.iter().all(|place| is_written_back(place))
        };
        let verifier = match before.as_ref().filter(same) {
            Some(kept) => kept.verifier,
            None => random()?,
        };
        if before.as_ref().is_some_and(|before| before.verifier != verifier) {
            tracing::warn!(
                path = %path.display(),
                "the fragment was not stopped cleanly before its machine or its file system was: what was written to \
                 it and not synced may be lost, and clients are told"
            );
        }
        let kept = Kept { verifier, boot_id, mounts, clean: false };
        let verifier = Verifier { path, kept, renounced: AtomicBool::default(), anew: AtomicBool::default() };
        if before.as_ref() != Some(&verifier.kept) {
            verifier.keep_or_forget()?;
        }
        Ok(verifier)
    }

    /// Lets the fragment in `folder`, which has none yet, go on with the verifier of the one whose place it takes.
    ///
    /// # Errors
    /// The errno of what failed.
    pub fn go_on_with(folder: &Path, verifier: u64) -> io::Result<()> {
        let kept = Kept { verifier, boot_id: String::new(), mounts: Vec::new(), clean: true };
        disk::replace(&folder.join("verifier.json"), &format::encode(&kept, formats::VERIFIER)?)
    }

    /// Has the fragment in `folder` draw another number when it is opened, whatever it has.
    ///
    /// # Errors
    /// The errno of what failed.
    pub fn forget(folder: &Path) -> io::Result<()> {
        let path = folder.join("verifier.json");
        disk::remove_file(&path)?;
        disk::sync_names(&path)
    }

    /// On a full disk there is no note, rather than an old one: the next start draws another number, whatever was
    /// between, and clients are told of a loss that there may not have been.
    fn keep_or_forget(&self) -> io::Result<()> {
        match self.keep(&self.kept) {
            Err(error) if disk::is_full(&error) => {
                tracing::warn!(
                    path = %self.path.display(), %error,
                    "no room for the fragment's commit verifier: after the next start clients are told that what they \
                     had not synced may be lost"
                );
                self.remove()
            }
            kept => kept,
        }
    }

    fn remove(&self) -> io::Result<()> {
        disk::remove_file(&self.path)?;
        disk::sync_names(&self.path)
    }

    /// The number.
    pub fn number(&self) -> u64 {
        self.kept.verifier
    }

    /// Notes that everything was synced, after which nothing is written any more. Not where the number was renounced:
    /// that a later sync succeeds does not bring back what an earlier one lost.
    ///
    /// # Errors
    /// The errno of what failed: the next start may draw another number.
    pub fn note_clean(&self) -> io::Result<()> {
        if self.renounced.load(Ordering::Acquire) {
            return self.draw_anew();
        }
        self.keep(&Kept { clean: true, ..self.kept.clone() })
    }

    /// After a sync that failed: the kernel tells of it once, so whoever was not told yet is told by another number
    /// after the next start.
    pub fn renounce(&self) {
        if let Err(error) = self.draw_anew() {
            tracing::error!(path = %self.path.display(), %error, "cannot keep that a sync has failed");
        }
    }

    /// Has the next start draw another number.
    ///
    /// # Errors
    /// The errno of what failed: it may not, and the next call tries again.
    pub fn draw_anew(&self) -> io::Result<()> {
        self.renounced.store(true, Ordering::Release);
        if self.anew.load(Ordering::Acquire) {
            return Ok(());
        }
        let kept = Kept { verifier: random()?, boot_id: String::new(), mounts: Vec::new(), clean: false };
        // A disk that writes no file may still remove one.
        self.keep(&kept).or_else(|error| self.remove().map_err(|_| error))?;
        self.anew.store(true, Ordering::Release);
        Ok(())
    }

    fn keep(&self, kept: &Kept) -> io::Result<()> {
        disk::replace(&self.path, &format::encode(kept, formats::VERIFIER)?)
    }
}

fn random() -> io::Result<u64> {
    let mut bytes = [0; 8];
    getrandom::fill(&mut bytes).map_err(io::Error::other)?;
    Ok(u64::from_le_bytes(bytes))
}

/// What was kept; nothing where the fragment is new, or as good as nothing where it is no such file: then its clients
/// are told that it may have lost something.
fn read(path: &Path) -> io::Result<Option<Kept>> {
    Ok(disk::read(path)?.and_then(|text| format::decode(&text, formats::VERIFIER).ok()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(folder: &Path) -> Verifier {
        Verifier::open(folder, &[folder.to_owned()]).unwrap()
    }

    /// Writes the file as another boot would have left it.
    fn from_another_boot(folder: &Path) {
        let path = folder.join("verifier.json");
        let mut kept = read(&path).unwrap().unwrap();
        kept.boot_id = "another".into();
        std::fs::write(&path, serde_json::to_vec(&kept).unwrap()).unwrap();
    }

    #[test]
    fn the_verifier_stays_when_only_the_process_ended() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(open(folder.path()).number(), open(folder.path()).number());
    }

    #[test]
    fn the_verifier_changes_with_the_boot_unless_the_stop_was_clean_and_a_clean_stop_counts_once() {
        let folder = tempfile::tempdir().unwrap();
        let first = open(folder.path());
        first.note_clean().unwrap();
        from_another_boot(folder.path());
        assert_eq!(open(folder.path()).number(), first.number());
        from_another_boot(folder.path());
        let second = open(folder.path()).number();
        assert_ne!(second, first.number());
        assert_eq!(open(folder.path()).number(), second);
    }

    #[test]
    fn after_a_sync_that_failed_the_next_start_has_another_verifier() {
        let folder = tempfile::tempdir().unwrap();
        let first = open(folder.path());
        first.renounce();
        first.note_clean().unwrap();
        assert_ne!(open(folder.path()).number(), first.number(), "a clean stop brings nothing back");
    }

    #[test]
    fn on_a_disk_that_writes_no_file_the_next_start_has_another_verifier_all_the_same() {
        let folder = tempfile::tempdir().unwrap();
        let first = open(folder.path());
        let new = folder.path().join("verifier.new");
        std::fs::create_dir(&new).unwrap();
        first.draw_anew().unwrap();
        std::fs::remove_dir(&new).unwrap();
        first.note_clean().unwrap();
        assert_ne!(open(folder.path()).number(), first.number());
    }

    #[test]
    fn where_the_file_is_damaged_or_of_a_newer_forebay_clients_are_told_of_another_verifier() {
        let folder = tempfile::tempdir().unwrap();
        for text in ["{", r#"{"format":2}"#] {
            let first = open(folder.path());
            std::fs::write(folder.path().join("verifier.json"), text).unwrap();
            let second = open(folder.path()).number();
            assert_ne!(second, first.number());
            assert_eq!(open(folder.path()).number(), second, "it is noted anew");
        }
    }

    #[test]
    fn a_verifier_that_cannot_be_read_is_an_error_and_not_a_new_one() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("verifier.json")).unwrap();
        let error = Verifier::open(folder.path(), &[folder.path().to_owned()]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::IsADirectory);
    }
}
