//! Where a folder is that was renamed.

use std::collections::VecDeque;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use model::Ino;

/// As many entries are looked at.
const LOOKED_AT_MAX: usize = 50_000;

/// The folder of this number below `top`, on its file system; and whether it was looked for everywhere there.
pub(super) fn find(top: &Path, ino: Ino) -> (Option<PathBuf>, bool) {
    let Ok(device) = fs::metadata(top).map(|found| found.dev()) else { return (None, false) };
    let (mut ahead, mut left, mut is_sure) = (VecDeque::from([top.to_owned()]), LOOKED_AT_MAX, true);
    while let Some(folder) = ahead.pop_front() {
        let entries = disk::if_there(fs::read_dir(&folder));
        is_sure &= entries.is_ok();
        for entry in entries.ok().flatten().into_iter().flatten() {
            let (Some(rest), Ok(entry)) = (left.checked_sub(1), entry) else { return (None, false) };
            left = rest;
            let Ok(found) = entry.metadata() else { continue };
            if !found.is_dir() || found.dev() != device {
                continue;
            }
            if found.ino() == ino.0 {
                return (Some(entry.path()), is_sure);
            }
            ahead.push_back(entry.path());
        }
    }
    (None, is_sure)
}
