//! Staging in and out, against the tools that a user would copy with through the mount.

use std::fs;
use std::path::PathBuf;

use anyhow::Result;
use model::phase::{Coherence, Direction};

use super::Effort;
use crate::buffer::{Buffer, Medium, Volume, media};
use crate::mount_process::MountProcess;
use crate::namespace;
use crate::pairs::alternate;
use crate::report::{Line, Measurement};
use crate::work::staging::{self, Run, Tool};
use crate::work::{MEBIBYTE, PAGE};

/// A tree, and what it is compared with.
struct Tree {
    name: &'static str,
    files: usize,
    bytes_each: usize,
    unit: &'static str,
    /// What is counted in that unit.
    amount: f64,
    tools: &'static [Tool],
    target: f64,
    /// What keeps us below it.
    bound: &'static str,
}

const TREES: [Tree; 2] = [
    Tree {
        name: "one file of 256 MiB",
        files: 1,
        bytes_each: 256 * MEBIBYTE,
        unit: "MiB/s",
        amount: 256.0,
        tools: &[Tool::Cp],
        target: 0.9,
        bound: READ_BACK,
    },
    // Few enough that all of `make bench` takes less than ten minutes.
    Tree {
        name: "2,000 files of 4 KiB",
        files: 2_000,
        bytes_each: PAGE,
        unit: "files/s",
        amount: 2_000.0,
        tools: &[Tool::Cp, Tool::Rsync],
        target: 1.0,
        bound: SYNCED,
    },
];

const SYNCED: &str =
    "each file is synced and read back before it has its name; the tools sync once, at the end";

/// Where the file itself is handed to the kernel, a copy by `cp` costs what one in the folder does.
const READ_BACK: &str = "all is read back and compared, and every byte passes a socket of the storage node each time; cp \
                         writes into a file of the node's own file system, and nothing is compared";

/// What a worker may take of its node's memory.
const MEMORY_WANTED: f64 = 256.0 * MEBIBYTE as f64;

/// The two trees, in and out, on each medium: with one node, and on the medium without a disk with four.
pub fn measure(effort: Effort) -> Result<Vec<Measurement>> {
    // One pair of a tree of small files takes as long as five of anything else.
    let effort = Effort { pairs: effort.pairs.min(3) };
    let mut lines = Vec::new();
    for medium in media() {
        let counts: &[u32] = if medium.name == "memory" { &[1, 4] } else { &[1] };
        for nodes in counts {
            lines.extend(on(medium, *nodes, effort)?);
        }
    }
    Ok(lines)
}

/// A mounted buffer. What workers make in it is looked at and removed through a second mount: the first takes it that
/// nobody else makes anything.
struct Site {
    buffer: Buffer,
    second: MountProcess,
    source: PathBuf,
}

fn on(medium: Medium, nodes: u32, effort: Effort) -> Result<Vec<Measurement>> {
    let buffer = Buffer::mount(medium, nodes, Volume::Default)?;
    let second = namespace::mount_shared(&buffer, 1, Coherence::Posix)?.remove(0);
    let site = Site { source: buffer.folder_beside("source"), buffer, second };
    let mut lines = Vec::new();
    for tree in &TREES {
        staging::make_tree(&site.source, tree.files, tree.bytes_each)?;
        Tool::Cp.copy(&site.source, &site.staged())?;
        for direction in [Direction::In, Direction::Out] {
            lines.extend(compare(&site, direction, tree, effort)?);
        }
        fs::remove_dir_all(site.staged())?;
        fs::remove_dir_all(&site.source)?;
    }
    let Site { buffer, second, .. } = site;
    drop(second);
    buffer.unmount()?;
    Ok(lines)
}

fn compare(site: &Site, direction: Direction, tree: &Tree, effort: Effort) -> Result<Vec<Measurement>> {
    let way = if direction == Direction::In { "stage-in" } else { "stage-out" };
    let case = format!("{way} of {}, {}", tree.name, site.buffer.name());
    let mut lines = Vec::new();
    let mut peaks = Vec::new();
    for tool in tree.tools {
        let ours = || {
            let run = site.stage(direction)?;
            peaks.push((run.peak_bytes, MEMORY_WANTED));
            Ok(tree.amount / run.seconds)
        };
        let theirs = || Ok(tree.amount / site.copy(direction, *tool)?);
        let pairs = alternate(effort.pairs, ours, theirs)?;
        let line = Line::new(case.clone(), tree.unit, tool.name(), tree.target);
        lines.push(line.bounded_by(tree.bound).of(&pairs));
    }
    lines.push(
        Line::new(format!("memory of its worker, {case}"), "B", "what it may take", 1.0).of_costs(&peaks),
    );
    Ok(lines)
}

impl Site {
    /// The folder in the buffer that is copied out.
    fn staged(&self) -> PathBuf {
        self.buffer.mountpoint().join("staged")
    }

    fn stage(&self, direction: Direction) -> Result<Run> {
        let (target, beside) = (namespace::target(&self.buffer)?, self.buffer.folder_beside("work"));
        let (pfs, name, made) = match direction {
            Direction::In => (self.source.clone(), "in", self.second.mountpoint().join("in")),
            Direction::Out => {
                let out = self.buffer.folder_beside("results").join("out");
                (out.clone(), "staged", out)
            }
        };
        let run = staging::stage(&target, direction, &pfs, name, &beside)?;
        fs::remove_dir_all(made)?;
        Ok(run)
    }

    fn copy(&self, direction: Direction, tool: Tool) -> Result<f64> {
        let (from, to) = match direction {
            Direction::In => (self.source.clone(), self.buffer.mountpoint().join("copy")),
            Direction::Out => (self.staged(), self.buffer.folder_beside("results").join("copy")),
        };
        let seconds = tool.copy(&from, &to)?;
        fs::remove_dir_all(to)?;
        Ok(seconds)
    }
}
