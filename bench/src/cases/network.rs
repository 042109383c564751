//! Four storage nodes over TCP and one client, against one stream of `iperf3`.

use anyhow::Result;

use super::Effort;
use crate::buffer::{Buffer, Volume, media};
use crate::pairs::alternate;
use crate::report::{Line, Measurement};
use crate::tcp;
use crate::work::data;

const TARGET: f64 = 0.6;

const BOUND: &str = "a MiB costs 1.1 ms of processors (program, mount and nodes together), of which there are two; a MiB of iperf3's \
    stream costs 0.5 ms. A byte is copied four times, one copy after the other: between program and mount, into and out of a socket, \
    and by the storage node's file system; iperf3's has the two of the socket, both at the same time";

/// Writing and reading a large file, on each medium.
pub fn measure(effort: Effort) -> Result<Vec<Measurement>> {
    let mut lines = Vec::new();
    for medium in media() {
        let buffer = Buffer::mount(medium, 4, Volume::Directory)?;
        let path = buffer.mountpoint().join("data");
        let ours = || {
            let rates = (data::sequential_write(&path)?, data::sequential_read(&path)?);
            std::fs::remove_file(&path)?;
            Ok(rates)
        };
        let rates = alternate(effort.pairs, ours, tcp::iperf3)?;
        let writes: Vec<_> = rates.iter().map(|&((write, _), stream)| (write, stream)).collect();
        let reads: Vec<_> = rates.iter().map(|&((_, read), stream)| (read, stream)).collect();
        for ((case, unit), pairs) in [(data::SEQUENTIAL_WRITE, writes), (data::SEQUENTIAL_READ, reads)] {
            let case = format!("{case}, {}", buffer.name());
            lines.push(Line::new(case, unit, "one iperf3 stream", TARGET).bounded_by(BOUND).of(&pairs));
        }
        buffer.unmount()?;
    }
    Ok(lines)
}
