//! Folders of the PFS that a site keeps its stages from.

use std::path::PathBuf;

/// A folder that is not among those that stages may reach on this host.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{} is in {}, and stages reach only what is below {} here (pfs_roots)", path.display(), real.display(),
    limits.iter().map(|limit| limit.display().to_string()).collect::<Vec<_>>().join(", ")
)]
pub struct Outside {
    /// What was named.
    pub path: PathBuf,
    /// Where that leads, or the nearest folder above that is there.
    pub real: PathBuf,
    /// What may be reached.
    pub limits: Vec<PathBuf>,
}
