//! What a storage node has lost of a file, so that nobody knows whether the rest is what was written.

use model::FragmentIndex;

/// Something that was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lost {
    /// By which fragment.
    pub fragment: FragmentIndex,
    /// What.
    pub what: What,
}

/// What was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// Checksums.
    Checksums,
    /// Writes that no fsync had confirmed, and no program was told; known since then, seconds since 1970.
    Writes {
        /// When.
        since: i64,
    },
}
