//! Which inode of a namespace.

use std::fmt;
use std::ops::Add;

use serde::{Deserialize, Serialize};

/// An inode's number: home shard in the upper 16 bits, a counter in the lower 48.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Ino(pub u64);

impl Ino {
    /// The number after which a list begins with this one.
    #[must_use]
    pub fn before(self) -> Ino {
        Ino(self.0.saturating_sub(1))
    }

    /// From what [`Ino::to_le_bytes`] gave.
    pub fn from_le_bytes(bytes: [u8; 8]) -> Ino {
        Ino(u64::from_le_bytes(bytes))
    }

    /// As it stands in files and under proofs.
    pub fn to_le_bytes(self) -> [u8; 8] {
        self.0.to_le_bytes()
    }
}

/// The number that is given out so many later.
impl Add<u64> for Ino {
    type Output = Ino;

    fn add(self, later: u64) -> Ino {
        Ino(self.0 + later)
    }
}

impl From<u64> for Ino {
    fn from(number: u64) -> Ino {
        Ino(number)
    }
}

impl From<Ino> for u64 {
    fn from(ino: Ino) -> u64 {
        ino.0
    }
}

impl fmt::Display for Ino {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl fmt::LowerHex for Ino {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::LowerHex::fmt(&self.0, f)
    }
}
