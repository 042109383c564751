//! Where what a fragment has is on disk.

use std::path::{Path, PathBuf};

use wire::control::VolumeKind;

use super::{FragmentError, volume};

/// Where the bytes of the fragment in `folder` are: what is lost with one of their file systems is lost to the
/// fragment.
pub(crate) fn places(folder: &Path, volume: VolumeKind) -> Vec<PathBuf> {
    match volume {
        VolumeKind::Directory => vec![folder.to_owned()],
        VolumeKind::Image => vec![volume::mountpoint_of(folder), folder.to_owned()],
    }
}

/// What is wrong with one of their file systems, if anything: one that has failed answers nothing any more.
pub(super) fn failed(folder: &Path, volume: VolumeKind) -> Option<String> {
    let mut failures = places(folder, volume).into_iter().filter_map(|place| {
        let error = std::fs::metadata(&place).err()?;
        Some(format!("the file system at {} has failed: {error}", place.display()))
    });
    failures.next()
}

/// Where a namespace's objects are in the fragment below `folder`.
pub(crate) fn objects_of(folder: &Path, volume: VolumeKind, namespace: u32) -> PathBuf {
    let objects = match volume {
        VolumeKind::Directory => folder.join("objects"),
        VolumeKind::Image => volume::mountpoint_of(folder).join("objects"),
    };
    objects.join(namespace.to_string())
}

/// Where the mirror of another fragment's objects is in the fragment below `folder`.
pub fn mirror_of(folder: &Path, volume: VolumeKind, namespace: u32) -> PathBuf {
    let mirror = match volume {
        VolumeKind::Directory => folder.join("mirror"),
        VolumeKind::Image => volume::mountpoint_of(folder).join("mirror"),
    };
    mirror.join(namespace.to_string())
}

/// Where the metadata of a namespace is that has its home in the fragment below `folder`.
pub fn home_of(folder: &Path, namespace: u32) -> PathBuf {
    folder.join("namespaces").join(namespace.to_string())
}

/// Makes one of these folders and the one that it is in.
///
/// # Errors
/// [`FragmentError::Io`].
pub(crate) fn make(path: &Path) -> Result<(), FragmentError> {
    let above = path.parent().expect("it is below the fragment's folder");
    for folder in [above, path] {
        disk::make_folder(folder).map_err(|cause| FragmentError::io("create", folder, cause))?;
    }
    Ok(())
}
