//! The other copy of a namespace's objects, on another node, as who repairs this one asks it.
//!
//! Owns what is asked; who has the other copy, and how it is reached, is [`crate::mirror`]'s.
//!
//! **Invariant:** nothing that the other copy says is believed unless a seal here says the same.

use std::fmt::Debug;
use std::io;

use model::{Ino, NodeName};

/// Another copy of the same objects.
pub trait OtherCopy: Debug + Send + Sync {
    /// The node that it is on.
    fn node(&self) -> NodeName;

    /// Reads an object of it; fewer bytes at the object's end.
    ///
    /// # Errors
    /// [`NotRead`].
    fn read(&self, ino: Ino, offset: u64, len: u32) -> Result<Vec<u8>, NotRead>;
}

/// Why the other copy cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum NotRead {
    /// Its node says that it does not have these bytes as they were.
    #[error("it is damaged there as well: {0}")]
    Damaged(io::Error),
    /// Its node does not answer, or has not all that was written.
    #[error("{0}")]
    Away(io::Error),
}
