//! `bench`: how fast Forebay is, as ratios to what it cannot be faster than, measured in the same run.
//!
//! It starts the real processes in folders of its own and does each piece of work on a buffer and on its baseline in
//! turn, so that whatever else the machine does falls on both. `bench/README.md` says what the numbers mean.

#![allow(unreachable_pub, reason = "a program: nobody can reach into it")]

mod buffer;
mod cases;
mod cpu;
mod disk_image;
mod gluster;
mod loopback;
mod mount_process;
mod namespace;
mod nodes;
mod pairs;
mod report;
mod slow_pfs;
mod tcp;
mod work;

use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use clap::{Parser, Subcommand};

use crate::cases::{Effort, GROUPS, Group};
use crate::loopback::Sharing;

/// Measure buffers against what bounds them.
#[derive(Parser)]
struct Options {
    /// Where to write the results as JSON
    #[arg(long, default_value = "bench/results.json")]
    out: PathBuf,
    /// How often each piece of work is done on each side; the median counts
    #[arg(long, default_value_t = 5)]
    pairs: usize,
    /// Only these groups of lines [default: all but peers]
    #[arg(long, value_name = "GROUP", num_args = 1.., value_parser = GROUPS.map(|group| group.name))]
    only: Vec<String>,
    /// Compare the programs in this folder with those of today, in the works of all groups or of these
    #[arg(long, value_name = "FOLDER")]
    old: Option<PathBuf>,
    #[command(subcommand)]
    part: Option<Part>,
}

/// What the program is for itself, in processes of their own.
#[derive(Subcommand)]
enum Part {
    #[command(hide = true)]
    Loopback {
        backing: PathBuf,
        mountpoint: PathBuf,
        #[arg(long)]
        shared: bool,
    },
    #[command(hide = true)]
    Task { task: String },
}

fn main() -> Result<()> {
    let options = Options::parse();
    match options.part {
        Some(Part::Loopback { backing, mountpoint, shared }) => {
            let sharing = if shared { Sharing::Shared } else { Sharing::Exclusive };
            loopback::serve(&backing, &mountpoint, sharing)
        }
        Some(Part::Task { task }) => work::tasks::serve(&task),
        None => measure(&options),
    }
}

fn measure(options: &Options) -> Result<()> {
    ensure!(options.pairs % 2 == 1, "--pairs must be odd, so that there is a median");
    let effort = Effort { pairs: options.pairs };
    if let Some(old) = &options.old {
        let measurements = cases::builds::measure(old, &options.only, effort)?;
        report::print(&measurements);
        return report::write(&measurements, &options.out, !options.only.is_empty());
    }
    let wanted = |group: &&Group| match options.only.as_slice() {
        [] => group.by_default,
        only => only.iter().any(|name| name == group.name),
    };
    let mut measurements = Vec::new();
    for Group { name, measure, .. } in GROUPS.iter().filter(wanted) {
        report::note(&format!("measuring: {name}"));
        measurements.extend(measure(effort).with_context(|| format!("measure {name}"))?);
    }
    report::print(&measurements);
    let kept = !options.only.is_empty();
    report::write(&measurements, &options.out, kept)
        .with_context(|| format!("write {}", options.out.display()))
}
