//! Staging in and out, against the tools that a user would copy with through the mount.

use std::fs;
use std::path::PathBuf;

use anyhow::Result;
use model::phase::{Coherence, Direction};
use wire::node::NamespaceTarget;

use super::Effort;
use crate::buffer::{Buffer, Medium, Volume, media};
use crate::disk_image::DiskImage;
use crate::mount_process::MountProcess;
use crate::namespace;
use crate::pairs::alternate;
use crate::report::{self, Line, Measurement};
use crate::work::staging::{self, Run, Stage, Tool};
use crate::work::{MEBIBYTE, PAGE};

/// A tree, and what it is compared with.
#[derive(Clone, Copy)]
struct Tree {
    name: &'static str,
    files: usize,
    bytes_each: usize,
    unit: &'static str,
    /// What is counted in that unit.
    amount: f64,
    /// What is a part of it in which all tools compete.
    trial: (usize, usize),
    tools: &'static [Tool],
    against: &'static str,
    /// What keeps us below the fastest of them.
    bound: &'static str,
    /// The medium itself is the measure too.
    against_device: bool,
}

const LARGE: Tree = Tree {
    name: "4 files of 1 GiB",
    files: 4,
    bytes_each: 1024 * MEBIBYTE,
    unit: "MiB/s",
    amount: 4096.0,
    trial: (4, 128 * MEBIBYTE),
    tools: &USUAL,
    against: FASTEST,
    bound: READ_BACK,
    against_device: true,
};

/// Where bytes take memory.
const LARGE_IN_MEMORY: Tree = Tree {
    name: "4 files of 512 MiB",
    bytes_each: 512 * MEBIBYTE,
    amount: 2048.0,
    trial: (4, 64 * MEBIBYTE),
    ..LARGE
};

const SMALL: Tree = Tree {
    name: "20,000 files of 4 KiB",
    files: 20_000,
    bytes_each: PAGE,
    unit: "files/s",
    amount: 20_000.0,
    trial: (2_000, PAGE),
    tools: &[Tool::Cp, Tool::Rsync, Tool::Tar, Tool::Parallel, Tool::Fpsync],
    against: "the fastest of cp -a, rsync -a, tar | tar, parallel cp and fpsync (in a trial with a tenth), with sync",
    bound: EACH_CHECKED,
    against_device: false,
};

const USUAL: [Tool; 4] = [Tool::Cp, Tool::Rsync, Tool::Tar, Tool::Parallel];

const FASTEST: &str =
    "the fastest of cp -a, rsync -a, tar | tar and parallel cp (in a trial with a part), with sync";

/// How often a tool is tried: the first finds memory and disk that nobody has used for long, and is not the slowest for
/// that.
const TRIALS: usize = 2;

const DEVICE: &str = "as many files written in order, each with one fsync";

const EACH_CHECKED: &str = "each file is synced, read back and compared before it has its name; the tools sync once, at the \
                            end, and compare nothing";

const READ_BACK: &str = "an eighth is read back and compared; the tools read nothing back, and the mount keeps for them in the page \
                         cache what it has seen";

const TWICE: &str = "every byte is read, summed and written, and an eighth of them read back, on the two processors that the medium \
                     needs too";

/// What a storage node may take for stages, its service included.
const MEMORY_WANTED: f64 = 256.0 * MEBIBYTE as f64;

/// What the parallel file system of the disk may hold.
const PFS_BYTES: u64 = 16 << 30;

/// The trees, in and out, on each medium, with one node and with four.
pub fn measure(effort: Effort) -> Result<Vec<Measurement>> {
    let mut lines = Vec::new();
    for medium in media() {
        let in_memory = medium.name == "memory";
        let large = if in_memory { LARGE_IN_MEMORY } else { LARGE };
        for nodes in [1, 4] {
            lines.extend(on(medium, nodes, &[large, SMALL], effort)?);
        }
    }
    Ok(lines)
}

/// A mounted buffer and a parallel file system. What workers make in the buffer is looked at and removed through a
/// second mount: the first takes it that nobody else makes anything.
struct Site {
    // Before what is mounted in its folder.
    second: MountProcess,
    target: NamespaceTarget,
    pfs: PathBuf,
    disk: Option<DiskImage>,
    buffer: Buffer,
}

impl Site {
    fn new(medium: Medium, nodes: u32) -> Result<Site> {
        let in_memory = medium.name == "memory";
        let capacity = if in_memory { "6GiB" } else { "12GiB" };
        let buffer = Buffer::mount_of(medium, nodes, Volume::Default, capacity)?;
        let second = namespace::mount_shared(&buffer, 1, Coherence::Posix)?.remove(0);
        let pfs = buffer.folder_beside("pfs");
        // Whoever is not root has the disk as it is.
        let own_disk = !in_memory && rustix::process::geteuid().is_root();
        let disk = if own_disk { Some(DiskImage::mount(&pfs, PFS_BYTES)?) } else { None };
        let target = namespace::target(&buffer)?;
        Ok(Site { second, target, pfs, disk, buffer })
    }

    fn end(self) -> Result<()> {
        let Site { second, disk, buffer, .. } = self;
        drop(second);
        drop(disk);
        buffer.unmount()
    }

