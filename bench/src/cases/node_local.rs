//! Node-local flash: a private volume against the file system that its image is on, and what the drain costs a program and
//! saves it.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use tests::local_node::{LocalNode, USER};

use super::Effort;
use crate::pairs::{alternate, nth};
use crate::report::{self, Line, Measurement};
use crate::work::{block, data, rounds};

/// Where the volume is: a disk, as flash is.
const MEDIUM: &str = "/var/tmp";

/// A burst of the program, bytes, and how many there are.
const BURST: usize = 128 << 20;
const BURSTS: usize = 4;

/// What the program computes between two bursts: longer than a burst takes to drain, as a run that can hide it does.
const COMPUTE: Duration = Duration::from_millis(1500);

const LOOP: &str = "a loop device is a second block layer and a thread of the kernel's for each request, which waits for a \
    processor where others compute; a logical volume has neither";

const XFS: &str =
    "the volume is XFS, the file system below perhaps another; these files never reach the device";

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
    let (started, said) = node.drain(&["start", "--removed", "follow"]);
    ensure!(started, "the drain does not start: {said}");
    lines.extend(drain_lines(effort, &node, &volume)?);
    lines.push(discard_line(&node, &volume)?);
    Ok(lines)
}

fn volume_lines(effort: Effort, volume: &Path, backing: &Path) -> Result<Vec<Measurement>> {
    let mut lines = Vec::new();
    let rates = alternate(effort.pairs, || data::run(volume), || data::run(backing))?;
    for (index, (case, unit)) in data::CASES.into_iter().enumerate() {
        let line = Line::new(format!("{case}, private volume"), unit, "its backing file system", 0.95);
        lines.push(line.bounded_by(LOOP).of(&nth(&rates, index)));
    }
    let rates = alternate(effort.pairs, || data::run_direct(volume), || data::run_direct(backing))?;
    for (index, (case, unit)) in data::DIRECT_CASES.into_iter().enumerate() {
        let line = Line::new(format!("{case}, private volume"), unit, "its backing file system", 0.75);
        lines.push(line.bounded_by(LOOP).of(&nth(&rates, index)));
    }
    let count = 20_000 / effort.pairs;
    let rates = alternate(effort.pairs, || rounds::run(volume, count), || rounds::run(backing, count))?;
    let case = "open-write-close, 2 processes, private volume".to_owned();
    lines.push(Line::new(case, "1/s", "its backing file system", 0.95).bounded_by(XFS).of(&rates));
    Ok(lines)
}

/// The program with the drain and without, and the time until its output is safe on the PFS: drained, or written and
/// then copied.
fn drain_lines(effort: Effort, node: &LocalNode, volume: &Path) -> Result<Vec<Measurement>> {
    let pfs = node.root().join("pfs");
    let drained = || {
        let start = Instant::now();
        let program = program(volume)?;
        let (whole, said) = node.drain(&["wait"]);
        ensure!(whole, "the drain is not whole: {said}");
        let safe = start.elapsed().as_secs_f64();
        clear(volume)?;
        // It follows: nothing is left for the next round.
        ensure!(node.drain(&["wait"]).0, "the removals are not followed");
        Ok((program, safe))
    };
    let copied = || {
        ensure!(node.drain(&["pause"]).0, "the drain is not paused");
        let start = Instant::now();
        let program = program(volume)?;
        for burst in 0..BURSTS {
            copy(&volume.join(format!("burst-{burst}")), &pfs.join(format!("copy-{burst}")))?;
        }
        let safe = start.elapsed().as_secs_f64();
        clear(volume)?;
        clear(&pfs)?;
        ensure!(node.drain(&["resume"]).0 && node.drain(&["wait"]).0, "the drain does not go on");
        Ok((program, safe))
    };
    let times = alternate(effort.pairs, drained, copied)?;
    let programs: Vec<_> = times.iter().map(|&((ours, _), (theirs, _))| (ours, theirs)).collect();
    let safe: Vec<_> = times.iter().map(|&((_, ours), (_, theirs))| (ours, theirs)).collect();
    let case = format!("{BURSTS} bursts of {} MiB with the drain running", BURST >> 20);
    Ok(vec![
        Line::new(case, "s", "the same without", 1.0 / 1.03).bounded_by(CORES).of_costs(&programs),
        Line::new("the same until all is safe on the PFS".into(), "s", "written, then copied and fsynced", 1.5)
            .bounded_by(
                "the compute phases are in both times, and what the copy can save is what it takes: see the seconds; \
                 flash and PFS are one disk here",
            )
            .of_costs(&safe),
    ])
}

/// Runs the program as the volume's user, as a job does; seconds.
fn program(volume: &Path) -> Result<f64> {
    std::thread::scope(|scope| {
        let work = || {
            let user = rustix::process::Uid::from_raw(USER);
            // Of this thread only: the benchmark stays root.
            rustix::thread::set_thread_res_uid(user, user, user)?;
            bursts(volume)
        };
        scope.spawn(work).join().expect("the program does not panic")
    })
}

/// Writes a burst and computes, again and again; seconds.
fn bursts(volume: &Path) -> Result<f64> {
    let start = Instant::now();
    let bytes = block(BURST);
    for burst in 0..BURSTS {
        fs::write(volume.join(format!("burst-{burst}")), &bytes)?;
        // One processor computes.
        let end = Instant::now() + COMPUTE;
        while Instant::now() < end {
            std::hint::spin_loop();
        }
    }
    Ok(start.elapsed().as_secs_f64())
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::copy(from, to)?;
    Ok(fs::File::open(to)?.sync_all()?)
}

/// Removes the files of the program.
fn clear(folder: &Path) -> Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.file_name().is_some_and(|name| name.to_string_lossy().contains('-') && path.is_file()) {
            fs::remove_file(&path).with_context(|| format!("remove {}", path.display()))?;
        }
    }
    Ok(())
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
