//! Why a mirror does not take the place of what is lost.

use std::io;
use std::path::PathBuf;

use model::NodeName;

/// Why the objects are not there.
#[derive(Debug, thiserror::Error)]
pub enum RestoreError {
    /// The node with the mirror may answer later.
    #[error("the mirror on node {node} cannot be read: {cause}; it is tried again until it can")]
    Away {
        /// Where the mirror is.
        node: NodeName,
        /// Why not.
        cause: io::Error,
    },
    /// The node with the metadata may answer later.
    #[error("which files are lost cannot be asked of node {node}: {cause}; it is tried again until it can")]
    HomeAway {
        /// The namespace's home.
        node: NodeName,
        /// Why not.
        cause: io::Error,
    },
    /// Nobody knows what the mirror does not have.
    #[error(
        "the mirror on node {node} lacks changes that were answered, and so does not take the place of what is lost"
    )]
    Lacking {
        /// Where the mirror is.
        node: NodeName,
    },
    /// What is here is older than the mirror, and does not give its place to it.
    #[error(
        "the part of the buffer here is older than its mirror on node {node}, as if an old copy of its folder had been \
         put back: neither is put over the other"
    )]
    Older {
        /// Where the mirror is.
        node: NodeName,
    },
    /// What is here has what the mirror lacks, and is noted to give its place to it all the same.
    #[error(
        "{note} says that the part of the buffer here is to be filled from its mirror on node {node}, which lacks \
         changes that were answered here: neither is put over the other"
    )]
    Alone {
        /// Where the mirror is.
        node: NodeName,
        /// Where that is noted.
        note: PathBuf,
    },
    /// Something here failed.
    #[error("cannot restore from the mirror on node {node}: {cause}")]
    Here {
        /// Where the mirror is.
        node: NodeName,
        /// Why not.
        cause: io::Error,
    },
    /// Something of the fragment itself failed.
    #[error("cannot restore what was lost here of a part of a buffer: {cause}")]
    Itself {
        /// Why not.
        cause: io::Error,
    },
}

impl RestoreError {
    /// Whether another try may end otherwise though nobody has done anything about it.
    pub fn may_pass(&self) -> bool {
        match self {
            RestoreError::Away { .. } | RestoreError::HomeAway { .. } => true,
            // What is there and is not understood stays so.
            RestoreError::Here { cause, .. } | RestoreError::Itself { cause } => {
                cause.kind() != io::ErrorKind::InvalidData
            }
            RestoreError::Lacking { .. } | RestoreError::Older { .. } | RestoreError::Alone { .. } => false,
        }
    }
}
