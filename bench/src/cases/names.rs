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

const EXCLUSIVE_BOUND: &str = "a create and an unlink are one round trip to the shard each, beside the FUSE requests that the bare \
    file system has, too; with one node the object is made, handed over and registered with the kernel, and removed by another \
    thread on the same processors; half of the samples of mount and node are task switches, a tenth is Forebay's own code";

const SHARED_BOUND: &str = "another node may have changed what a request is about, so each asks the shard: a create four times (lookup, \
    create, the folder's attributes, release). A request has four task switches with its round trip and two without, and they are half \
    of the samples: it cannot be faster than half of bare FUSE";

/// On each medium, with one node and with four; and as on a cluster, where other nodes may change the namespace any
/// time.
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
    let bound = if sharing == Sharing::Shared { SHARED_BOUND } else { EXCLUSIVE_BOUND };
    let lines = names::CASES.into_iter().enumerate().map(|(index, case)| {
        let shared = if sharing == Sharing::Shared { " in a shared namespace" } else { "" };
        let case = format!("{case}{shared}, {}", buffer.name());
        let line = Line::new(case, "1/s", "a bare FUSE file system", TARGET);
        line.bounded_by(bound).of(&nth(&rates, index))
    });
    Ok(lines.collect())
}
