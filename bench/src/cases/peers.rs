//! The same work on GlusterFS: four bricks on the media of our four storage nodes, a distributed volume, mounted with
//! FUSE.

use std::fs;
use std::path::Path;

use anyhow::Result;
use model::phase::Coherence;

use super::{Effort, one_mount};
use crate::buffer::{Buffer, Volume, media};
use crate::gluster::Gluster;
use crate::namespace;
use crate::pairs::{alternate, nth};
use crate::report::{Line, Measurement};
use crate::work::{data, names, records, tasks};

const NODES: u32 = 4;
const CLIENTS: usize = 4;

/// What we want of its bandwidth, and of its rates of small things.
const BANDWIDTH: f64 = 2.0;
const SMALL: f64 = 5.0;

/// Each process's; the small files' rates do not depend on it.
const ROUNDS: usize = 2000;

/// Measured by `make bench` beside it.
const BOUND: &str = "4 KiB at random is a FUSE operation and a TCP round trip on both sides, and ours takes no longer than the two \
    by themselves (`4 KiB random read` of the group small-read): what is left to gain is less than the factor; a MiB is \
    bound by the processors that its copies take (the group network)";

/// What [`rates`] measures, in its order.
const CASES: [(&str, &str, Option<f64>); 9] = [
    ("1 MiB sequential write", "MiB/s", Some(BANDWIDTH)),
    // Out of its kernel's page cache. What is written goes past ours, and the first to read it asks the storage nodes.
    ("1 MiB sequential read of what was written here", "MiB/s", None),
    ("1 MiB sequential read", "MiB/s", Some(BANDWIDTH)),
    ("4 KiB random read", "1/s", Some(SMALL)),
    ("4 KiB random write", "1/s", Some(SMALL)),
    ("create", "1/s", Some(SMALL)),
    // Both sides' kernels answer it.
    ("stat", "1/s", None),
    ("unlink", "1/s", Some(SMALL)),
    ("open-write-close, 2 processes", "1/s", Some(SMALL)),
];

/// One client's work, and records of four clients, on each medium.
pub fn measure(effort: Effort) -> Result<Vec<Measurement>> {
    let mut lines = Vec::new();
    for medium in media() {
        let buffer = Buffer::mount(medium, NODES, Volume::Directory)?;
        let folder = buffer.folder_beside("gluster");
        let gluster = Gluster::start(&folder, NODES as usize, CLIENTS)?;
        lines.extend(compare(&buffer, &gluster, effort)?);
        drop(gluster);
        fs::remove_dir_all(folder)?;
        buffer.unmount()?;
    }
    Ok(lines)
}

fn compare(buffer: &Buffer, gluster: &Gluster, effort: Effort) -> Result<Vec<Measurement>> {
    let theirs = gluster.mountpoints();
    let pairs = alternate(effort.pairs, || rates(buffer.mountpoint()), || rates(&theirs[0]))?;
    let mut lines: Vec<Measurement> = CASES
        .into_iter()
        .enumerate()
        .map(|(index, (case, unit, target))| line(buffer, case, unit, target).of(&nth(&pairs, index)))
        .collect();
    let mounts = namespace::mount_shared(buffer, CLIENTS, Coherence::Posix)?;
    let ours: Vec<&Path> = mounts.iter().map(|mount| mount.mountpoint()).collect();
    let theirs: Vec<&Path> = theirs.iter().map(|path| path.as_path()).collect();
    let pairs = alternate(effort.pairs, || records::shared(&ours), || records::shared(&theirs))?;
    lines.push(
        line(buffer, "47,008-byte records into one file, 4 clients", "MiB/s", Some(BANDWIDTH)).of(&pairs),
    );
    lines.extend(one_mount::against_gluster(buffer, gluster, (BANDWIDTH, SMALL), effort)?);
    Ok(lines)
}

fn line(buffer: &Buffer, case: &str, unit: &'static str, target: Option<f64>) -> Line {
    let line = Line::shown(format!("{case}, {}", buffer.name()), unit, "GlusterFS");
    Line { target, ..line }.bounded_by(BOUND)
}

fn rates(folder: &Path) -> Result<Vec<f64>> {
    let path = folder.join("data");
    let mut rates = vec![data::sequential_write(&path)?, data::sequential_read(&path)?];
    data::forget(&path)?;
    rates.push(data::sequential_read(&path)?);
    data::forget(&path)?;
    rates.extend([data::random_read(&path)?, data::random_write(&path)?]);
    fs::remove_file(&path)?;
    rates.extend(names::run(folder)?);
    rates.push(tasks::rounds(folder, ROUNDS)?);
    Ok(rates)
}
