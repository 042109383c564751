//! Numbers that look random and are the same again for the same seed.

use crate::tree;

/// A sequence of them.
pub struct Random(u64);

impl Random {
    /// The sequence of `seed`.
    pub fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x1_0000_0001))
    }

    /// The next, below `bound`.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(1);
        let bytes = tree::bytes(self.0, 16);
        u64::from_le_bytes(bytes[8..].try_into().expect("8 bytes")) % bound
    }
}
