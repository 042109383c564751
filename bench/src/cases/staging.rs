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
    against: &'static str,
    /// What keeps us below the fastest of them.
    bound: &'static str,
    /// The medium itself is the measure too.
    against_device: bool,
    pairs_max: usize,
}

const LARGE: Tree = Tree {
    name: "4 files of 128 MiB",
    files: 4,
    bytes_each: 128 * MEBIBYTE,
    unit: "MiB/s",
    amount: 512.0,
    tools: &USUAL,
    against: FASTEST,
    bound: READ_BACK,
    against_device: true,
    pairs_max: 2,
};

// Few enough that all of `make bench` takes little more than ten minutes.
const SMALL: Tree = Tree {
    name: "2,000 files of 4 KiB",
    files: 2_000,
    bytes_each: PAGE,
    unit: "files/s",
    amount: 2_000.0,
    tools: &USUAL,
    against: FASTEST,
    bound: EACH_CHECKED,
    against_device: false,
    pairs_max: 2,
};

/// On one medium, with one node, and once: with what takes longest to start.
const MANY: Tree = Tree {
    name: "20,000 files of 4 KiB",
    files: 20_000,
    amount: 20_000.0,
    tools: &[Tool::Cp, Tool::Rsync, Tool::Tar, Tool::Parallel, Tool::Fpsync],
    against: "the fastest of cp -a, rsync -a, tar | tar, parallel cp and fpsync, with sync",
    pairs_max: 1,
    ..SMALL
};

const USUAL: [Tool; 4] = [Tool::Cp, Tool::Rsync, Tool::Tar, Tool::Parallel];

const FASTEST: &str = "the fastest of cp -a, rsync -a, tar | tar and parallel cp, with sync";

const DEVICE: &str = "128 MiB written in order with one fsync";

const EACH_CHECKED: &str = "each file is synced, read back and compared before it has its name; the tools sync once, at the \
                            end, and compare nothing";

const READ_BACK: &str = "all is read back and compared; the tools read nothing back. With one node the bytes pass no socket; \
                         with several, each byte passes one each time";

const TWICE: &str = "every byte is read, written and read back, each with its checksum: on two processors that is three \
                     copies and two sums for one copy";

/// What a worker may take of its node's memory.
const MEMORY_WANTED: f64 = 256.0 * MEBIBYTE as f64;

/// The trees, in and out, on each medium: with one node, and on the medium without a disk with four.
pub fn measure(effort: Effort) -> Result<Vec<Measurement>> {
    let mut lines = Vec::new();
    for medium in media() {
        let in_memory = medium.name == "memory";
        let counts: &[u32] = if in_memory { &[1, 4] } else { &[1] };
        for nodes in counts {
            let trees: &[Tree] =
                if in_memory && *nodes == 1 { &[LARGE, SMALL, MANY] } else { &[LARGE, SMALL] };
            lines.extend(on(medium, *nodes, trees, effort)?);
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

fn on(medium: Medium, nodes: u32, trees: &[Tree], effort: Effort) -> Result<Vec<Measurement>> {
    let buffer = Buffer::mount(medium, nodes, Volume::Default)?;
    let second = namespace::mount_shared(&buffer, 1, Coherence::Posix)?.remove(0);
    let site = Site { source: buffer.folder_beside("source"), buffer, second };
    let mut lines = Vec::new();
    for tree in trees {
        staging::make_tree(&site.source, tree.files, tree.bytes_each)?;
        Tool::Cp.copy(&site.source, &site.staged(), &site.buffer.volumes())?;
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
    let mut peaks = Vec::new();
    let mut limits = Vec::new();
    let ours = || {
        let run = site.stage(direction)?;
        peaks.push((run.peak_bytes, MEMORY_WANTED));
        Ok(tree.amount / run.seconds)
    };
    let theirs = || {
        if tree.against_device {
            limits.push(staging::device(&site.kept(direction)[0])?);
        }
        tree.tools
            .iter()
            .try_fold(0.0, |fastest: f64, tool| Ok(fastest.max(tree.amount / site.copy(direction, *tool)?)))
    };
    let pairs = alternate(effort.pairs.min(tree.pairs_max), ours, theirs)?;
    let mut lines =
        vec![Line::new(case.clone(), tree.unit, tree.against, 1.0).bounded_by(tree.bound).of(&pairs)];
    if tree.against_device {
        let pairs: Vec<_> = pairs.iter().zip(&limits).map(|((ours, _), limit)| (*ours, *limit)).collect();
        lines.push(Line::new(case.clone(), tree.unit, DEVICE, 0.9).bounded_by(TWICE).of(&pairs));
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

    /// Folders of the file systems on which what is copied is kept.
    fn kept(&self, direction: Direction) -> Vec<PathBuf> {
        match direction {
            Direction::In => self.buffer.volumes(),
            Direction::Out => vec![self.buffer.folder_beside("results")],
        }
    }

    fn copy(&self, direction: Direction, tool: Tool) -> Result<f64> {
        let kept = self.kept(direction);
        let (from, to) = match direction {
            Direction::In => (self.source.clone(), self.buffer.mountpoint().join("copy")),
            Direction::Out => (self.staged(), kept[0].join("copy")),
        };
        let seconds = tool.copy(&from, &to, &kept)?;
        fs::remove_dir_all(to)?;
        Ok(seconds)
    }
}
