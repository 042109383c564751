//! 4 KiB requests over TCP, against what they cannot do without: a bare FUSE operation and a round trip.

use anyhow::Result;

use super::Effort;
use crate::buffer::{Buffer, Volume, memory};
use crate::loopback::{self, Sharing};
use crate::pairs::alternate;
use crate::report::{Line, Measurement};
use crate::tcp::{REQUEST_BYTES, round_trip};
use crate::work::{PAGE, data};

const TARGET: f64 = 0.6;

/// Random reads; and, for comparison only, random writes.
pub fn measure(effort: Effort) -> Result<Vec<Measurement>> {
    let Some(medium) = memory() else { return Ok(Vec::new()) };
    let buffer = Buffer::mount(medium, 4, Volume::Directory)?;
    let loopback =
        loopback::mount(&buffer.backing()?, &buffer.folder_beside("loopback"), Sharing::Exclusive)?;
    let [ours, bare] = [&buffer.mountpoint(), &loopback.mountpoint()].map(|folder| folder.join("data"));
    data::sequential_write(&ours)?;
    data::sequential_write(&bare)?;
    let needed = |bare: f64, round_trip: f64| 1.0 / (1.0 / bare + round_trip);
    let reads = alternate(
        effort.pairs,
        || data::forget(&ours).and_then(|()| data::random_read(&ours)),
        || Ok(needed(data::random_read(&bare)?, round_trip(REQUEST_BYTES, PAGE)?)),
    )?;
    let writes = alternate(
        effort.pairs,
        || data::random_write(&ours),
        || Ok(needed(data::random_write(&bare)?, round_trip(REQUEST_BYTES + PAGE, REQUEST_BYTES)?)),
    )?;
    let against = "a bare FUSE operation and a TCP round trip";
    let name = buffer.name();
    let case = |(case, _): (&str, &str)| format!("{case}, {name}");
    let lines = vec![
        Line::new(case(data::RANDOM_READ), "1/s", against, TARGET).of(&reads),
        Line::shown(case(data::RANDOM_WRITE), "1/s", against).of(&writes),
    ];
    drop(loopback);
    buffer.unmount()?;
    Ok(lines)
}
