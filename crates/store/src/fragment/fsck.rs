//! One fragment's part of scrubs and of the comparison of metadata with objects, as the node is asked for them.

use std::collections::BTreeSet;
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use model::stripe::Layout;
use model::{FragmentIndex, Ino, NodeName};
use rustix::io::Errno;
use wire::node::{
    Damage, FsckReport, FsckSpec, Orphan, PartFiles, PartTrouble, ScrubSpec, ScrubStatus, Stray,
};

use super::{Fragment, NamespacePart};
use crate::errno::errno_of;
use crate::objects::Objects;
use crate::scrub;
use crate::shard::Shard;

/// So many files of a part are named.
const FILES_MAX: usize = 1000;

/// Starts a scrub of all namespaces, or only tells how it stands: of its own objects, and of those that it keeps for
/// another fragment.
pub fn scrub(fragment: &Fragment, spec: Option<ScrubSpec>) -> ScrubStatus {
    let mut sum = ScrubStatus::sum();
    let (own, count) = (fragment.spec().index, fragment.spec().peers.len().max(1) as u32);
    for (id, NamespacePart { objects, replica, layout, .. }) in fragment.all_namespaces() {
        sum.add(scrub_part(fragment, spec, &objects, (id, layout, own)));
        if let Some(replica) = replica {
            let of = own.further(count - 1, count);
            let one = scrub_part(fragment, spec, replica.objects(), (id, layout, of));
            let mirrored =
                |damage: Damage| Damage { what: format!("{} (in the mirror)", damage.what), ..damage };
            let damaged = one.damaged.into_iter().map(mirrored).collect();
            let unverified = one.unverified.into_iter().map(mirrored).collect();
            sum.add(ScrubStatus { damaged, unverified, ..one });
        }
    }
    sum
}

fn scrub_part(
    fragment: &Fragment,
    spec: Option<ScrubSpec>,
    objects: &Arc<Objects>,
    (id, layout, part): (u32, Layout, FragmentIndex),
) -> ScrubStatus {
    // Whoever asks wants to know now: also what was written just before.
    let one = match spec {
        Some(spec) => {
            let rate = spec.bytes_per_s.unwrap_or(scrub::ASKED_BYTES_PER_S);
            scrub::start(objects, id, Some(rate), Duration::ZERO)
        }
        None => scrub::status(objects, id),
    };
    let all =
        |found: Vec<Damage>| found.into_iter().map(|one| located(one, fragment, layout, part)).collect();
    let (damaged, unverified) = (all(one.damaged), all(one.unverified));
    ScrubStatus { damaged, unverified, ..one }
}

/// Takes the objects here whose seals were lost as they are. How many.
fn accept(namespace: &NamespacePart) -> io::Result<u64> {
    namespace.objects.accept_failures();
    let kept = namespace.replica.iter().map(|replica| replica.objects().keeper());
    kept.chain([namespace.objects.keeper()]).map(|keeper| keeper.unverified.accept()).sum()
}

/// Damage of an object of the fragment `part` with its place in the file, and the node.
fn located(damage: Damage, fragment: &Fragment, layout: Layout, part: FragmentIndex) -> Damage {
    let Range { start: file_start, end: file_end } =
        layout.file_range(damage.ino, part, damage.start..damage.end);
    Damage { file_start, file_end, part, node: own_name(fragment), ..damage }
}

/// The name of this node, as the instance's others know it.
fn own_name(fragment: &Fragment) -> NodeName {
    let spec = fragment.spec();
    spec.peers.get(spec.index.place()).map_or_else(NodeName::default, |own| own.node.clone())
}

