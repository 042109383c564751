//! How a file of the rendezvous is written: as a draft beside it that gets its name.

use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::path::Path;

use disk::below::{Place, Root};
use serde::Serialize;

use crate::namesake::{machine, short_hash};

/// Replaces a file as a whole, also where the node loses its power meanwhile.
pub(super) fn write<T: Serialize>(path: &Path, value: &T) -> std::io::Result<()> {
    write_as(path, value, |place, draft| Ok(place.replace_with(draft)?))
}

/// Writes a draft beside the file, for `put` to give it the name.
///
/// # Errors
/// The PFS's, with the file.
pub(super) fn write_as<T: Serialize, R>(
    path: &Path,
    value: &T,
    put: impl FnOnce(&Place, &OsStr) -> std::io::Result<R>,
) -> std::io::Result<R> {
    let written = || {
        let (place, temporary) = (Root::at(path.parent().unwrap_or(path)).reach(path)?, temporary(path));
        let mut file = place.create(&temporary)?;
        file.write_all(&serde_json::to_vec(value)?)?;
        file.sync_all()?;
        put(&place, &temporary)
    };
    written().map_err(|error: std::io::Error| {
        std::io::Error::new(error.kind(), format!("write {}: {error}", path.display()))
    })
}

/// What the next contents of `path` are called while they are written. No host's name begins with a dot, each host's is
/// another, and so is that of each who writes for it: machines may be called alike.
pub(super) fn temporary(path: &Path) -> OsString {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    format!(".{name}.{}-{:08x}.new", std::process::id(), short_hash(&machine())).into()
}

pub(super) fn is_temporary(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."))
}
