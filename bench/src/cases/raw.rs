//! One storage node on the same machine, against the folder that holds its bytes: the kernel should be handed the files.

use anyhow::Result;

use super::Effort;
use crate::buffer::{Buffer, Volume, media};
use crate::pairs::{alternate, nth};
use crate::report::{Line, Measurement};
use crate::work::data;

const TARGET: f64 = 0.95;

/// Each kind of request, on each medium.
pub fn measure(effort: Effort) -> Result<Vec<Measurement>> {
    let mut lines = Vec::new();
    for medium in media() {
        let buffer = Buffer::mount(medium, 1, Volume::Default)?;
        let backing = buffer.backing()?;
        let rates = alternate(effort.pairs, || data::run(buffer.mountpoint()), || data::run(&backing))?;
        for (index, (case, unit)) in data::CASES.into_iter().enumerate() {
            let case = format!("{case}, {}", buffer.name());
            lines.push(Line::new(case, unit, "the backing folder", TARGET).of(&nth(&rates, index)));
        }
        buffer.unmount()?;
    }
    Ok(lines)
}
