//! Why one entry could not be staged, and how that is told to its owner.
//!
//! **Invariant:** every fault names a side, a path, and what was tried.

mod advice;

use std::borrow::Cow;
use std::path::Path;

use model::NodeName;
use model::phase::Direction;
use rustix::io::Errno;
use wire::control::{ApiError, Blame, ErrorCode, FileFailure, Side};

use self::advice::{buffer_advice, pfs_advice};
use crate::tree::{self, Tree};

/// What to do about files that lost writes.
const TAKE_LOST_WRITES: &str = "write it anew (run the job again), or take it as it is: an fsync of it in a \
     mount of the buffer (`sync FILE`) fails once and counts as told, and `forebay fsck TOKEN --repair` takes all such \
     files (`forebay status` shows the token); then retry the stage";

/// What faults call it that contents are read.
pub const READ: &str = "read";

/// One thing that went wrong.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{operation} {path}: {cause}")]
pub struct Fault {
    /// The side that refused.
    pub side: Side,
    /// The path on that side, as users know it.
    pub path: String,
    /// What was tried, as `open for reading`.
    pub operation: Cow<'static, str>,
    /// Why it did not work.
    pub cause: Cause,
    /// It was tried again already and is not to be tried once more.
    pub exhausted: bool,
}

/// Why something did not work.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Cause {
    /// The side said so.
    #[error("{}", errno_text(*.0))]
    Refused(Errno),
    /// What is read back is not what was written.
    #[error("checksum {found:08x} read back, {expected:08x} written")]
    Differs {
        /// CRC32C of what was written.
        expected: u32,
        /// CRC32C of what came back.
        found: u32,
    },
    /// The copy has another size than what was written.
    #[error("{found} bytes found, {expected} written")]
    WrongSize {
        /// Bytes written.
        expected: u64,
        /// Bytes there.
        found: u64,
    },
    /// The source was another version after the copy than before, by its size or times (`st_ctime` too).
    #[error("it changed while it was copied")]
    Changed,
    /// It was there when it was asked for, and has no name any more.
    #[error("it was removed after the stage was asked for")]
    Removed,
    /// Checksums of it were lost.
    #[error(
        "it is not copied: the checksums of its part on node {node} were lost, so that nobody knows whether that is \
         what was written"
    )]
    Unverified {
        /// Where that part is.
        node: NodeName,
    },
    /// It has lost writes.
    #[error(
        "it is not copied: node {node} lost what was written to it and no fsync had confirmed, as by a power loss, and \
         no program was told (known since {since})"
    )]
    LostWrites {
        /// Which.
        node: NodeName,
        /// When that was known.
        since: String,
    },
    /// Another storage node was at it and hangs: all of it is made again, as another file.
    #[error("the storage node that copies it hangs, and may write into the copy later")]
    Abandoned,
    /// The stage was cancelled, or the buffer is full.
    #[error("the stage stops")]
    Stopped,
    /// The file was to become a link to its first name, and that could not be copied.
    #[error("it is a hard link to {first}, which could not be copied")]
    FirstNameFailed {
        /// That name, at the source.
        first: String,
    },
    /// Another file of the same list or job has its copy under the name.
    #[error("two sources for one target: {first} has the name")]
    TwoSources {
        /// What that is.
        first: String,
    },
}

/// Gives a refused operation its circumstances.
pub(crate) trait Tried<T> {
    /// Says on what `operation` was tried.
    fn tried(self, tree: &dyn Tree, path: &Path, operation: &'static str) -> Result<T, Fault>;
}

impl<T> Tried<T> for tree::Result<T> {
    fn tried(self, tree: &dyn Tree, path: &Path, operation: &'static str) -> Result<T, Fault> {
        self.map_err(|errno| Fault::new(tree, path, operation, Cause::Refused(errno)))
    }
}

impl Fault {
    pub(crate) fn new(tree: &dyn Tree, path: &Path, operation: &'static str, cause: Cause) -> Fault {
        Fault {
            side: tree.side(),
            path: tree.show(path),
            operation: Cow::Borrowed(operation),
            cause,
            exhausted: false,
        }
    }

    /// The errno, if there is one.
    pub fn errno(&self) -> Option<Errno> {
        match self.cause {
            Cause::Refused(errno) => Some(errno),
            _ => None,
        }
    }

