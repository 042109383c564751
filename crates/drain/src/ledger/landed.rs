//! A file of the ledger.

use std::path::PathBuf;

use crate::generation::Generation;

/// A file that is on the PFS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Landed {
    /// Its name there.
    pub target: PathBuf,
    /// Which version of the file on the node it is.
    pub generation: Generation,
    /// CRC32C of its contents; `None` for a symbolic link.
    pub crc32c: Option<u32>,
    /// What the PFS refuses of its owner and attributes.
    pub left_out: Vec<String>,
}
