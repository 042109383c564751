//! Two processes that open, write and close a small file each, against a file system that only passes that on.

use anyhow::Result;

use super::Effort;
use crate::buffer::{Buffer, Volume, memory};
use crate::loopback::{self, Sharing};
use crate::pairs::alternate;
use crate::report::{Line, Measurement};
use crate::work::tasks;

const TARGET: f64 = 0.9;

const BOUND: &str = "with one node the kernel writes by itself, but each open has the object handed over and registered with the \
    kernel; with four, the write is answered by a storage node before it returns: a round trip and two task switches more than the bare one";

/// Rounds of each process on each side, in all pairs together.
const ROUNDS: usize = 100_000;

/// With one node, where the kernel is handed the files, and with four.
pub fn measure(effort: Effort) -> Result<Vec<Measurement>> {
    let Some(medium) = memory() else { return Ok(Vec::new()) };
    let count = ROUNDS / effort.pairs;
    let mut lines = Vec::new();
    for nodes in [1, 4] {
        let buffer = Buffer::mount(medium, nodes, Volume::Default)?;
        let backing = buffer.backing()?;
        let loopback = loopback::mount(&backing, &buffer.folder_beside("loopback"), Sharing::Exclusive)?;
        let ours = || tasks::rounds(buffer.mountpoint(), count);
        let both = || Ok((tasks::rounds(loopback.mountpoint(), count)?, tasks::rounds(&backing, count)?));
        let rates = alternate(effort.pairs, ours, both)?;
        let case = format!("open-write-close, 2 processes, {}", buffer.name());
        let bare: Vec<_> = rates.iter().map(|&(ours, (bare, _))| (ours, bare)).collect();
        let raw: Vec<_> = rates.iter().map(|&(ours, (_, raw))| (ours, raw)).collect();
        lines.push(
            Line::new(case.clone(), "1/s", "a bare FUSE file system", TARGET).bounded_by(BOUND).of(&bare),
        );
        lines.push(Line::shown(case, "1/s", "the backing folder").of(&raw));
        drop(loopback);
        buffer.unmount()?;
    }
    Ok(lines)
}
