//! One fragment's part of scrubs and of the comparison of metadata with objects, as the node is asked for them.

use std::collections::BTreeSet;
use std::time::Duration;

use rustix::io::Errno;
use wire::node::{FsckReport, FsckSpec, Orphan, PartTrouble, ScrubSpec, ScrubStatus};

use super::scrub;
use crate::fragment::{Fragment, Namespace};
use crate::shard::{Shard, errno_of};

/// Starts a scrub of all namespaces, or only tells how it stands.
pub fn scrub(fragment: &Fragment, spec: Option<ScrubSpec>) -> ScrubStatus {
    let mut sum = ScrubStatus::sum();
    for (id, Namespace { objects, .. }) in fragment.all_namespaces() {
        // Who asks wants to know now: also what was written just before.
        let one = match spec {
            Some(spec) => scrub::start(&objects, id, spec.bytes_per_s, Duration::ZERO),
            None => scrub::status(&objects),
        };
        sum.add(one);
    }
    sum
}

/// The paths of (namespace, inode) whose namespaces have their home here.
pub fn paths(fragment: &Fragment, inos: &[(u32, u64)]) -> Vec<Option<String>> {
    let mut paths = vec![None; inos.len()];
    for (id, Namespace { shard, .. }) in fragment.all_namespaces() {
        let Some(shard) = shard else { continue };
        let (places, own): (Vec<usize>, Vec<u64>) = inos
            .iter()
            .enumerate()
            .filter(|(_, (ns, _))| *ns == id)
            .map(|(place, (_, ino))| (place, *ino))
            .unzip();
        if own.is_empty() {
            continue;
        }
        for (place, path) in places.into_iter().zip(shard.paths(&own)) {
            paths[place] = path;
        }
    }
    paths
}

/// Compares the namespaces that have their home here with the objects of all fragments.
pub fn run(fragment: &Fragment, spec: FsckSpec) -> FsckReport {
    let mut report = FsckReport::default();
    for (id, namespace) in fragment.all_namespaces() {
        let Some(shard) = &namespace.shard else { continue };
        report.inodes += shard.inodes();
        for index in 0..shard.peers().count() {
            if let Err(errno) = compare(shard, &namespace, (id, index), spec, &mut report) {
                let node = shard.peers().name(index).to_owned();
                let why = format!("its objects cannot be listed: {}", std::io::Error::from(errno));
                let advice = "look into the log of that node".to_owned();
                report.unseen.push(PartTrouble { part: index, node, why, advice });
            }
        }
    }
    report
}

fn compare(
    shard: &Shard,
    namespace: &Namespace,
    (id, index): (u32, u32),
    spec: FsckSpec,
    report: &mut FsckReport,
) -> Result<(), Errno> {
    let mut after = 0;
    loop {
        let page = page(shard, namespace, index, after)?;
        let Some((last, _)) = page.last() else { return Ok(()) };
        let from = std::mem::replace(&mut after, *last);
        report.objects += page.len() as u64;
        for (ino, bytes) in orphans(shard, namespace, (index, from), &page)? {
            report.orphans.push(Orphan { namespace: id, ino, fragment: index, bytes });
            if spec.repair {
                match shard.peers().is_self(index) {
                    true => namespace.objects.destroy(ino).map_err(|error| errno_of(&error))?,
                    false => shard.peers().destroy(index, ino)?,
                }
                report.freed += 1;
            }
        }
    }
}

/// Objects of the fragment `index` with numbers above `after`, with their lengths.
fn page(shard: &Shard, namespace: &Namespace, index: u32, after: u64) -> Result<Vec<(u64, u64)>, Errno> {
    match shard.peers().is_self(index) {
        true => namespace.objects.page(after).map_err(|error| errno_of(&error)),
        false => shard.peers().objects(index, after),
    }
}

/// Those of the page of objects above `after` that belong to no file.
fn orphans(
    shard: &Shard,
    namespace: &Namespace,
    (index, after): (u32, u64),
    found: &[(u64, u64)],
) -> Result<Vec<(u64, u64)>, Errno> {
    let inos: Vec<u64> = found.iter().map(|(ino, _)| *ino).collect();
    // A file is in the metadata before it has an object, and its number is never used again.
    let strangers: BTreeSet<u64> = shard.strangers(&inos).into_iter().collect();
    if strangers.is_empty() {
        return Ok(Vec::new());
    }
    // The files of some may have been removed since they were listed, and they with them.
    let mut left = page(shard, namespace, index, after)?;
    left.retain(|(ino, _)| strangers.contains(ino));
    Ok(left)
}
