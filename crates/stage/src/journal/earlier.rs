//! What earlier runs of a stage have recorded of a file.

use std::collections::BTreeMap;
use std::path::PathBuf;

use wire::data::Time;
use wire::node::Verify;

use crate::version::Version;

/// A file that an earlier run finished.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Finished {
    /// Its size, bytes.
    pub size: u64,
    /// The source's time of change when it was copied, and so the target's, as far as that can hold it.
    pub mtime: Time,
    /// When the source's contents or attributes were changed last (`st_ctime`), where it is known: a file that was
    /// written again and given its old time of change is another.
    pub changed: Option<Time>,
    /// CRC32C of its contents.
    pub crc32c: u32,
    /// How often it was tried, the last time with success.
    pub attempts: u32,
    /// What was read back.
    pub verified: Verify,
    /// When, milliseconds since 1970.
    pub finished_ms: u64,
}

/// A large file that an earlier run began.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unfinished {
    /// Where it is at the target.
    pub place: PathBuf,
    /// The source's version then; `None`: not noted.
    pub version: Option<Version>,
    /// CRC32C of the blocks of 1 MiB that are written, by their number.
    pub blocks: BTreeMap<usize, u32>,
}