    /// The folders in the buffer and on the parallel file system from which a tree is copied.
    fn sources(&self, tree: &str) -> (PathBuf, PathBuf) {
        (self.buffer.mountpoint().join(tree), self.pfs.join(tree))
    }

    fn make(&self, tree: &str, files: usize, bytes_each: usize) -> Result<()> {
        let (staged, source) = self.sources(tree);
        staging::make_tree(&source, files, bytes_each)?;
        Tool::Cp.copy(&source, &staged, &self.buffer.volumes())?;
        // Or whoever syncs first writes back what was made.
        staging::sync(std::slice::from_ref(&self.pfs))
    }

    fn remove(&self, tree: &str) -> Result<()> {
        let (staged, source) = self.sources(tree);
        fs::remove_dir_all(staged)?;
        Ok(fs::remove_dir_all(source)?)
    }

    /// Stages a tree; it is not there any more afterwards.
    fn stage(&self, direction: Direction, tree: &str) -> Result<Run> {
        let (pfs, buffer) = match direction {
            Direction::In => (self.pfs.join(tree), "in"),
            Direction::Out => (self.pfs.join("out"), tree),
        };
        let wanted = Stage { target: &self.target, direction, pfs: &pfs, buffer };
        let nodes = self.buffer.cluster().state.join("nodes");
        let run = staging::stage(&wanted, &nodes, &self.buffer.folder_beside("work"))?;
        fs::remove_dir_all(match direction {
            Direction::In => self.second.mountpoint().join("in"),
            Direction::Out => pfs,
        })?;
        Ok(run)
    }

    /// Folders of the file systems on which what is copied is kept.
    fn kept(&self, direction: Direction) -> Vec<PathBuf> {
        match direction {
            Direction::In => self.buffer.volumes(),
            Direction::Out => vec![self.pfs.clone()],
        }
    }

    /// Seconds that a tool takes.
    fn copy(&self, direction: Direction, tool: Tool, tree: &str) -> Result<f64> {
        let (staged, source) = self.sources(tree);
        let (from, to) = match direction {
            Direction::In => (source, self.buffer.mountpoint().join("copy")),
            Direction::Out => (staged, self.pfs.join("copy")),
        };
        let seconds = tool.copy(&from, &to, &self.kept(direction))?;
        fs::remove_dir_all(to)?;
        Ok(seconds)
    }

    /// The tool that copies the trial's tree fastest.
    fn fastest(&self, direction: Direction, tools: &[Tool]) -> Result<Tool> {
        let mut fastest = (f64::INFINITY, Tool::Cp);
        for tool in (0..TRIALS).flat_map(|_| tools) {
            let seconds = self.copy(direction, *tool, TRIAL)?;
            if seconds < fastest.0 {
                fastest = (seconds, *tool);
            }
        }
        Ok(fastest.1)
    }
}

const WHOLE: &str = "staged";
const TRIAL: &str = "trial";

fn on(medium: Medium, nodes: u32, trees: &[Tree], effort: Effort) -> Result<Vec<Measurement>> {
    let site = Site::new(medium, nodes)?;
    let mut lines = Vec::new();
    for tree in trees {
        site.make(WHOLE, tree.files, tree.bytes_each)?;
        site.make(TRIAL, tree.trial.0, tree.trial.1)?;
        for direction in [Direction::In, Direction::Out] {
            // Small files take long, and are far from their bound: once is enough.
            let pairs = if tree.against_device { effort.pairs } else { 1 };
            lines.extend(compare(&site, direction, tree, pairs)?);
        }
        site.remove(WHOLE)?;
        site.remove(TRIAL)?;
    }
    site.end()?;
    Ok(lines)
}

fn compare(site: &Site, direction: Direction, tree: &Tree, pairs: usize) -> Result<Vec<Measurement>> {
    let way = if direction == Direction::In { "stage-in" } else { "stage-out" };
    let case = format!("{way} of {}, {}", tree.name, site.buffer.name());
    let tool = site.fastest(direction, tree.tools)?;
    let (mut peaks, mut limits) = (Vec::new(), Vec::new());
    let device = || staging::device(&site.kept(direction), tree.files, tree.bytes_each);
    if tree.against_device {
        // A virtual machine gives memory and disk back that nobody uses, and who asks for it first waits for it.
        device()?;
    }
    let ours = || {
        if tree.against_device {
            limits.push(tree.amount / device()?);
        }
        let run = site.stage(direction, WHOLE)?;
        peaks.push((run.peak_bytes, MEMORY_WANTED));
        Ok(tree.amount / run.seconds)
    };
    let theirs = || Ok(tree.amount / site.copy(direction, tool, WHOLE)?);
    let pairs = alternate(pairs, ours, theirs)?;
    report::note(&format!("{case}: the fastest tool is {}", tool.name()));
    let mut lines =
        vec![Line::new(case.clone(), tree.unit, tree.against, 1.0).bounded_by(tree.bound).of(&pairs)];
    if tree.against_device {
        let pairs: Vec<_> = pairs.iter().zip(&limits).map(|((ours, _), limit)| (*ours, *limit)).collect();
        lines.push(Line::new(case.clone(), tree.unit, DEVICE, 0.9).bounded_by(TWICE).of(&pairs));
    }
    lines.push(Line::new(format!("memory of a node, {case}"), "B", "what it may take", 1.0).of_costs(&peaks));
    Ok(lines)
}
