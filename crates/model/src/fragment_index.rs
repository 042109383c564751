//! Which fragment of an instance.

use std::fmt;
use std::num::ParseIntError;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A fragment's number in its instance: its place among those, from 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct FragmentIndex(pub u32);

impl FragmentIndex {
    /// Those of an instance with so many, in order.
    pub fn all(fragments: u32) -> impl Iterator<Item = FragmentIndex> {
        (0..fragments).map(FragmentIndex)
    }

    /// With each of a list that has something for every fragment, which one that is for.
    pub fn of_each<T>(list: impl IntoIterator<Item = T>) -> impl Iterator<Item = (FragmentIndex, T)> {
        (0..).map(FragmentIndex).zip(list)
    }

    /// The one so many further on in the ring of all `fragments`, which are at least 1.
    #[must_use]
    pub fn further(self, steps: u32, fragments: u32) -> FragmentIndex {
        FragmentIndex((self.0 + steps) % fragments)
    }

    /// As a number.
    pub fn get(self) -> u32 {
        self.0
    }

    /// Its place in a list that has something for each fragment.
    pub fn place(self) -> usize {
        self.0 as usize
    }

    /// As it stands in files, in handshakes and under proofs.
    pub fn to_le_bytes(self) -> [u8; 4] {
        self.0.to_le_bytes()
    }
}

impl From<u32> for FragmentIndex {
    fn from(number: u32) -> FragmentIndex {
        FragmentIndex(number)
    }
}

impl FromStr for FragmentIndex {
    type Err = ParseIntError;

    fn from_str(text: &str) -> Result<FragmentIndex, ParseIntError> {
        text.parse().map(FragmentIndex)
    }
}

impl fmt::Display for FragmentIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}
