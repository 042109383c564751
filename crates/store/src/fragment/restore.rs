//! A fragment that takes the place of one that is lost: its objects are what the mirror of the lost one has. Which
//! objects are lost is noted, as the mirror's seals and the metadata have it ([`crate::integrity::lost`]).
//!
//! **Invariant:** nobody is served by a fragment that is not whole yet, and no object is taken from a mirror that lacks
//! something that it has not noted.

mod taking;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use model::Ino;
use rustix::io::Errno;
use wire::control::VolumeKind;
use wire::data::hello::Key;
use wire::data::message::UNKNOWN_BYTES;
use wire::node::{FragmentSpec, NamespaceSpec};

use self::taking::Taking;
use super::due::{self, Due};
use super::folders::{objects_of, places};
use super::{Fragment, volume};
use crate::alone;
use crate::doubt::SILENT_MAX;
use crate::integrity::{log, lost};
use crate::link::Place;
use crate::log_folder::DiskFolder;
use crate::mirror::meetings::{self, Meetings, Order};
use crate::mirror::restore_error::RestoreError;
use crate::objects::Objects;
use crate::objects::space::Space;
use crate::peers::Peers;
use crate::terms::Terms;
use crate::verifier::{Verifier, sync_file_system};

/// What is due where what the fragment `spec` below `folder` has of its objects is older than the mirror, which then is
/// noted to take its place; `None` where it is not older. The mirror's node is asked, which may be starting, too.
///
/// # Errors
/// [`RestoreError::Away`]; [`RestoreError::Older`] where it has, or may have, what the mirror lacks.
pub fn look(folder: &Path, spec: &FragmentSpec, terms: &Arc<Terms>) -> Result<Option<Due>, RestoreError> {
    let mut is_older = false;
    for namespace in spec.namespaces.iter().filter(|_| spec.behaviour.mirrored) {
        let key = Key::from_hex(&spec.key);
        let Some(place) = key.and_then(|key| Place::of(spec, namespace.id, key, terms)) else { continue };
        let away = |cause| RestoreError::Away { node: place.node(), cause };
        let mut link = place.reach(SILENT_MAX).map_err(|error| away(io::Error::other(error)))?;
        let heard = link.meeting().map_err(away)?;
        let here = |cause| RestoreError::Here { node: place.node(), cause };
        let path = meetings::path_of(folder, namespace.id);
        match meetings::compare(meetings::read(&path).map_err(here)?, heard) {
            Order::Same | Order::MirrorOlder => {}
            Order::Older if !is_alone(&path).map_err(here)? => is_older = true,
            Order::Older | Order::Unknown => return Err(RestoreError::Older { node: place.node() }),
        }
    }
    if !is_older {
        return Ok(None);
    }
    tracing::error!(
        folder = %folder.display(),
        "this part of a buffer is older than its mirror, as if an old copy of its folder had been put back: it is \
         filled from the mirror"
    );
    due::note(folder, Due::Everything).map_err(here)?;
    Ok(Some(Due::Everything))
}

/// Whether it is noted beside the meetings at `path` that the mirror lacks something.
fn is_alone(path: &Path) -> io::Result<bool> {
    disk::if_there(notes_beside(path))?.map_or(Ok(false), |folder| alone::is_alone(&folder))
}

/// Notes that there durably.
fn note_alone(path: &Path) -> io::Result<()> {
    alone::note_alone(&notes_beside(path)?, true)
}

fn notes_beside(path: &Path) -> io::Result<DiskFolder> {
    DiskFolder::open(path.parent().ok_or(io::ErrorKind::NotFound)?)
}

/// Takes what is `due` of the objects of the fragment `spec` below `folder`, which is not served, from the mirror of
/// the one whose place it takes, and notes which are lost; where nothing is taken not those of namespaces that have
/// their homes here ([`note_own_lost`]).
///
/// # Errors
/// [`RestoreError`]; it can be done again.
pub fn run(folder: &Path, due: Due, spec: &FragmentSpec, terms: &Arc<Terms>) -> Result<(), RestoreError> {
    if due.loses_objects(spec.behaviour.mirrored) {
        return note_lost(folder, spec, terms);
    }
    for (namespace, place) in mirrors(spec, terms) {
        check_not_alone(folder, namespace.id, &place)?;
        let mut taking = Taking::begin(&place)?;
        let meant = meant_elsewhere(spec, namespace, terms)?;
        let meant = (namespace.home != spec.index).then_some(&*meant);
        let here = |cause| RestoreError::Here { node: place.node(), cause };
        Meetings::up_to(taking.meeting).begin_note(&meetings::path_of(folder, namespace.id)).map_err(here)?;
        let objects = open(folder, spec, namespace, taking.verifier).map_err(here)?;
        let lost = taking.all(&objects, (&namespace.layout, meant))?;
        lost::note(&lost_of(folder, spec, namespace.id), &lost).map_err(here)?;
    }
    finish(folder, spec).map_err(here)
}

/// Nothing of what a fragment has confirmed without its mirror gives its place to what that has.
fn check_not_alone(folder: &Path, namespace: u32, place: &Place) -> Result<(), RestoreError> {
    let here = |cause| RestoreError::Here { node: place.node(), cause };
    match is_alone(&meetings::path_of(folder, namespace)).map_err(here)? {
        true => Err(RestoreError::Alone { node: place.node(), note: due::note_of(folder) }),
        false => Ok(()),
    }
}

