//! The records of a journal as they stand on disk.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use disk::format::FormatError;
use model::Ino;
use serde::{Deserialize, Serialize};
use wire::data::{Attr, Time};
use wire::node::{PfsMount, StageSpec, Verify};

use super::{Finished, Inode, Unfinished};
use crate::version::Version;

/// The format. It is raised when an older Forebay must not read what is written from then on, and for a record of a new
/// kind: an older one takes that for damage.
const FORMAT: u32 = 1;

fn first() -> u32 {
    1
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Record {
    Start(StartRecord),
    Part(PartRecord),
    Blocks(BlocksRecord),
    File(FileRecord),
    Made(MadeRecord),
    Remark(RemarkRecord),
    Folder(FolderRecord),
    Cleared,
    Published(ThereRecord),
    Opened(ThereRecord),
    Mounted(MountedRecord),
}

#[derive(Serialize, Deserialize)]
pub(super) struct StartRecord {
    /// Of the records from here on; builds from before 0.1.0 wrote none.
    #[serde(default = "first")]
    format: u32,
    stage: String,
    pub(super) source: String,
    pub(super) destination: String,
    pub(super) run: u64,
    #[serde(default)]
    pub(super) pass: bool,
}

#[derive(Serialize, Deserialize)]
pub(super) struct FileRecord {
    pub(super) target: PathText,
    size: u64,
    /// Seconds and nanoseconds.
    mtime: (i64, u32),
    #[serde(default)]
    changed: Option<(i64, u32)>,
    crc32c: u32,
    attempts: u32,
    #[serde(with = "kept::form")]
    verified: Verify,
    finished_ms: u64,
}

#[derive(Serialize, Deserialize)]
pub(super) struct PartRecord {
    pub(super) target: PathText,
    place: PathText,
    size: u64,
    /// Seconds and nanoseconds, as the next.
    mtime: (i64, u32),
    #[serde(default)]
    changed: Option<(i64, u32)>,
    #[serde(default)]
    ino: Ino,
}

#[derive(Serialize, Deserialize)]
pub(super) struct FolderRecord {
    pub(super) path: PathText,
    pub(super) ino: Ino,
    /// What lies in it could not be decided about.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) taken: bool,
}

#[derive(Serialize, Deserialize)]
pub(super) struct ThereRecord {
    pub(super) path: PathText,
    device: u64,
    ino: Ino,
    /// Seconds and nanoseconds.
    changed: (i64, u32),
}

#[derive(Serialize, Deserialize)]
pub(super) struct BlocksRecord {
    pub(super) target: PathText,
    /// Number of each block, and its CRC32C.
    pub(super) blocks: Vec<(usize, u32)>,
}

#[derive(Serialize, Deserialize)]
pub(super) struct MadeRecord {
    pub(super) target: PathText,
}

#[derive(Serialize, Deserialize)]
pub(super) struct RemarkRecord {
    pub(super) path: String,
    pub(super) text: String,
}

#[derive(Serialize, Deserialize)]
pub(super) struct MountedRecord {
    path: PathText,
    mountpoint: PathText,
    kind: String,
    /// CRC32C of the others: no hint, as other records are, and not believed with a bit that flipped. `None`: from
    /// before there were any.
    #[serde(default)]
    crc32c: Option<u32>,
}

/// A path in JSON, whatever its bytes are.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum PathText {
    /// UTF-8.
    Text(String),
    /// Anything else.
    Bytes(Vec<u8>),
}

/// Why a line is not one of these.
pub(super) enum NoRecord {
    /// A newer Forebay wrote it, and so all that follows.
    Newer(FormatError),
    /// It is not as it was written.
    Damaged(serde_json::Error),
}

/// What of a start is the same in every format.
#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum AnyRecord {
    Start(AnyStart),
}

#[derive(Deserialize)]
struct AnyStart {
    #[serde(default = "first")]
    format: u32,
}

impl Record {
    /// The record that is a line.
    pub(super) fn parse(line: &[u8]) -> Result<Record, NoRecord> {
        match serde_json::from_slice(line) {
            Ok(AnyRecord::Start(AnyStart { format })) if format > FORMAT => {
                Err(NoRecord::Newer(FormatError::Newer { found: format.into(), known: FORMAT }))
            }
            _ => serde_json::from_slice(line).map_err(NoRecord::Damaged),
        }
    }

    pub(super) fn line(&self) -> Vec<u8> {
        let mut line = serde_json::to_vec(self).expect("records have no maps and no failing serialiser");
        line.push(b'\n');
        line
    }
}

