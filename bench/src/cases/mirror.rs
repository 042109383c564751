//! What a mirror costs: the same writes on a buffer of two nodes with one, and on one of two nodes without.

use std::fs;

use anyhow::Result;

use super::Effort;
use crate::buffer::{Buffer, Volume, media};
use crate::pairs::{alternate, nth};
use crate::report::{Line, Measurement};
use crate::work::data::{FILE_MEBIBYTES, RANDOM_REQUESTS, random_write, sequential_write};
use crate::work::{MEBIBYTE, PAGE};

/// What is written, with one fsync, and how many bytes.
const CASES: [(&str, usize); 2] =
    [("1 MiB in order", FILE_MEBIBYTES * MEBIBYTE), ("4 KiB at random", RANDOM_REQUESTS * PAGE)];

const AGAINST: &str = "two nodes, without";

/// On each medium: rates, and the CPU of all our processes for each GiB.
pub fn measure(effort: Effort) -> Result<Vec<Measurement>> {
    let mut lines = Vec::new();
    for medium in media() {
        let mount = |options: &[&str]| Buffer::mount_with(medium, 2, Volume::Directory, options);
        let plain = mount(&["--capacity", "1GiB"])?;
        let mirrored = mount(&["--capacity", "1GiB", "--mirror"])?;
        let pairs = alternate(effort.pairs, || writes(&mirrored), || writes(&plain))?;
        for (index, (work, _)) in CASES.into_iter().enumerate() {
            let case = |what: &str| format!("{what} with a mirror, {work}, {}", mirrored.name());
            let unit = if index == 0 { "MiB/s" } else { "1/s" };
            lines.push(Line::shown(case("written"), unit, AGAINST).of(&nth(&pairs, 2 * index)));
            let costs = nth(&pairs, 2 * index + 1);
            lines.push(Line::shown(case("CPU for each GiB"), "s", AGAINST).of_costs(&costs));
        }
        plain.unmount()?;
        mirrored.unmount()?;
    }
    Ok(lines)
}

/// For each case how many a second, and the CPU seconds for each GiB.
fn writes(buffer: &Buffer) -> Result<Vec<f64>> {
    let path = buffer.mountpoint().join("data");
    let mut figures = Vec::new();
    for ((_, bytes), write) in CASES.into_iter().zip([sequential_write, random_write]) {
        let before = buffer.cpu_seconds()?;
        figures.push(write(&path)?);
        let gibibytes = bytes as f64 / (1024 * MEBIBYTE) as f64;
        figures.push((buffer.cpu_seconds()? - before) / gibibytes);
    }
    fs::remove_file(&path)?;
    Ok(figures)
}