/// The namespaces, with where their mirrors are.
fn mirrors<'a>(
    spec: &'a FragmentSpec,
    terms: &'a Arc<Terms>,
) -> impl Iterator<Item = (&'a NamespaceSpec, Place)> {
    spec.namespaces.iter().filter_map(|namespace| {
        let key = Key::from_hex(&spec.key)?;
        Some((namespace, Place::of_mirror(spec, namespace.id, key, terms)?))
    })
}

/// Notes which objects are lost of the namespaces that have their homes elsewhere, where none is taken from a mirror;
/// and of the mirrors that they may lack something: nothing is taken from them later, either.
fn note_lost(folder: &Path, spec: &FragmentSpec, terms: &Arc<Terms>) -> Result<(), RestoreError> {
    for (namespace, place) in mirrors(spec, terms) {
        let mut found = Taking::find(&place)?;
        // Until the metadata is here, which says of what else there was something.
        let had: Vec<(Ino, u64)> = found.list()?.into_iter().map(|ino| (ino, UNKNOWN_BYTES)).collect();
        let path = meetings::path_of(folder, namespace.id);
        let noted = Meetings::up_to(found.meeting)
            .begin_note(&path)
            .and_then(|()| note_alone(&path))
            .and_then(|()| lost::note(&lost_of(folder, spec, namespace.id), &had));
        noted.map_err(|cause| RestoreError::Here { node: place.node(), cause })?;
    }
    for namespace in spec.namespaces.iter().filter(|namespace| namespace.home != spec.index) {
        let meant = meant_elsewhere(spec, namespace, terms)?;
        lost::note(&lost_of(folder, spec, namespace.id), &meant).map_err(here)?;
    }
    Ok(())
}

/// The objects that the fragment should have, as a home on another node says.
fn meant_elsewhere(
    spec: &FragmentSpec,
    namespace: &NamespaceSpec,
    terms: &Arc<Terms>,
) -> Result<Vec<(Ino, u64)>, RestoreError> {
    let key = Key::from_hex(&spec.key).filter(|_| namespace.home != spec.index);
    let Some(key) = key else { return Ok(Vec::new()) };
    let peers = Peers::new(spec, namespace.id, key, terms);
    let away =
        |errno: Errno| RestoreError::HomeAway { node: peers.name(namespace.home), cause: errno.into() };
    all(|after| peers.meant(namespace.home, after)).map_err(away)
}

/// The same for those that have their home in this fragment, which is open and not served. Nothing is to be restored
/// then. It must be opened again.
///
/// Where the home was lost, nobody knows who was writing. Where it `had_mirror`, a file has lost something if that has
/// anything of it, or what other nodes have of it says so: beyond that its length alone may be what it was before.
///
/// # Errors
/// [`RestoreError::Itself`].
pub fn note_own_lost(folder: &Path, fragment: &Fragment, had_mirror: bool) -> Result<(), RestoreError> {
    let spec = fragment.spec();
    for (id, namespace) in fragment.all_namespaces() {
        let Some(shard) = namespace.shard else { continue };
        let meant = all(|after| Ok::<_, Errno>(shard.meant(spec.index, after)));
        let mut meant = meant.map_err(|errno| here(errno.into()))?;
        if had_mirror {
            let had = &namespace.objects.keeper().lost;
            meant.retain(|(ino, length)| {
                *length != UNKNOWN_BYTES
                    || had.length(*ino).is_some()
                    || shard.is_meant_by_others(spec.index, *ino)
            });
        }
        lost::note(&lost_of(folder, spec, id), &meant).map_err(here)?;
    }
    finish(folder, spec).map_err(here)
}

/// All pages.
fn all<E>(mut page: impl FnMut(Ino) -> Result<Vec<(Ino, u64)>, E>) -> Result<Vec<(Ino, u64)>, E> {
    let mut all: Vec<(Ino, u64)> = Vec::new();
    loop {
        let more = page(all.last().map_or(Ino(0), |(ino, _)| *ino))?;
        if more.is_empty() {
            return Ok(all);
        }
        all.extend(more);
    }
}

fn here(cause: io::Error) -> RestoreError {
    RestoreError::Itself { cause }
}

/// Where it is noted which of a namespace's objects are lost.
fn lost_of(folder: &Path, spec: &FragmentSpec, namespace: u32) -> PathBuf {
    lost::path_of(&log::Place::of(folder, spec, namespace).path)
}

/// The objects, before anybody is served. The fragment goes on with the verifier of the lost one where nothing of what
/// was answered is lost with it.
fn open(
    folder: &Path,
    spec: &FragmentSpec,
    namespace: &NamespaceSpec,
    verifier: Option<u64>,
) -> io::Result<Objects> {
    if spec.volume == VolumeKind::Image {
        volume::open(folder, spec.disk_bytes()).map_err(io::Error::other)?;
    }
    match verifier {
        Some(number) => Verifier::go_on_with(folder, number)?,
        // Nobody goes on with one that an older copy of the lost fragment has, or an earlier try.
        None => Verifier::forget(folder)?,
    }
    let verifier = Arc::new(Verifier::open(folder, &places(folder, spec.volume))?);
    let seals = log::Place::of(folder, spec, namespace.id);
    let root = objects_of(folder, spec.volume, namespace.id);
    // The capacity was kept when they were written.
    Objects::open(root, seals, Arc::new(Space::counted(u64::MAX)), verifier)
}

fn finish(folder: &Path, spec: &FragmentSpec) -> io::Result<()> {
    if spec.volume == VolumeKind::Image {
        sync_file_system(&volume::mountpoint_of(folder))?;
    }
    sync_file_system(folder)?;
    due::done(folder)
}
