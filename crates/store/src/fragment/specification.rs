//! The specification of a fragment on disk, `spec.json`: what control asked for. It says what must be there at a start.
//!
//! **Invariant:** it is written when all that it names is durable, and replaced as a whole. One that cannot be read or
//! understood is an error, never "there is none".

use std::path::{Path, PathBuf};

use wire::node::FragmentSpec;

use super::FragmentError;

/// Where the specification of the fragment below `folder` is.
pub fn path_of(folder: &Path) -> PathBuf {
    folder.join("spec.json")
}

/// The specification of the fragment below `folder`, whose instance is the folder's name. `None`: the folder is empty
/// or not there.
///
/// # Errors
/// It cannot be read, is damaged or of another instance, or is missing although there are other files.
pub fn read(folder: &Path) -> Result<Option<FragmentSpec>, FragmentError> {
    let path = path_of(folder);
    let bytes = disk::read(&path).map_err(|cause| FragmentError::io("read", &path, cause))?;
    let Some(bytes) = bytes else {
        let is_empty = is_empty(folder).map_err(|cause| FragmentError::io("list", folder, cause))?;
        return if is_empty { Ok(None) } else { Err(FragmentError::NoSpecification { path }) };
    };
    let damaged = |why: String| FragmentError::Specification { path: path.clone(), why };
    let spec: FragmentSpec = serde_json::from_slice(&bytes).map_err(|error| damaged(error.to_string()))?;
    match folder.file_name().is_some_and(|name| name == spec.instance.as_str()) {
        true => Ok(Some(spec)),
        false => Err(damaged(format!("it is that of {}", spec.instance))),
    }
}

fn is_empty(folder: &Path) -> std::io::Result<bool> {
    match std::fs::read_dir(folder) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(true),
        listed => Ok(listed?.next().transpose()?.is_none()),
    }
}

/// Keeps the specification in `folder` for the next start.
///
/// # Errors
/// The file system's: then the former one is there, if there was one.
pub fn write(folder: &Path, spec: &FragmentSpec) -> Result<(), FragmentError> {
    let path = path_of(folder);
    let failed = |cause| FragmentError::io("write", &path, cause);
    let text = serde_json::to_vec_pretty(spec).map_err(|error| failed(error.into()))?;
    // It has the instance's key: for the owner's eyes only, as all that is kept so.
    disk::replace(&path, &text).map_err(failed)
}
