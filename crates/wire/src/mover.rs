//! What the coordinator of a stage and its movers on other storage nodes say to each other: frames as on the data path
//! (`data::Connection`), on a connection that began there and was handed over with `Request::StartMover`. Each
//! [`Order`] gets an [`Answer`] with its number, in any order.
//!
//! Both come from one installation: the data path's version, which the handshake compared, is theirs too.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::data::{Attr, Time};
use crate::node::{StageSpec, Verify};
use crate::stages::Side;

/// How often a mover that is asked for it gives a sign that it is at work ([`Answer::AtWork`]).
pub const SIGN_EVERY: Duration = Duration::from_secs(1);

/// What a mover has is taken from it when it has given no sign for so long.
pub const SILENCE_MAX: Duration = Duration::from_secs(30);

/// A mover with an operation that is under way for so long gives no signs: a client of a PFS takes about a minute to
/// reach a server again that was away.
pub const OPERATION_MAX: Duration = Duration::from_secs(90);

/// What [`Order::Begin`] tells, in JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Errand {
    /// The stage.
    #[serde(flatten)]
    pub stage: StageSpec,
    /// The coordinator asks for signs. Former ones did not, and former movers give none.
    #[serde(default)]
    pub signs: bool,
}

/// What a mover is to do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Order {
    /// The first: which stage. Answer: [`Answer::Ready`] or [`Answer::Refused`].
    Begin {
        /// An [`Errand`] (JSON) without a credential, which the mover has from its node.
        stage: Vec<u8>,
        /// Which run of the stage, from 1.
        run: u64,
        /// What sets this mover's files apart from those of others, as `m2-`.
        name: String,
    },
    /// Copy blocks of a file that was made, onto stable storage. Answer: [`Answer::Sums`].
    Copy(Part),
    /// Read blocks of the copy back. Answer: [`Answer::Sums`].
    ReadBack(Part),
    /// Copy whole files, but do not give them their names. Answer: [`Answer::Files`].
    Files(Vec<WholeFile>),
}

/// A file or folder, so that it is recognised.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Known {
    /// Its path in its tree.
    pub path: Vec<u8>,
    /// Its attributes as the coordinator sees them.
    pub attr: Attr,
}

/// Blocks of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part {
    /// The source.
    pub source: Known,
    /// The copy under its working name.
    pub made: Known,
    /// The path that it is to have; faults name it.
    pub target: Vec<u8>,
    /// The source has holes.
    pub sparse: bool,
    /// Blocks of 1 MiB, as (first, one past the last).
    pub runs: Vec<(u64, u64)>,
}

/// A file to copy as a whole.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WholeFile {
    /// The source.
    pub source: Known,
    /// The folder that it is to be in.
    pub folder: Known,
    /// The path that it is to have.
    pub target: Vec<u8>,
}

/// What a mover answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Answer {
    /// It has the buffer and the owner's rights.
    Ready,
    /// It cannot take part in this stage.
    Refused(String),
    /// CRC32C of the blocks, in order.
    Sums(Vec<u32>),
    /// What became of each file, in order, and what its owner should know.
    Files {
        /// One for each file.
        files: Vec<Outcome>,
        /// (path, text) each.
        remarks: Vec<(String, String)>,
    },
    /// A file is not there as the coordinator sees it: the PFS may be another one here.
    Foreign(String),
    /// What is wrong with the file.
    Failed(Fault),
    /// To no order (0): it is at work, and none of its operations is under way for long.
    AtWork,
}

/// What became of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Outcome {
    /// It is copied, verified, on stable storage, and has its metadata.
    Made(Made),
    /// See [`Answer::Foreign`].
    Foreign(String),
    /// What is wrong with it.
    Failed(Fault),
}

/// A file that a mover has made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Made {
    /// Where: under a working name, or the name it is to have.
    pub place: Vec<u8>,
    /// Its attributes when it was made.
    pub attr: Attr,
    /// Bytes copied.
    pub size: u64,
    /// The source's time of change.
    pub mtime: Time,
    /// CRC32C of its contents.
    pub crc32c: u32,
    /// How often it was tried.
    pub attempts: u32,
    /// What was read back.
    pub verified: Verify,
    /// When it was done, milliseconds since 1970.
    pub finished_ms: u64,
}

/// What went wrong with a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fault {
    /// The side that refused.
    pub side: Side,
    /// The path, as users know it.
    pub path: String,
    /// What was tried.
    pub operation: String,
    /// Why it did not work.
    pub cause: Cause,
}

/// Why something did not work.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Cause {
    /// The side said so.
    Refused(i32),
    /// What was read back has another checksum.
    Differs {
        /// CRC32C of what was written.
        expected: u32,
        /// CRC32C of what came back.
        found: u32,
    },
    /// The copy has another size.
    WrongSize {
        /// Bytes written.
        expected: u64,
        /// Bytes there.
        found: u64,
    },
    /// The source changed while it was copied.
    Changed,
    /// The mover stops.
    Stopped,
}
