//! Which drain the ledger is of.

use std::path::PathBuf;

/// A drain, as its ledger names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Of {
    /// What is drained: relative to what the drainer's folder is in, where it is below that, as a volume has several
    /// paths.
    pub(crate) from: PathBuf,
    /// Where to.
    pub(crate) to: PathBuf,
    /// The claims of names are the session's: see [`crate::claims`].
    pub(crate) session: String,
}