impl StartRecord {
    pub(super) fn of_stage(stage: &StageSpec) -> StartRecord {
        let (source, destination) = (stage.source.clone(), stage.destination.clone());
        let pass = stage.policy.while_running;
        StartRecord { source, destination, pass, ..StartRecord::of_entries(&stage.id) }
    }

    /// Of who copies entry by entry, from wherever and to wherever they are.
    pub(super) fn of_entries(id: &str) -> StartRecord {
        let (source, destination) = (String::new(), String::new());
        StartRecord { format: FORMAT, stage: id.to_owned(), source, destination, run: 0, pass: false }
    }

    pub(super) fn is_of_same(&self, other: &StartRecord) -> bool {
        (&self.stage, &self.source, &self.destination) == (&other.stage, &other.source, &other.destination)
    }
}

impl MountedRecord {
    /// `None`: it is not as it was written.
    pub(super) fn mount(&self) -> Option<PfsMount> {
        let (path, mountpoint) = (self.path.to_path(), self.mountpoint.to_path());
        let found = PfsMount { path, mountpoint, kind: self.kind.clone() };
        self.crc32c.is_none_or(|sum| sum == sum_of(&found)).then_some(found)
    }
}

fn sum_of(found: &PfsMount) -> u32 {
    let (path, mountpoint) = (found.path.as_os_str().as_bytes(), found.mountpoint.as_os_str().as_bytes());
    crc32c::crc32c(&[path, mountpoint, found.kind.as_bytes()].join(&0))
}

impl From<&PfsMount> for MountedRecord {
    fn from(found: &PfsMount) -> MountedRecord {
        let (path, mountpoint) = (PathText::from(&*found.path), PathText::from(&*found.mountpoint));
        MountedRecord { path, mountpoint, kind: found.kind.clone(), crc32c: Some(sum_of(found)) }
    }
}

impl PartRecord {
    pub(super) fn new(target: &Path, place: &Path, source: &Attr) -> PartRecord {
        let pair = |time: Time| (time.seconds, time.nanos);
        let (mtime, changed) = (pair(source.mtime), Some(pair(source.ctime)));
        let (target, place) = (target.into(), place.into());
        PartRecord { target, place, size: source.size, mtime, changed, ino: source.ino }
    }

    pub(super) fn unfinished(&self) -> Unfinished {
        let time = |(seconds, nanos)| Time { seconds, nanos };
        let version = |changed| Version::kept(self.ino, self.size, time(self.mtime), time(changed));
        let version = self.changed.map(version);
        Unfinished { place: self.place.to_path(), version, blocks: BTreeMap::new() }
    }
}

impl FileRecord {
    pub(super) fn new(target: &Path, done: Finished) -> FileRecord {
        let Finished { size, mtime, changed, crc32c, attempts, verified, finished_ms } = done;
        let pair = |time: Time| (time.seconds, time.nanos);
        let (target, mtime, changed) = (PathText::from(target), pair(mtime), changed.map(pair));
        FileRecord { target, size, mtime, changed, crc32c, attempts, verified, finished_ms }
    }

    pub(super) fn done(&self) -> Finished {
        let FileRecord { size, mtime, changed, crc32c, attempts, verified, finished_ms, .. } = *self;
        let time = |(seconds, nanos)| Time { seconds, nanos };
        let (mtime, changed) = (time(mtime), changed.map(time));
        Finished { size, mtime, changed, crc32c, attempts, verified, finished_ms }
    }
}

impl ThereRecord {
    pub(super) fn new(path: &Path, inode: Inode) -> ThereRecord {
        let Inode { device, ino, changed } = inode;
        ThereRecord { path: path.into(), device, ino, changed: (changed.seconds, changed.nanos) }
    }

    pub(super) fn inode(&self) -> Inode {
        let (seconds, nanos) = self.changed;
        Inode { device: self.device, ino: self.ino, changed: Time { seconds, nanos } }
    }
}

impl From<&Path> for PathText {
    fn from(path: &Path) -> PathText {
        match path.to_str() {
            Some(text) => PathText::Text(text.to_owned()),
            None => PathText::Bytes(path.as_os_str().as_bytes().to_vec()),
        }
    }
}

impl PathText {
    /// The path again.
    pub fn to_path(&self) -> PathBuf {
        match self {
            PathText::Text(text) => PathBuf::from(text),
            PathText::Bytes(bytes) => OsString::from_vec(bytes.clone()).into(),
        }
    }
}
