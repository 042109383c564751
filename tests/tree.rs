//! A file tree with everything that staging must keep, and the comparison of two trees.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, File, FileTimes, Permissions};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use crate::xattr;

/// Bytes that look random and depend on `seed` and their position only.
pub fn bytes(seed: u64, length: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let mut bytes: Vec<u8> = (0..length.div_ceil(8)).flat_map(|_| next().to_le_bytes()).collect();
    bytes.truncate(length);
    bytes
}

/// Fills the empty folder `root`: sizes around the stripe size, holes, hard and symbolic links (one leads nowhere), an
/// empty folder, modes, times, extended attributes, names with spaces and bytes that are no text.
pub fn generate(root: &Path) -> io::Result<()> {
    let mebibyte = 1 << 20;
    for (seed, size) in
        [0, 1, 4095, 4096, mebibyte - 1, mebibyte, mebibyte + 1, 9 * mebibyte + 12345].iter().enumerate()
    {
        fs::write(root.join(format!("size-{size}")), bytes(seed as u64, *size))?;
    }
    let deep = root.join("a/b/c/d");
    fs::create_dir_all(&deep)?;
    fs::create_dir(root.join("empty folder"))?;
    for number in 0..100 {
        fs::write(deep.join(format!("small-{number}")), bytes(100 + number, 37 * number as usize))?;
    }
    fs::write(root.join(OsStr::from_bytes(b"bytes-\xff\xfe")), "a name that is not text")?;
    fs::write(root.join("a/wide ~ name \u{2600}"), "a name with spaces")?;

    let sparse = File::create(root.join("sparse"))?;
    sparse.write_all_at(&bytes(7, 4096), 5 * mebibyte as u64)?;
    sparse.set_len(12 * mebibyte as u64)?;

    fs::hard_link(root.join("size-4096"), deep.join("second name of size-4096"))?;
    symlink("../../size-4095", root.join("a/b/link"))?;
    symlink("nowhere", root.join("a/dangling"))?;

    xattr::set(&root.join("size-1"), "user.origin", b"instrument 7")?;
    fs::set_permissions(root.join("size-4095"), Permissions::from_mode(0o755))?;
    fs::set_permissions(root.join("size-4096"), Permissions::from_mode(0o444))?;
    fs::set_permissions(root.join("size-1"), Permissions::from_mode(0o600))?;
    fs::set_permissions(root.join("empty folder"), Permissions::from_mode(0o750))?;
    let time = SystemTime::UNIX_EPOCH + Duration::new(1_234_567_890, 123_456_789);
    File::open(root.join("size-4095"))?.set_times(FileTimes::new().set_modified(time))
}

/// What two equal entries have in common.
#[derive(Debug, PartialEq, Eq)]
struct Entry {
    mode: u32,
    /// Of a file: its bytes.
    content: Vec<u8>,
    /// Of a symbolic link: where it leads.
    target: Option<PathBuf>,
    /// Of a file or link; a folder's changes while it is filled.
    modified: Option<(i64, i64)>,
    /// The first path with the same inode.
    same_file_as: PathBuf,
    attributes: Vec<(String, Vec<u8>)>,
}

/// Every difference between two trees, a line each; none when they are equal.
pub fn differences(left: &Path, right: &Path) -> io::Result<Vec<String>> {
    let [left, right] = [read(left)?, read(right)?];
    let mut lines = Vec::new();
    for (path, entry) in &left {
        match right.get(path) {
            None => lines.push(format!("{} is missing on the right", path.display())),
            Some(other) if entry != other => {
                lines.push(format!("{}: {}", path.display(), describe(entry, other)))
            }
            Some(_) => {}
        }
    }
    lines.extend(
        right
            .keys()
            .filter(|path| !left.contains_key(*path))
            .map(|path| format!("{} is only on the right", path.display())),
    );
    Ok(lines)
}

/// The trees are equal.
#[track_caller]
pub fn assert_equal(left: &Path, right: &Path) {
    match differences(left, right) {
        Ok(lines) => {
            assert!(lines.is_empty(), "{} and {}:\n{}", left.display(), right.display(), lines.join("\n"))
        }
        Err(error) => panic!("compare {} and {}: {error}", left.display(), right.display()),
    }
}

/// Bytes that a file occupies on its disk.
pub fn occupied_bytes(path: &Path) -> io::Result<u64> {
    Ok(fs::metadata(path)?.blocks() * 512)
}