/// The paths of (namespace, inode) whose namespaces have their home here.
pub fn paths(fragment: &Fragment, inos: &[(u32, Ino)]) -> Vec<Option<String>> {
    let mut paths = vec![None; inos.len()];
    for (id, NamespacePart { shard, .. }) in fragment.all_namespaces() {
        let Some(shard) = shard else { continue };
        let (places, own): (Vec<usize>, Vec<Ino>) = inos
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

/// Files of the namespaces that have their home here which should have data in the fragment `index`; where that is this
/// one, those that have lost some.
pub fn files_on(fragment: &Fragment, index: FragmentIndex) -> PartFiles {
    let mut found = PartFiles::default();
    for (_, NamespacePart { shard, objects, .. }) in fragment.all_namespaces() {
        let Some(shard) = shard else { continue };
        let mut lost = (index == fragment.spec().index).then(|| objects.lost(usize::MAX));
        let mut after = Ino(0);
        loop {
            let inos = match &mut lost {
                Some(lost) => std::mem::take(lost),
                None => shard.meant(index, after).into_iter().map(|(ino, _)| ino).collect(),
            };
            let Some(last) = inos.last() else { break };
            after = *last;
            let room = FILES_MAX.saturating_sub(found.files.len()).min(inos.len());
            found.more += (inos.len() - room) as u64;
            if room > 0 {
                // Those that were removed while they are open have none.
                found.files.extend(shard.paths(&inos[..room]).into_iter().flatten());
            }
        }
    }
    found
}

/// Compares the namespaces that have their home here with the objects of all fragments.
pub fn run(fragment: &Fragment, spec: FsckSpec) -> FsckReport {
    let mut report = FsckReport::default();
    for (id, namespace) in fragment.all_namespaces() {
        if let Err(error) = find_strays(fragment, &namespace, &mut report) {
            let why = format!("its folders of objects cannot be listed: {error}");
            report.unseen.push(unseen(fragment.spec().index, own_name(fragment), why));
        }
        match if spec.repair { accept(&namespace) } else { Ok(0) } {
            Ok(accepted) => report.accepted += accepted,
            Err(error) => {
                let why = format!("what was accepted there cannot be noted: {error}");
                report.unseen.push(unseen(fragment.spec().index, own_name(fragment), why));
            }
        }
        let Some(shard) = &namespace.shard else { continue };
        report.inodes += shard.inodes();
        look_at_losses(fragment, shard, spec, &mut report);
        let spec = FsckSpec { repair: spec.repair && may_remove(fragment, shard, &mut report) };
        for index in shard.peers().all() {
            if let Err(errno) = compare(shard, &namespace, (id, index), spec, &mut report) {
                let why = format!("its objects cannot be listed: {}", io::Error::from(errno));
                report.unseen.push(unseen(index, shard.peers().name(index), why));
            }
        }
    }
    report
}

/// Counts what was lost and nobody was told of, and takes it as it is.
fn look_at_losses(fragment: &Fragment, shard: &Shard, spec: FsckSpec, report: &mut FsckReport) {
    let lost = shard.untold_losses();
    report.lost_writes += lost;
    match if spec.repair { shard.accept_losses() } else { Ok(0) } {
        Ok(taken) => report.lost_writes_taken += taken,
        Err(errno) => {
            let why = format!("that losses were accepted cannot be noted: {}", io::Error::from(errno));
            report.unseen.push(unseen(fragment.spec().index, own_name(fragment), why));
        }
    }
}

/// Whether what no file has may be removed: not by the word of a log that has lost its end.
fn may_remove(fragment: &Fragment, shard: &Shard, report: &mut FsckReport) -> bool {
    let Err((node, error)) = shard.check_log() else { return true };
    let why = format!(
        "nothing that belongs to no file was removed, as the metadata log may lack files that its second copy on node \
         {node} names: {error}"
    );
    let own = own_name(fragment);
    let advice = format!(
        "start node {node}, or repair the network to it; where the log lost its end, start forebay-node on {own} \
         again: the copy takes its place; then repair once more"
    );
    report.unseen.push(PartTrouble { part: fragment.spec().index, node: own, why, advice });
    false
}

fn unseen(part: FragmentIndex, node: NodeName, why: String) -> PartTrouble {
    PartTrouble { part, why, advice: format!("look into the log of forebay-node on {node}"), node }
}

/// Whatever is among the objects here and is none: nobody would ever look at it.
fn find_strays(fragment: &Fragment, namespace: &NamespacePart, report: &mut FsckReport) -> io::Result<()> {
    let kept = namespace.replica.iter().map(|replica| replica.objects());
    for objects in kept.chain([&namespace.objects]) {
        let strays = objects.strays()?.into_iter();
        report.strays.extend(strays.map(|path| Stray { node: own_name(fragment), path }));
    }
    Ok(())
}

fn compare(
    shard: &Shard,
    namespace: &NamespacePart,
    (id, index): (u32, FragmentIndex),
    spec: FsckSpec,
    report: &mut FsckReport,
) -> Result<(), Errno> {
    let mut after = Ino(0);
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
fn page(
    shard: &Shard,
    namespace: &NamespacePart,
    index: FragmentIndex,
    after: Ino,
) -> Result<Vec<(Ino, u64)>, Errno> {
    match shard.peers().is_self(index) {
        true => namespace.objects.page(after).map_err(|error| errno_of(&error)),
        false => shard.peers().objects(index, after),
    }
}

/// Those of the page of objects above `after` that belong to no file.
fn orphans(
    shard: &Shard,
    namespace: &NamespacePart,
    (index, after): (FragmentIndex, Ino),
    found: &[(Ino, u64)],
) -> Result<Vec<(Ino, u64)>, Errno> {
    let inos: Vec<Ino> = found.iter().map(|(ino, _)| *ino).collect();
    // A file is in the metadata before it has an object, and its number is never used again.
    let strangers: BTreeSet<Ino> = shard.strangers(&inos).into_iter().collect();
    if strangers.is_empty() {
        return Ok(Vec::new());
    }
    // The files of some may have been removed since they were listed, and they with them.
    let mut left = page(shard, namespace, index, after)?;
    left.retain(|(ino, _)| strangers.contains(ino));
    Ok(left)
}
