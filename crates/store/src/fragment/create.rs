//! What a fragment has on disk before anybody is told of it.
//!
//! A new fragment is made below another name and gets its own in one step, when all of it is durable. Namespaces that
//! are added later are made before the specification names them.
//!
//! **Invariant:** nothing is made where something is: no volume, no log and no objects are ever made anew.

use std::path::Path;

use wire::control::VolumeKind;
use wire::node::{FragmentSpec, Missing, NamespaceSpec};

use super::due::{self, Due};
use super::folders::{self, home_of, mirror_of, objects_of};
use super::{FragmentError, specification, volume};
use crate::mirror::meetings;
use crate::replica;
use crate::shard::Shard;

/// Makes the fragment `spec` in `folder`, where nothing is, or an empty folder. All but its name is durable then.
///
/// # Errors
/// [`FragmentError`]. What was begun is below the name [`disk::making`], for [`remove`]; whatever is at `folder` is not
/// ours.
pub fn fragment(folder: &Path, spec: &FragmentSpec) -> Result<(), FragmentError> {
    let (making, due) = (disk::making(folder), Due::of(spec.missing));
    remove(&making)?;
    disk::make_folder(&making).map_err(|cause| FragmentError::io("create", &making, cause))?;
    if spec.volume == VolumeKind::Image {
        volume::create(&making, spec.disk_bytes())?;
    }
    let spec = &as_kept(spec);
    for namespace in &spec.namespaces {
        match due {
            None => self::namespace(&making, spec, namespace)?,
            // Its log is taken from the copy when it is opened.
            Some(_) => objects(&making, spec, namespace)?,
        }
    }
    if let Some(due) = due {
        due::note(&making, due)
            .map_err(|cause| FragmentError::io("note the restoration of", folder, cause))?;
    }
    specification::write(&making, spec)?;
    disk::publish(folder).map_err(|cause| FragmentError::io("name the finished fragment", folder, cause))
}

/// The specification of a fragment that is there.
pub fn as_kept(spec: &FragmentSpec) -> FragmentSpec {
    FragmentSpec { missing: Missing::Refused, ..spec.clone() }
}

/// Makes a namespace in the fragment below `folder`, durably. One that an earlier call made, and that no specification
/// named yet, is taken as it is: it is new.
///
/// # Errors
/// [`FragmentError`].
pub fn namespace(folder: &Path, spec: &FragmentSpec, namespace: &NamespaceSpec) -> Result<(), FragmentError> {
    objects(folder, spec, namespace)?;
    if namespace.home != spec.index {
        return Ok(());
    }
    let home = home_of(folder, namespace.id);
    folders::make(&home)?;
    Ok(Shard::begin(&home, namespace)?)
}

/// Makes the folders for its objects.
fn objects(folder: &Path, spec: &FragmentSpec, namespace: &NamespaceSpec) -> Result<(), FragmentError> {
    folders::make(&objects_of(folder, spec.volume, namespace.id))?;
    if spec.behaviour.mirrored {
        folders::make(&mirror_of(folder, spec.volume, namespace.id))?;
        replica::create(folder, namespace.id)
            .and_then(|()| meetings::create(&meetings::path_of(folder, namespace.id)))
            .map_err(|cause| FragmentError::io("make the note of the mirror in", folder, cause))?;
    }
    Ok(())
}

/// Removes a fragment's folder that is not in use, with its volume. Nothing to do where there is none.
///
/// # Errors
/// Something is still there: repeat it.
pub fn remove(folder: &Path) -> Result<(), FragmentError> {
    volume::remove(folder)?;
    disk::discard(folder).map_err(|cause| FragmentError::io("remove", folder, cause))
}