    /// The errno that programs are told.
    fn told(&self) -> Option<Errno> {
        if self.cause == Cause::Removed { Some(Errno::NOENT) } else { self.errno() }
    }

    /// Whether the same may work a moment later.
    pub(crate) fn may_pass(&self) -> bool {
        !self.exhausted
            && match self.cause {
                Cause::Refused(errno) => {
                    matches!(errno, Errno::IO | Errno::INTR | Errno::AGAIN | Errno::STALE)
                        || self.is_no_room()
                }
                Cause::Differs { .. } | Cause::WrongSize { .. } | Cause::Changed => true,
                Cause::Removed
                | Cause::Unverified { .. }
                | Cause::LostWrites { .. }
                | Cause::Abandoned
                | Cause::Stopped
                | Cause::FirstNameFailed { .. }
                | Cause::TwoSources { .. } => false,
            }
    }

    /// Whether the PFS has no room now: others may make some. A buffer is the job's own, and what fills it is this
    /// stage.
    pub(crate) fn is_no_room(&self) -> bool {
        self.side == Side::Pfs && matches!(self.errno(), Some(Errno::NOSPC | Errno::DQUOT))
    }

    /// The side and errno of what is wrong with more than this file: a PFS that is full, a storage node that is away.
    pub(crate) fn common_cause(&self) -> Option<(Side, i32)> {
        let is_common = self.is_no_room() || self.errno() == Some(Errno::IO);
        self.errno().filter(|_| is_common).map(|errno| (self.side, errno.raw_os_error()))
    }

    /// For the list of failures.
    pub fn failure(&self, direction: Direction) -> FileFailure {
        FileFailure {
            path: self.path.clone(),
            side: self.side,
            operation: self.operation.to_string(),
            errno: self.told().map_or(0, Errno::raw_os_error),
            message: self.to_string(),
            advice: self.advice(direction).to_owned(),
        }
    }

    /// For a stage that ends with it before anything was copied.
    pub fn stage_error(&self, direction: Direction) -> ApiError {
        let at_source = (self.side == Side::Pfs) == (direction == Direction::In);
        ApiError {
            code: match self.cause {
                Cause::Removed => ErrorCode::StageSourceRemoved,
                _ if at_source => ErrorCode::StageSource,
                _ => ErrorCode::StageDestination,
            },
            blame: self.blame(),
            message: self.to_string(),
            advice: self.advice(direction).to_owned(),
        }
    }

    fn blame(&self) -> Blame {
        match self.told() {
            _ if matches!(self.cause, Cause::TwoSources { .. }) => Blame::User,
            Some(
                Errno::NOENT
                | Errno::ACCESS
                | Errno::PERM
                | Errno::NOTDIR
                | Errno::ISDIR
                | Errno::DQUOT
                | Errno::LOOP
                | Errno::XDEV
                | Errno::NAMETOOLONG
                | Errno::INVAL,
            ) => Blame::User,
            _ => Blame::Site,
        }
    }

    fn advice(&self, direction: Direction) -> &'static str {
        match self.cause {
            Cause::Refused(errno) => match self.side {
                Side::Pfs => pfs_advice(errno, direction),
                Side::Buffer => buffer_advice(errno),
            },
            Cause::Differs { .. } | Cause::WrongSize { .. } => {
                "the bad copy was removed and the source is untouched; retry the stage, and if it happens again \
                 have memory, network and disks of this side checked"
            }
            Cause::Removed => "nothing is left to copy: ask for it again if it is there again",
            Cause::Unverified { .. } => {
                "compare it with where it came from; write it anew or remove it, or take all such files of the buffer \
                 as they are (fsck with --repair); then retry the stage"
            }
            Cause::LostWrites { .. } => TAKE_LOST_WRITES,
            Cause::Changed => "stop whatever writes to it, then retry the stage",
            Cause::Abandoned | Cause::Stopped => "start the stage again to go on where it stopped",
            Cause::TwoSources { .. } => {
                "the copy that has the name was left alone: move it away and retry the stage, or stage this file to \
                 another destination"
            }
            Cause::FirstNameFailed { .. } => "see the failure of that name, then retry the stage",
        }
    }
}

/// An errno in words, without the number that Rust adds.
pub(crate) fn errno_text(errno: Errno) -> String {
    wire::without_numbers(&std::io::Error::from(errno).to_string())
}

#[cfg(test)]
mod tests;
