//! `bench`: how fast a buffer is, as a ratio to the same work on the folder that holds its bytes.
//!
//! It starts the real processes in a folder of its own, mounts a buffer, and does each piece of work on the buffer and on
//! its backing folder in turn, so that whatever else the machine does falls on both. `bench/README.md` says what the
//! numbers mean.

mod report;
mod slurm;
mod target;
mod work;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use clap::Parser;
use tests::cluster::Cluster;

use crate::report::Measurement;
use crate::work::Work;

/// Measure buffers against the folders that hold their bytes.
#[derive(Parser)]
struct Options {
    /// Where to write the results as JSON.
    #[arg(long, default_value = "bench/results.json")]
    out: PathBuf,
    /// Only what Slurm waits for, printed and not written.
    #[arg(long)]
    slurm: bool,
    /// How often each piece of work is done on each side; the median counts.
    #[arg(long, default_value_t = 5)]
    pairs: usize,
}

/// Where state folders go: on the disk, and in memory, where nothing but our own work costs time.
const MEDIA: [(&str, &str); 2] = [("disk", "/var/tmp"), ("memory", "/dev/shm")];

/// One node can hand whole files to the kernel, four must stripe.
const NODE_COUNTS: [u32; 2] = [1, 4];

fn main() -> Result<()> {
    let options = Options::parse();
    ensure!(options.pairs % 2 == 1, "--pairs must be odd, so that there is a median");
    if options.slurm {
        report::print(&slurm::measure(options.pairs)?);
        return Ok(());
    }
    let mut measurements = Vec::new();
    for (medium, folder) in MEDIA {
        if !Path::new(folder).is_dir() {
            report::note(&format!("{folder} is not there: nothing is measured for {medium}"));
            continue;
        }
        for nodes in NODE_COUNTS {
            measurements.extend(measure(medium, Path::new(folder), nodes, options.pairs)?);
        }
    }
    if rustix::process::geteuid().is_root() {
        measurements.extend(slurm::measure(options.pairs)?);
    } else {
        report::note("a Slurm cluster needs root: nothing is measured for Slurm");
    }
    report::print(&measurements);
    report::write(&measurements, &options.out).with_context(|| format!("write {}", options.out.display()))
}

/// Everything about one medium and one number of nodes.
fn measure(medium: &str, folder: &Path, nodes: u32, pairs: usize) -> Result<Vec<Measurement>> {
    let cluster = Cluster::new_in(folder);
    let mounted = cluster.pfs("mnt");
    let mount = mounted.to_str().context("temporary folders have plain names")?;
    let count = nodes.to_string();
    cluster.forebay(&["mount", mount, "--capacity", "2GiB", "--nodes", &count]).expect_success();
    let backing = backing_folder(&cluster)?;
    let mut measurements = Vec::new();
    for group in work::GROUPS {
        let [ours, theirs] = [&mounted, &backing].map(|folder| Work::new(folder, group));
        let mut rates = Vec::new();
        for pair in 0..pairs {
            // Each side goes first equally often: what the first leaves behind, the second must live with.
            rates.push(if pair % 2 == 0 {
                let own = ours.run()?;
                (own, theirs.run()?)
            } else {
                let other = theirs.run()?;
                (ours.run()?, other)
            });
        }
        measurements.extend(report::summarise(medium, nodes, &rates));
    }
    cluster.forebay(&["umount", mount]).expect_success();
    Ok(measurements)
}

/// A folder on the file system that holds the buffer's objects: in the first fragment's volume where there is one, else
/// in the state folder.
fn backing_folder(cluster: &Cluster) -> Result<PathBuf> {
    let fragments = cluster.state.join("nodes/n0/fragments");
    let volume = cluster.mounts().into_iter().find(|point| point.starts_with(&fragments));
    let folder = volume.unwrap_or_else(|| cluster.state.clone()).join("bench-baseline");
    std::fs::create_dir(&folder).with_context(|| format!("create {}", folder.display()))?;
    Ok(folder)
}
