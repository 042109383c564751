//! Small files that are read and replaced as a whole.
//!
//! **Invariant:** such a file is whole, also after a power loss: it is written beside its name, synced, then renamed
//! over it, and the folder is synced.

use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};

use crate::regular;

/// The bytes of the file `path`; `None` where there is none.
///
/// # Errors
/// It cannot be read: whoever gets this must not go on as if there was none.
pub fn read(path: &Path) -> io::Result<Option<Vec<u8>>> {
    let mut bytes = Vec::new();
    let mut read = || regular::open(path, OFlags::RDONLY, Mode::empty())?.read_to_end(&mut bytes);
    Ok(super::if_there(read())?.map(|_| bytes))
}

/// Replaces the file `path`, mode 0600: specifications hold keys.
///
/// # Errors
/// The file system's. What was at `path` is there or replaced as a whole.
pub fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let beside = beside(path);
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC;
    let mut file = regular::open(&beside, flags, Mode::from_raw_mode(0o600))?;
    file.write_all(bytes)?;
    file.sync_all()?;
    std::fs::rename(&beside, path)?;
    super::sync_names(path)
}

/// Where the next contents of `path` are written.
pub(crate) fn beside(path: &Path) -> PathBuf {
    path.with_extension("new")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_kept_is_read_back_and_only_a_missing_file_is_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("kept.json");
        assert_eq!(read(&path).unwrap(), None);
        replace(&path, b"1").unwrap();
        replace(&path, b"2").unwrap();
        assert_eq!(read(&path).unwrap().as_deref(), Some(&b"2"[..]));
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
        // EISDIR
        read(dir.path()).unwrap_err();
    }
}
