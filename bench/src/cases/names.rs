//! Creating, looking at and removing empty files through the mount, against a file system that only passes them on.

use anyhow::Result;

use super::Effort;
use crate::buffer::{Buffer, Volume, media};
use crate::loopback::{self, Sharing};
use crate::pairs::{alternate, nth};
use crate::report::{Line, Measurement};
use crate::work::names;

const TARGET: f64 = 0.8;

/// On each medium, with one node and with four.
pub fn measure(effort: Effort) -> Result<Vec<Measurement>> {
    let mut lines = Vec::new();
    for medium in media() {
        for nodes in [1, 4] {
            let buffer = Buffer::mount(medium, nodes, Volume::Default)?;
            lines.extend(compare(&buffer, effort)?);
            buffer.unmount()?;
        }
    }
    Ok(lines)
}

fn compare(buffer: &Buffer, effort: Effort) -> Result<Vec<Measurement>> {
    let loopback =
        loopback::mount(&buffer.backing()?, &buffer.folder_beside("loopback"), Sharing::Exclusive)?;
    let rates =
        alternate(effort.pairs, || names::run(buffer.mountpoint()), || names::run(loopback.mountpoint()))?;
    let lines = names::CASES.into_iter().enumerate().map(|(index, case)| {
        let case = format!("{case}, {}", buffer.name());
        Line::new(case, "1/s", "a bare FUSE file system", TARGET).of(&nth(&rates, index))
    });
    Ok(lines.collect())
}