fn read(root: &Path) -> io::Result<BTreeMap<PathBuf, Entry>> {
    let mut entries = BTreeMap::new();
    let mut first_names = BTreeMap::new();
    let mut folders = vec![root.to_owned()];
    let mut found = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder)? {
            let path = entry?.path();
            if fs::symlink_metadata(&path)?.is_dir() {
                folders.push(path.clone());
            }
            found.push(path);
        }
    }
    found.sort();
    for path in found {
        let name = path.strip_prefix(root).expect("the walk started there").to_owned();
        let metadata = fs::symlink_metadata(&path)?;
        let first =
            first_names.entry((metadata.dev(), metadata.ino())).or_insert_with(|| name.clone()).clone();
        let is_link = metadata.is_symlink();
        entries.insert(
            name,
            Entry {
                mode: metadata.mode(),
                content: if metadata.is_file() { fs::read(&path)? } else { Vec::new() },
                target: if is_link { Some(fs::read_link(&path)?) } else { None },
                modified: (!metadata.is_dir()).then(|| (metadata.mtime(), metadata.mtime_nsec())),
                same_file_as: first,
                attributes: if is_link { Vec::new() } else { xattr::read(&path)? },
            },
        );
    }
    Ok(entries)
}

fn describe(left: &Entry, right: &Entry) -> String {
    let mut parts = Vec::new();
    if left.mode != right.mode {
        parts.push(format!("mode {:o} and {:o}", left.mode, right.mode));
    }
    if left.content.len() != right.content.len() {
        parts.push(format!("{} and {} bytes", left.content.len(), right.content.len()));
    } else if let Some(at) = left.content.iter().zip(&right.content).position(|(a, b)| a != b) {
        parts.push(format!("first different byte at {at}"));
    }
    if left.target != right.target {
        parts.push(format!("leads to {:?} and {:?}", left.target, right.target));
    }
    if left.modified != right.modified {
        parts.push(format!("modified {:?} and {:?}", left.modified, right.modified));
    }
    if left.same_file_as != right.same_file_as {
        parts.push(format!("same file as {:?} and {:?}", left.same_file_as, right.same_file_as));
    }
    if left.attributes != right.attributes {
        parts.push(format!("attributes {:?} and {:?}", left.attributes, right.attributes));
    }
    parts.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is seen after `change` to the second of two equal trees.
    fn seen_after(change: impl FnOnce(&Path) -> io::Result<()>) -> String {
        let [left, right] = [(); 2].map(|()| tempfile::tempdir().unwrap());
        for root in [&left, &right] {
            generate(root.path()).unwrap();
            // The standard library cannot set a link's time.
            for link in ["a/dangling", "a/b/link"] {
                fs::remove_file(root.path().join(link)).unwrap();
            }
        }
        for path in read(left.path()).unwrap().keys() {
            let time = fs::metadata(left.path().join(path)).unwrap().modified().unwrap();
            File::open(right.path().join(path)).unwrap().set_modified(time).unwrap();
        }
        assert_eq!(differences(left.path(), right.path()).unwrap(), Vec::<String>::new());
        change(right.path()).unwrap();
        differences(left.path(), right.path()).unwrap().join("\n")
    }

    #[test]
    fn every_kind_of_difference_is_seen() {
        let seen = seen_after(|root| {
            File::options().write(true).open(root.join("sparse"))?.write_all_at(b"x", 9 << 20)
        });
        assert!(seen.contains("first different byte at 9437184"), "{seen}");
        let seen = seen_after(|root| fs::set_permissions(root.join("size-1"), Permissions::from_mode(0o640)));
        assert_eq!(seen, "size-1: mode 100600 and 100640");
        let seen = seen_after(|root| xattr::set(&root.join("size-1"), "user.origin", b"other"));
        assert!(seen.contains("attributes"), "{seen}");
        let seen =
            seen_after(|root| File::open(root.join("size-4096"))?.set_modified(SystemTime::UNIX_EPOCH));
        assert!(seen.contains("size-4096: modified"), "{seen}");
        let seen = seen_after(|root| symlink("elsewhere", root.join("new")));
        assert_eq!(seen, "new is only on the right");
        let seen = seen_after(|root| fs::remove_dir(root.join("empty folder")));
        assert_eq!(seen, "empty folder is missing on the right");
    }

    #[test]
    fn a_hard_link_that_became_a_copy_is_seen() {
        let seen = seen_after(|root| {
            let path = root.join("size-4096");
            let modified = fs::metadata(&path)?.modified()?;
            fs::copy(&path, root.join("copy"))?;
            fs::rename(root.join("copy"), &path)?;
            File::open(&path)?.set_modified(modified)
        });
        assert!(seen.contains("same file as"), "{seen}");
    }
}
