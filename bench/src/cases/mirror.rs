//! What a mirror costs: the same writes on a buffer of two nodes with one, and on one of two nodes without.

use std::fs;

use anyhow::{Context, Result};
use tests::processes::{Process, of_folder};

use super::Effort;
use crate::buffer::{Buffer, Volume, media};
use crate::pairs::{alternate, nth};
use crate::report::{Line, Measurement};
use crate::work::data::{FILE_MEBIBYTES, RANDOM_REQUESTS, random_write, sequential_write};
use crate::work::{MEBIBYTE, PAGE};

/// What is written, with one fsync, and how many bytes.
const CASES: [(&str, usize); 2] =
    [("1 MiB in order", FILE_MEBIBYTES * MEBIBYTE), ("4 KiB at random", RANDOM_REQUESTS * PAGE)];

/// The kernel's ticks in a second, as it shows them to programs on every machine that we are built for.
const USER_HZ: f64 = 100.0;

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
        let before = cpu_seconds(buffer)?;
        figures.push(write(&path)?);
        let gibibytes = bytes as f64 / (1024 * MEBIBYTE) as f64;
        figures.push((cpu_seconds(buffer)? - before) / gibibytes);
    }
    fs::remove_file(&path)?;
    Ok(figures)
}

/// What the buffer's processes have used so far, in the kernel's behalf too.
fn cpu_seconds(buffer: &Buffer) -> Result<f64> {
    let ticks: Vec<u64> = of_folder(&buffer.cluster().state).iter().map(ticks).collect::<Result<_>>()?;
    Ok(ticks.iter().sum::<u64>() as f64 / USER_HZ)
}

/// `utime` and `stime` of proc_pid_stat(5), the 12th and 13th field behind the program's name.
fn ticks(process: &Process) -> Result<u64> {
    let stat = fs::read_to_string(format!("/proc/{}/stat", process.pid))?;
    let fields = stat.rsplit_once(')').map(|(_, fields)| fields.split_whitespace().skip(11).take(2));
    let read = fields.into_iter().flatten().map(str::parse::<u64>).sum::<Result<u64, _>>();
    read.with_context(|| format!("read the CPU time of process {}", process.pid))
}
