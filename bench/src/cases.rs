//! What is measured: a file for each group of lines.

pub mod growth;
pub mod million;
pub mod names;
pub mod network;
pub mod raw;
pub mod rounds;
pub mod shard;
pub mod shared_file;
pub mod small_read;
pub mod unmatched;

use anyhow::Result;

use crate::report::Measurement;

/// How much is done.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// How often each side does its work; the median counts.
    pub pairs: usize,
}

/// One group of lines, and its word on the command line.
pub type Group = (&'static str, fn(Effort) -> Result<Vec<Measurement>>);

/// Every group, in the order of the table.
pub const GROUPS: [Group; 10] = [
    ("raw", raw::measure),
    ("names", names::measure),
    ("rounds", rounds::measure),
    ("network", network::measure),
    ("small-read", small_read::measure),
    ("shared-file", shared_file::measure),
    ("shard", shard::measure),
    ("million", million::measure),
    ("growth", growth::measure),
    ("unmatched", unmatched::measure),
];
