//! Whether the PFS is mounted: what a path was on when its transfer was accepted is noted, and looked for before each
//! attempt and after it. A mount point without its file system is a folder like any other, to which everything can be
//! copied and verified.
//!
//! Not whether it is the same file system that is mounted there.
//!
//! **Invariant:** where a file system that was noted is away, nothing is called copied.

use std::collections::{BTreeSet, HashMap};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use disk::mount_table::{self, Mount};
use rustix::fs::{Mode, OFlags};
use wire::control::{ApiError, Blame, ErrorCode};
use wire::node::PfsMount;

use crate::journal::Journal;

/// What to do about it.
const ADVICE: &str = "mount it there, then retry the stage";

/// Why something cannot be copied to a path, or from it.
#[derive(Debug, thiserror::Error)]
pub enum NotMounted {
    /// There is only the folder that it was mounted on.
    #[error("{} ({kind}), where {} lies, is not mounted on host {}", mountpoint.display(), path.display(), host())]
    Away {
        /// What was to be reached.
        path: PathBuf,
        /// Where the file system was mounted.
        mountpoint: PathBuf,
        /// Its type.
        kind: String,
    },
    /// Nobody knows what became of it in between.
    #[error(
        "{} ({kind}), where {} lies, was unmounted on host {} while something was copied",
        mountpoint.display(),
        path.display(),
        host()
    )]
    MountedAnew {
        /// What was to be reached.
        path: PathBuf,
        /// Where the file system was mounted.
        mountpoint: PathBuf,
        /// Its type.
        kind: String,
    },
    /// It cannot be told.
    #[error("look for what {} is on, on host {}: {error}", path.display(), host())]
    Unknown {
        /// What was to be reached.
        path: PathBuf,
        /// Why.
        error: std::io::Error,
    },
}

impl NotMounted {
    /// For a stage that ends with it.
    pub(crate) fn stage_error(&self) -> ApiError {
        ApiError {
            code: ErrorCode::PfsNotMounted,
            blame: Blame::Site,
            message: self.to_string(),
            advice: ADVICE.to_owned(),
        }
    }
}

/// What `path` is on now.
///
/// # Errors
/// The file system's, or the kernel does not tell.
pub fn note(path: &Path) -> std::io::Result<PfsMount> {
    let Mount { mountpoint, kind, .. } = mount_table::holding(path)?;
    Ok(PfsMount { path: path.to_owned(), mountpoint, kind })
}

/// What these folders are on, as it was at the first attempt, which the journal knows. Where nobody can tell, nothing
/// is looked for.
pub(crate) fn noted(journal: &Journal, folders: &BTreeSet<PathBuf>) -> Vec<PfsMount> {
    let known: HashMap<&Path, &PfsMount> =
        journal.mounted().iter().map(|noted| (&*noted.path, noted)).collect();
    let look = |folder: &PathBuf| {
        if let Some(noted) = known.get(&**folder) {
            return Some(PfsMount::clone(noted));
        }
        let unknown = |error: &_| tracing::warn!("look for what {} is on: {error}", folder.display());
        let found = note(folder).inspect_err(unknown).ok()?;
        journal.note_mounted(&found);
        Some(found)
    };
    let found = folders.iter().filter_map(look).collect();
    journal.sync();
    found
}

/// Mounts that were there at the begin of an attempt.
#[derive(Debug)]
pub struct Mounts(Vec<Held>);

#[derive(Debug)]
struct Held {
    noted: PfsMount,
    /// The kernel's number of the mount.
    id: u64,
    /// The kernel gives the number to no other meanwhile. `None`: we may not reach the mount point itself.
    _pin: Option<OwnedFd>,
}

impl Mounts {
    /// Looks for those that were noted.
    ///
    /// # Errors
    /// One is away.
    pub fn check(noted: &[PfsMount]) -> Result<Mounts, NotMounted> {
        let held = |noted: &PfsMount| {
            let found = look(noted)?;
            let pin = rustix::fs::open(&found.mountpoint, OFlags::PATH | OFlags::CLOEXEC, Mode::empty());
            Ok(Held { noted: noted.clone(), id: found.id, _pin: pin.ok() })
        };
        noted.iter().map(held).collect::<Result<_, _>>().map(Mounts)
    }

    /// Looks whether they have been there all the time.
    ///
    /// # Errors
    /// One was away.
    pub fn check_again(&self) -> Result<(), NotMounted> {
        self.0.iter().try_for_each(|Held { noted, id, .. }| {
            let now = look(noted)?;
            // What was made since may be a mount point of its own.
            if now.id == *id || now.mountpoint != noted.mountpoint {
                return Ok(());
            }
            let PfsMount { path, mountpoint, kind } = noted.clone();
            Err(NotMounted::MountedAnew { path, mountpoint, kind })
        })
    }
}

fn look(noted: &PfsMount) -> Result<Mount, NotMounted> {
    let PfsMount { path, mountpoint, kind } = noted.clone();
    match mount_table::holding(&path) {
        Err(error) => Err(NotMounted::Unknown { path, error }),
        Ok(now) if now.is_below_lost(&mountpoint, &kind) => Err(NotMounted::Away { path, mountpoint, kind }),
        Ok(now) => Ok(now),
    }
}

fn host() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}
