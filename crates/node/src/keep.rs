//! Small JSON files that a node keeps for its own restart.
//!
//! **Invariant:** such a file is whole: it is written beside its name, synced, then renamed over it.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use serde::Serialize;
use serde::de::DeserializeOwned;

/// Replaces the file `path`, mode 0600: specifications hold keys.
///
/// # Errors
/// The disk's.
pub fn write(path: &Path, value: &impl Serialize) -> io::Result<()> {
    let beside = path.with_extension("new");
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&beside)?;
    file.write_all(&serde_json::to_vec(value)?)?;
    file.sync_all()?;
    std::fs::rename(&beside, path)?;
    path.parent().map_or(Ok(()), |folder| File::open(folder)?.sync_all())
}

/// Reads the file `path`; `None` where there is none.
///
/// # Errors
/// The disk's, and `InvalidData` for a file that does not parse.
pub fn read<T: DeserializeOwned>(path: &Path) -> io::Result<Option<T>> {
    match std::fs::read(path) {
        Ok(bytes) => Ok(Some(serde_json::from_slice(&bytes)?)),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(e),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_kept_is_read_back_and_a_missing_file_is_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("kept.json");
        assert_eq!(read::<u32>(&path).unwrap(), None);
        write(&path, &1u32).unwrap();
        write(&path, &2u32).unwrap();
        assert_eq!(read::<u32>(&path).unwrap(), Some(2));
    }
}
