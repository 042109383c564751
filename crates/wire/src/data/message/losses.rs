//! Writes that no fsync had confirmed and that a storage node lost: how clients tell the home shard, which keeps it
//! until somebody was told, and how they hear of what others lost.
//!
//! A loss is named by file, fragment, and the commit verifier that the fragment had after it: however many clients tell
//! of it, it is one.

use model::{FragmentIndex, Ino};
use serde::{Deserialize, Serialize};

/// [`super::Request::ReadLink`] of this, which is no inode's number, asks a home shard what it understands beside the
/// messages that all of this version do. Answer: [`super::Reply::Bytes`], the names with spaces between; of one that
/// does not know the question, ESTALE.
pub const FEATURES: Ino = Ino(0);

/// A feature: [`super::Request::Losses`].
pub const LOSSES: &str = "losses";

/// In place of a file: any may have lost something, names too.
pub const EVERYTHING: Ino = Ino(0);

/// In place of a file: names and attributes were lost, and bytes of those files alone that have losses of their own.
pub const NAMES: Ino = Ino(u64::MAX);

/// So many files or losses are in one request or answer at most: their list must fit a message.
pub const LOSSES_MAX: usize = 8192;

/// What a client tells of losses, or asks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum LossRequest {
    /// The fragment, which has this commit verifier now, has lost what this session had written to these files and no
    /// sync had confirmed; [`NAMES`] among them: or names; `any`: or to any file.
    Lost {
        /// Which.
        fragment: FragmentIndex,
        /// What it has now.
        verifier: u64,
        /// The files.
        inos: Vec<Ino>,
        /// Others, too.
        any: bool,
    },
    /// Programs were told of these; of what any file may have lost no program is told for all.
    Told {
        /// Which.
        losses: Vec<LostOf>,
    },
    /// This session is about to end, or goes on in another process, and no sync has confirmed what it wrote to these
    /// files on a fragment that had this commit verifier; `any`: or to any file. With `any` the answer is
    /// [`super::Reply::Truth`]: whether the home knows which files these are, and, with `names`, has on disk what such
    /// requests told it. Homes of older releases say [`super::Reply::Done`].
    Left {
        /// Where.
        fragment: FragmentIndex,
        /// What the fragment had then.
        verifier: u64,
        /// The files.
        inos: Vec<Ino>,
        /// Others, too.
        any: bool,
        /// Nor has one confirmed names and attributes, which the home has.
        names: bool,
    },
    /// Losses with numbers above `after`, [`LOSSES_MAX`] of them at most, and all of the file `of`.
    List {
        /// 0: all.
        after: u64,
        /// A file.
        of: Option<Ino>,
        /// First look for losses among what ended sessions left.
        look: bool,
    },
    /// Syncs have confirmed everything that this session wrote, and it has no file open for writing: should it end
    /// without a word, nothing of it is lost. Said twice: the second time (`again`) it counts, if the home was asked to
    /// open, close or change nothing in between, and what was written before that is still confirmed. Answer:
    /// [`super::Reply::Truth`], whether that is so.
    Confirmed {
        /// The second time.
        again: bool,
    },
}

/// Which loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct LostOf {
    /// The file, [`EVERYTHING`] or [`NAMES`].
    pub ino: Ino,
    /// Which fragment lost it.
    pub fragment: FragmentIndex,
    /// The commit verifier that it has since.
    pub verifier: u64,
}

/// A loss as the home shard knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Loss {
    /// Later ones have greater numbers.
    pub number: u64,
    /// Which.
    pub of: LostOf,
    /// How long the home shard has known it, milliseconds.
    pub age_ms: u64,
    /// When it heard of it, seconds since 1970 by its clock.
    pub seconds: i64,
    /// Somebody was told.
    pub told: bool,
}
