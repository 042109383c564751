//! Node-local flash: a private volume against the file system that its image is on, and what the drain costs a program
//! and saves it.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use tests::local_node::LocalNode;

use super::Effort;
use crate::disk_image::DiskImage;
use crate::pairs::{alternate, nth};
use crate::report::{self, Line, Measurement};
use crate::work::bursts::{Program, clear};
use crate::work::{MEBIBYTE, data, tasks};

/// Where the volume is: a disk, as flash is.
pub const MEDIUM: &str = "/var/tmp";

/// It computes longer than a burst takes to drain, as a run that can hide it does.
const PROGRAM: Program = Program {
    name: "burst",
    bursts: 4,
    files: (1, 128 * MEBIBYTE),
    compute: Duration::from_millis(1500),
    direct: false,
};

const LOOP: &str = "a loop device is a second block layer and a thread of the kernel's for each request, which waits for a \
    processor where others compute; a logical volume has neither";

/// Counted by `perf record -e workqueue:workqueue_execute_start`: for 5000 writes 5000 of `loop_rootcg_workfn` and 4993
/// of `iomap_dio_complete_work`, for 5000 reads only the former, and no conversions of unwritten extents.
const HANDED_OVER: &str = "the loop device hands each request to a thread of the kernel's, and the file system below hands the end \
    of each write to another: two more switches of tasks for a write, one for a read. A logical volume has neither";

const XFS: &str = "the volume is XFS, the file system below perhaps another, and what the page cache holds never reaches the device: \
    other lines have XFS on both sides";

const CORES: &str = "the drainer reads, writes, syncs and reads back what the program writes, on the same disk and, where there are \
    two processors, on the one that the program leaves";

/// All of it.
pub fn measure(effort: Effort) -> Result<Vec<Measurement>> {
    if !rustix::process::geteuid().is_root() {
        report::note("private volumes need root: node-local lines are left out");
        return Ok(Vec::new());
    }
    let node = LocalNode::start(MEDIUM, "2GiB");
    let volume = node.create("1");
    let backing = node.root().join("backing");
    fs::create_dir(&backing)?;
    let mut lines = volume_lines(effort, &volume, &backing)?;
    lines.extend(lines_on_xfs(effort)?);
    let (started, said) = node.drain(&["start", "--removed", "follow"]);
    ensure!(started, "the drain does not start: {said}");
    lines.push(drain_line(effort, &node, &volume)?);
    lines.push(discard_line(&node, &volume)?);
    Ok(lines)
}

fn volume_lines(effort: Effort, volume: &Path, backing: &Path) -> Result<Vec<Measurement>> {
    let against = "its backing file system";
    let mut lines = cached_lines(effort, volume, backing, (against, XFS))?;
    let rates = alternate(effort.pairs, || data::run_direct(volume), || data::run_direct(backing))?;
    for (index, (case, unit)) in data::DIRECT_CASES.into_iter().enumerate() {
        let line = Line::new(format!("{case}, private volume"), unit, against, 0.75);
        lines.push(line.bounded_by(HANDED_OVER).of(&nth(&rates, index)));
    }
    Ok(lines)
}

/// The same file system on both sides: what is left is the volume's own cost.
fn lines_on_xfs(effort: Effort) -> Result<Vec<Measurement>> {
    let folder = tempfile::tempdir_in(MEDIUM)?;
    let disk = folder.path().join("xfs");
    let _mounted = DiskImage::mount(&disk, 2 << 30)?;
    let node = LocalNode::start_in(&disk.join("node"), "512MiB", "");
    let backing = node.root().join("backing");
    fs::create_dir(&backing)?;
    cached_lines(effort, &node.create("1"), &backing, ("its backing file system, XFS too", LOOP))
}

fn cached_lines(
    effort: Effort,
    volume: &Path,
    backing: &Path,
    (against, bound): (&'static str, &'static str),
) -> Result<Vec<Measurement>> {
    let line = |case: &str, unit| {
        Line::new(format!("{case}, private volume"), unit, against, 0.95).bounded_by(bound)
    };
    let rates = alternate(effort.pairs, || data::run(volume), || data::run(backing))?;
    let cases = data::CASES.into_iter().enumerate();
    let mut lines: Vec<_> =
        cases.map(|(index, (case, unit))| line(case, unit).of(&nth(&rates, index))).collect();
    let count = 20_000 / effort.pairs;
    let rates = alternate(effort.pairs, || tasks::rounds(volume, count), || tasks::rounds(backing, count))?;
    lines.push(line("open-write-close, 2 processes", "1/s").of(&rates));
    Ok(lines)
}

/// The program with the drain and without.
fn drain_line(effort: Effort, node: &LocalNode, volume: &Path) -> Result<Measurement> {
    let drained = || {
        let program = PROGRAM.run(volume)?;
        let (whole, said) = node.drain(&["wait"]);
        ensure!(whole, "the drain is not whole: {said}");
        clear(volume)?;
        // It follows: nothing is left for the next round.
        ensure!(node.drain(&["wait"]).0, "the removals are not followed");
        Ok(program)
    };
    let alone = || {
        ensure!(node.drain(&["pause"]).0, "the drain is not paused");
        let program = PROGRAM.run(volume)?;
        clear(volume)?;
        ensure!(node.drain(&["resume"]).0 && node.drain(&["wait"]).0, "the drain does not go on");
        Ok(program)
    };
    let times = alternate(effort.pairs, drained, alone)?;
    let case = "4 bursts of 128 MiB with the drain running".to_owned();
    Ok(Line::new(case, "s", "the same without", 1.0 / 1.03).bounded_by(CORES).of_costs(&times))
}

/// From the job's end until nothing is left of a volume with 100,000 files.
fn discard_line(node: &LocalNode, volume: &Path) -> Result<Measurement> {
    ensure!(node.drain(&["stop"]).0, "the drain does not stop");
    // Nobody asks for a drain any more.
    fs::remove_dir_all(volume.join(".forebay-drain"))?;
    for folder in 0..100 {
        let folder = volume.join(format!("d{folder}"));
        fs::create_dir(&folder)?;
        for file in 0..1000 {
            fs::File::create(folder.join(file.to_string()))?;
        }
    }
    let start = Instant::now();
    ensure!(node.local(&["release", "1"]).0, "the volume is not released");
    node.wait_until_discarded();
    let seconds = start.elapsed().as_secs_f64();
    let case = "a volume of 100,000 files discarded".to_owned();
    Ok(Line::new(case, "s", "what is wanted", 1.0).of_costs(&[(seconds, 1.0)]))
}
