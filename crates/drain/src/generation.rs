//! Which version of which file a name stands for.
//!
//! **Invariant:** two versions of a file that were both closed have different generations, because a copy is not begun
//! within [`TICK`] of the time of the last change: whatever is changed later gets another time of change, also from a
//! coarse clock.

use std::ffi::OsStr;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use disk::below::Root;
use rustix::fs::{AtFlags, FileType, StatxAttributes, StatxFlags, StatxTimestamp};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use stage::pfs::{attributes, device};
use wire::data::Attr;

/// Longer than the coarsest clock tick that file systems stamp with (10 ms).
pub(crate) const TICK: Duration = Duration::from_millis(20);

/// Seconds and nanoseconds since 1970.
pub(crate) type Stamp = (i64, u32);

/// One version of one file. All of it is changed by the kernel alone, so that setting a time back does not hide a
/// change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Generation {
    /// Inode number.
    pub ino: u64,
    /// When the inode was made, which tells it from an earlier one with its number; zero where nobody knows.
    pub born: Stamp,
    /// Size, bytes.
    pub size: u64,
    /// Time of change of the contents.
    pub mtime: Stamp,
    /// Time of change of anything.
    pub ctime: Stamp,
    /// It is a file of more than one name.
    #[serde(default)]
    pub linked: bool,
}

/// What is at a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A regular file.
    File,
    /// A folder.
    Folder,
    /// A symbolic link.
    Link,
    /// A pipe, socket or device node: not drained.
    Other,
}

impl Kind {
    /// Whether it lands under a name of its own.
    pub(crate) fn is_drained(self) -> bool {
        matches!(self, Kind::File | Kind::Link)
    }
}

/// A file found.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen {
    /// What it is.
    pub kind: Kind,
    /// Which version.
    pub generation: Generation,
    /// What else is known of it.
    pub attr: Attr,
    /// The device that it is on.
    pub device: u64,
    /// Something is mounted there (Linux 5.8 tells).
    pub is_mounted: bool,
}

impl Seen {
    /// Whether this holds what `before` held, by all that is seen without reading it. A name that it got or lost since
    /// does not matter.
    pub(crate) fn is_still(&self, before: &Seen) -> bool {
        let of =
            |seen: &Seen| (seen.kind, seen.generation.file(), seen.generation.size, seen.generation.mtime);
        of(self) == of(before)
    }
}

impl Generation {
    /// Which file it is, whatever it is called and holds.
    pub(crate) fn file(&self) -> (u64, Stamp) {
        (self.ino, self.born)
    }

    /// Whether that tells the file from every other, at whatever time: numbers of inodes are used again, at once on
    /// some file systems.
    pub(crate) fn is_told(&self) -> bool {
        self.born != (0, 0)
    }

    /// Whether the file was there before `time`, as far as it tells. What is of later than now is from before the clock
    /// was set back.
    pub(crate) fn is_older(&self, time: Stamp) -> bool {
        let since = if self.is_told() { self.born } else { self.mtime };
        since < time || since > now()
    }

    /// Whether the last change is in the future, as the clock was set back since.
    pub(crate) fn is_ahead(&self) -> bool {
        self.changed() > SystemTime::now()
    }

    /// How far the clock is from the time of the last change: how long ago that was, or where the clock was set back
    /// since, how long it takes until another change could have the same time.
    pub(crate) fn distance(&self) -> Duration {
        SystemTime::now().duration_since(self.changed()).unwrap_or_else(|ahead| ahead.duration())
    }

    fn changed(&self) -> SystemTime {
        let (seconds, nanos) = self.ctime;
        UNIX_EPOCH + Duration::new(u64::try_from(seconds).unwrap_or(0), nanos)
    }
}

/// By the clock that files are stamped by.
pub(crate) fn now() -> Stamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    (i64::try_from(since.as_secs()).unwrap_or(i64::MAX), since.subsec_nanos())
}

/// What is at `path` itself, which is below `root` or relative to it, and is reached through no link. The server is
/// asked where the file system has one.
///
/// # Errors
/// Of `openat` and `statx`.
pub(crate) fn look(root: &Root, path: &Path) -> rustix::io::Result<Seen> {
    let place = root.reach(path)?;
    look_in(place.folder.as_fd(), &place.name)
}

/// The same of what has this name in a folder.
///
/// # Errors
/// Of `statx`.
pub(crate) fn look_in(folder: BorrowedFd<'_>, name: &OsStr) -> rustix::io::Result<Seen> {
    let wanted = StatxFlags::BASIC_STATS | StatxFlags::BTIME;
    let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::STATX_FORCE_SYNC;
    let found = rustix::fs::statx(folder, name, flags, wanted)?;
    let knows_birth = found.stx_mask & StatxFlags::BTIME.bits() != 0;
    let is_folder = FileType::from_raw_mode(found.stx_mode.into()).is_dir();
    let generation = Generation {
        linked: found.stx_nlink > 1 && !is_folder,
        ino: found.stx_ino,
        born: if knows_birth { stamp(found.stx_btime) } else { (0, 0) },
        size: found.stx_size,
        mtime: stamp(found.stx_mtime),
        ctime: stamp(found.stx_ctime),
    };
    let kind = match FileType::from_raw_mode(found.stx_mode.into()) {
        FileType::RegularFile => Kind::File,
        FileType::Directory => Kind::Folder,
        FileType::Symlink => Kind::Link,
        _ => Kind::Other,
    };
    let is_mounted = found.stx_attributes.contains(StatxAttributes::MOUNT_ROOT);
    Ok(Seen { kind, generation, attr: attributes(&found), device: device(&found), is_mounted })
}

/// The same; `None` where there is nothing. Whoever cannot look does not know.
///
/// # Errors
/// As of [`look`], other than that there is nothing.
pub(crate) fn find(root: &Root, path: &Path) -> rustix::io::Result<Option<Seen>> {
    if_there(look(root, path))
}

/// `None` where there is nothing.
///
/// # Errors
/// Any other.
pub(crate) fn if_there(seen: rustix::io::Result<Seen>) -> rustix::io::Result<Option<Seen>> {
    match seen {
        Err(Errno::NOENT | Errno::NOTDIR) => Ok(None),
        seen => seen.map(Some),
    }
}

fn stamp(time: StatxTimestamp) -> Stamp {
    (time.tv_sec, time.tv_nsec)
}
