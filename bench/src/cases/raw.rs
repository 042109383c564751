//! One storage node on the same machine, against the folder that holds its bytes: the kernel should be handed the
//! files.

use anyhow::Result;

use super::Effort;
use crate::buffer::{Buffer, Volume, media};
use crate::pairs::{alternate, nth};
use crate::report::{Line, Measurement};
use crate::work::data;

const TARGET: f64 = 0.95;

const BOUND: &str = "the kernel reads and writes the object by itself, no process of ours runs: what it costs more is its own passthrough \
    layer. On a shared machine such ratios vary by a tenth to either side";

/// Each kind of request, on each medium.
pub fn measure(effort: Effort) -> Result<Vec<Measurement>> {
    let mut lines = Vec::new();
    for medium in media() {
        let buffer = Buffer::mount(medium, 1, Volume::Default)?;
        let backing = buffer.backing()?;
        let rates = alternate(effort.pairs, || data::run(buffer.mountpoint()), || data::run(&backing))?;
        for (index, (case, unit)) in data::CASES.into_iter().enumerate() {
            let case = format!("{case}, {}", buffer.name());
            let line = Line::new(case, unit, "the backing folder", TARGET).bounded_by(BOUND);
            lines.push(line.of(&nth(&rates, index)));
        }
        buffer.unmount()?;
    }
    Ok(lines)
}
