//! What is measured: a file for each group of lines.

pub mod attacked;
pub mod builds;
pub mod drained;
pub mod encrypted;
pub mod growth;
pub mod identity;
pub mod million;
pub mod mirror;
pub mod names;
pub mod network;
pub mod node_local;
pub mod one_mount;
pub mod peers;
pub mod raw;
pub mod replacing;
pub mod rounds;
pub mod second_copy;
pub mod shard;
pub mod shared_file;
pub mod slurm;
pub mod small_read;
pub mod staging;
pub mod unmatched;

use anyhow::Result;

use crate::report::Measurement;

/// How much is done.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// How often each side does its work; the median counts.
    pub pairs: usize,
}

/// One group of lines.
pub struct Group {
    /// Its word on the command line.
    pub name: &'static str,
    /// Measures it.
    pub measure: fn(Effort) -> Result<Vec<Measurement>>,
    /// Whether it is measured where no group is asked for.
    pub by_default: bool,
}

/// Every group, in the order of the table.
pub const GROUPS: [Group; 22] = [
    ours("raw", raw::measure),
    ours("names", names::measure),
    ours("rounds", rounds::measure),
    ours("one-mount", one_mount::measure),
    ours("network", network::measure),
    ours("encrypted", encrypted::measure),
    ours("identity", identity::measure),
    ours("small-read", small_read::measure),
    ours("shared-file", shared_file::measure),
    ours("shard", shard::measure),
    ours("million", million::measure),
    ours("growth", growth::measure),
    ours("replacing", replacing::measure),
    ours("second-copy", second_copy::measure),
    ours("mirror", mirror::measure),
    ours("unmatched", unmatched::measure),
    ours("staging", staging::measure),
    ours("node-local", node_local::measure),
    ours("drained", drained::measure),
    ours("slurm", slurm::measure),
    ours("attacked", attacked::measure),
    // Needs another file system's packages.
    Group { by_default: false, ..ours("peers", peers::measure) },
];

const fn ours(name: &'static str, measure: fn(Effort) -> Result<Vec<Measurement>>) -> Group {
    Group { name, measure, by_default: true }
}
