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
use model::InstanceId;
use rustix::fs::{Mode, OFlags};
use wire::control::{ApiError, Blame, ErrorCode};
use wire::node::PfsMount;

use crate::journal::Journal;

/// What to do about it.
const ADVICE: &str = "mount it there, then retry the stage";

/// The same where the path is no place on the PFS.
const ADVICE_ITSELF: &str = "name a path on the parallel file system; cp copies within a buffer";

/// The same where what it was on is not known.
const ADVICE_UNNOTED: &str =
    "see that it is mounted, remove the journal, then retry the stage: it copies everything again";

/// The same where that cannot be noted.
const ADVICE_UNKEPT: &str = "free space on the node's disk, then retry the stage";

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
    /// It is on a mount of the buffer: nothing would be on the PFS, and a folder would be copied into itself.
    #[error("{} is in the buffer itself, which is mounted on {}", path.display(), mountpoint.display())]
    Itself {
        /// What was to be reached.
        path: PathBuf,
        /// Where the buffer is mounted.
        mountpoint: PathBuf,
    },
    /// Nobody knows what it was on.
    #[error(
        "the stage's journal {} on host {} is damaged: it is not known what file system {} was on", journal.display(),
        host(), path.display()
    )]
    Unnoted {
        /// What was to be reached.
        path: PathBuf,
        /// The journal.
        journal: PathBuf,
    },
    /// A later attempt would not know what was mounted at this one.
    #[error("note in the stage's journal {} on host {} what is mounted: {error}", journal.display(), host())]
    Unkept {
        /// The journal.
        journal: PathBuf,
        /// Why.
        error: std::io::Error,
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
        let (code, blame, advice) = match self {
            NotMounted::Itself { .. } => (ErrorCode::BadStage, Blame::User, ADVICE_ITSELF),
            NotMounted::Unnoted { .. } => (ErrorCode::StageJournal, Blame::Site, ADVICE_UNNOTED),
            NotMounted::Unkept { .. } => (ErrorCode::StageJournal, Blame::Site, ADVICE_UNKEPT),
            _ => (ErrorCode::PfsNotMounted, Blame::Site, ADVICE),
        };
        ApiError { code, blame, message: self.to_string(), advice: advice.to_owned() }
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

/// What these folders are on, as it was at the first attempt, which the journal knows. Where the kernel cannot tell,
/// nothing is looked for.
///
/// # Errors
/// The journal may have lost what it knew, or cannot keep it.
pub(crate) fn noted(journal: &Journal, folders: &BTreeSet<PathBuf>) -> Result<Vec<PfsMount>, NotMounted> {
    let known: HashMap<&Path, &PfsMount> =
        journal.mounted().iter().map(|noted| (&*noted.path, noted)).collect();
    let (mut all, mut new) = (Vec::new(), Vec::new());
    for folder in folders {
        if let Some(noted) = known.get(&**folder) {
            all.push(PfsMount::clone(noted));
        } else if journal.is_damaged() {
            return Err(NotMounted::Unnoted { path: folder.clone(), journal: journal.path().to_owned() });
        } else {
            match note(folder) {
                Ok(found) => new.push(found),
                Err(error) => tracing::warn!("look for what {} is on: {error}", folder.display()),
            }
        }
    }
    let unkept = |error| NotMounted::Unkept { journal: journal.path().to_owned(), error };
    journal.note_mounted(&new).map_err(unkept)?;
    all.extend(new);
    Ok(all)
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
        Mounts::of_others(noted, &InstanceId::default())
    }

    /// The same for what is copied to or from the buffer `instance`.
    ///
    /// # Errors
    /// One is away, or is the buffer.
    pub(crate) fn of_others(noted: &[PfsMount], instance: &InstanceId) -> Result<Mounts, NotMounted> {
        let held = |noted: &PfsMount| {
            let found = look(noted)?;
            if found.instance() == Some(instance.as_str()) {
                let (path, mountpoint) = (noted.path.clone(), found.mountpoint);
                return Err(NotMounted::Itself { path, mountpoint });
            }
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
