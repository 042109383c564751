//! What a fragment has on disk before anybody is told of it.
//!
//! A new fragment is made below another name and gets its own in one step, when all of it is durable. Namespaces that are
//! added later are made before the specification names them.
//!
//! **Invariant:** nothing is made where something is: no volume, no log and no objects are ever made anew.

use std::path::Path;

use wire::control::VolumeKind;
use wire::node::{FragmentSpec, NamespaceSpec};

use super::metadata::home_of;
use super::{FragmentError, objects_of, specification, volume};
use crate::shard::Shard;

/// Makes the fragment `spec` in `folder`, where nothing is, or an empty folder. All but its name is durable then.
///
/// # Errors
/// [`FragmentError`]. What was begun is below the name [`disk::making`], for [`remove`]; whatever is at `folder` is not ours.
pub fn fragment(folder: &Path, spec: &FragmentSpec) -> Result<(), FragmentError> {
    let making = disk::making(folder);
    remove(&making)?;
    disk::make_folder(&making).map_err(|cause| FragmentError::io("create", &making, cause))?;
    if spec.volume == VolumeKind::Image {
        volume::create(&making, spec.capacity_bytes)?;
    }
    for namespace in &spec.namespaces {
        self::namespace(&making, spec, namespace)?;
    }
    specification::write(&making, spec)?;
    disk::publish(folder).map_err(|cause| FragmentError::io("name the finished fragment", folder, cause))
}

/// Makes a namespace in the fragment below `folder`, durably. One that an earlier call made, and that no specification named
/// yet, is taken as it is: it is new.
///
/// # Errors
/// [`FragmentError`].
pub fn namespace(folder: &Path, spec: &FragmentSpec, namespace: &NamespaceSpec) -> Result<(), FragmentError> {
    make_folders(&objects_of(folder, spec.volume, namespace.id))?;
    if namespace.home != spec.index {
        return Ok(());
    }
    let home = home_of(folder, namespace.id);
    make_folders(&home)?;
    Ok(Shard::begin(&home, namespace)?)
}

/// Removes a fragment's folder that is not in use, with its volume. Nothing to do where there is none.
///
/// # Errors
/// Something is still there: repeat it.
pub fn remove(aside: &Path) -> Result<(), FragmentError> {
    volume::remove(aside)?;
    disk::discard(aside).map_err(|cause| FragmentError::io("remove", aside, cause))
}

/// Makes the folder and the one that it is in.
pub(super) fn make_folders(path: &Path) -> Result<(), FragmentError> {
    let above = path.parent().expect("both are below the fragment's folder");
    for folder in [above, path] {
        disk::make_folder(folder).map_err(|cause| FragmentError::io("create", folder, cause))?;
    }
    Ok(())
}
