//! What a scrub has found is repaired, listed and logged.
//!
//! **Invariant:** what is listed as damaged is still so after all was done that can be.

use std::io;

use model::Ino;
use wire::node::Damage;

use super::{LISTED_MAX, check, lock};
use crate::integrity::lost;
use crate::integrity::pace::Pace;
use crate::integrity::report::Fault;
use crate::objects::Objects;

/// Repairs from the other copy what it can. What is still wrong, and in how many places it is not any more.
pub(super) fn repair(
    objects: &Objects,
    ino: Ino,
    length: u64,
    found: Vec<Fault>,
    pace: &mut Pace,
) -> io::Result<(Vec<Fault>, u64)> {
    if found.is_empty() || !objects.has_other() {
        return Ok((found, 0));
    }
    if let Err(error) = objects.repair_all(ino, &found, length) {
        tracing::error!(%ino, %error, "a damaged object cannot be repaired");
    }
    let (left, _) = check(objects, ino, pace)?;
    let is_left = |fault: &Fault| {
        let bytes = fault.bytes();
        left.iter().map(Fault::bytes).any(|other| other.start < bytes.end && bytes.start < other.end)
    };
    let repaired: Vec<&Fault> = found.iter().filter(|fault| !is_left(fault)).collect();
    repaired.iter().for_each(|fault| objects.tell_repaired(ino, fault));
    objects.keeper().count_repairs(repaired.len() as u64);
    let count = repaired.len() as u64;
    Ok((left, count))
}

/// Lists what was lost with the fragment whose place this one took, or after its seal was, and was not written anew.
pub(super) fn pass_lost(objects: &Objects, namespace: u32) {
    let keeper = objects.keeper();
    for ino in keeper.lost.all().into_iter().map(|(ino, _)| ino).chain(keeper.unverified.all()) {
        // Of one that cannot be looked at nobody can say that it is there again.
        if !disk::exists(&objects.path(ino)).unwrap_or(false)
            && let Some(was) = keeper.lost_length(ino)
        {
            report(objects, (namespace, ino), lost::shown(was), vec![Fault::Missing { was }]);
        }
    }
}

/// Lists what has no seal, as it cannot be read to make one.
pub(super) fn pass_unsealed(objects: &Objects, namespace: u32) {
    let keeper = objects.keeper();
    for (ino, faults) in keeper.known.all() {
        if keeper.log.get(ino).is_none() && keeper.is_queued(ino) {
            report(objects, (namespace, ino), u64::MAX, faults);
        }
    }
}

/// Objects of which nobody can tell, as their seals were lost.
pub(super) fn unverified(objects: &Objects, namespace: u32) -> Vec<Damage> {
    let told = |ino: Ino| {
        let found = disk::find(&objects.path(ino)).transpose()?;
        let what = match &found {
            // One that cannot be looked at is not passed over.
            Err(error) => format!("were not compared with anything, and cannot be looked at: {error}"),
            Ok(_) if objects.is_taken(ino) => "are being taken from the other node".to_owned(),
            Ok(_) => "were not compared with anything: their checksums were lost".to_owned(),
        };
        let was = || objects.keeper().log.get(ino).map_or(1, |sealed| sealed.seal.length);
        let end = found.map_or_else(|_| was(), |found| found.len());
        Some(Damage { namespace, ino, end, what, ..Damage::default() })
    };
    objects.keeper().unverified.all().into_iter().filter_map(told).collect()
}

/// What is known to be damaged without a scrub.
pub(super) fn known(objects: &Objects, namespace: u32) -> Vec<Damage> {
    let keeper = objects.keeper();
    let of_object = |(ino, faults): (Ino, Vec<Fault>)| {
        let length = keeper.log.get(ino).map_or(u64::MAX, |sealed| sealed.seal.length);
        faults.into_iter().map(move |fault| fault.reported(namespace, ino, length))
    };
    keeper.known.all().into_iter().flat_map(of_object).take(LISTED_MAX).collect()
}

/// Notes what is wrong with an object of this length that was looked at. The log says so once.
pub(super) fn report(objects: &Objects, (namespace, ino): (u32, Ino), length: u64, faults: Vec<Fault>) {
    let is_news = objects.keeper().known.set(ino, faults.clone());
    let mut status = lock(objects);
    status.objects += 1;
    for fault in faults {
        if is_news {
            let path = objects.path(ino);
            let (object, what) = (path.display(), fault.described());
            tracing::error!(namespace, %ino, %object, what, "an object is damaged");
        }
        match status.damaged.len() < LISTED_MAX {
            true => status.damaged.push(fault.reported(namespace, ino, length)),
            false => status.more += 1,
        }
    }
}
