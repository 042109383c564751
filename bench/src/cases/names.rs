//! Creating, looking at and removing empty files through the mount, against a file system that only passes them on.

use std::path::Path;

use anyhow::Result;
use model::phase::Coherence;

use super::Effort;
use crate::buffer::{Buffer, Volume, media};
use crate::loopback::{self, Sharing};
use crate::namespace;
use crate::pairs::{alternate, nth};
use crate::report::{Line, Measurement};
use crate::work::names;

const TARGET: f64 = 0.8;

const BOUND: &str = "a create is four FUSE requests (the folder's attributes, lookup, create, release), each with a round trip to the \
    shard, and with one node one more for the object's descriptor; half of the samples of mount and node are task switches, a tenth \
    is Forebay's own code";

/// On each medium, with one node and with four; and as on a cluster, where other nodes may change the namespace any time.
pub fn measure(effort: Effort) -> Result<Vec<Measurement>> {
    let mut lines = Vec::new();
    for medium in media() {
        for nodes in [1, 4] {
            let buffer = Buffer::mount(medium, nodes, Volume::Default)?;
            lines.extend(compare(&buffer, buffer.mountpoint(), Sharing::Exclusive, effort)?);
            if nodes > 1 {
                let mounts = namespace::mount_shared(&buffer, 1, Coherence::Posix)?;
                lines.extend(compare(&buffer, mounts[0].mountpoint(), Sharing::Shared, effort)?);
            }
            buffer.unmount()?;
        }
    }
    Ok(lines)
}

fn compare(buffer: &Buffer, ours: &Path, sharing: Sharing, effort: Effort) -> Result<Vec<Measurement>> {
    let loopback = loopback::mount(&buffer.backing()?, &buffer.folder_beside("loopback"), sharing)?;
    let rates = alternate(effort.pairs, || names::run(ours), || names::run(loopback.mountpoint()))?;
    let lines = names::CASES.into_iter().enumerate().map(|(index, case)| {
        let shared = if sharing == Sharing::Shared { " in a shared namespace" } else { "" };
        let case = format!("{case}{shared}, {}", buffer.name());
        Line::new(case, "1/s", "a bare FUSE file system", TARGET).bounded_by(BOUND).of(&nth(&rates, index))
    });
    Ok(lines.collect())
}
