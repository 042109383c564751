//! A tree with an entry of every kind, and a comparison of two trees entry by entry.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, FileType, Mode, Timespec, Timestamps, XattrFlags};
use wire::data::FileKind;

use super::folder_namespace::attributes;

/// Bytes that differ from block to block and from seed to seed.
pub fn bytes(seed: u64, length: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut bytes = Vec::with_capacity(length + 8);
    while bytes.len() < length {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.to_le_bytes());
    }
    bytes.truncate(length);
    bytes
}

/// Makes one of everything below `root`, which is made too. As root also a device node and files of other owners.
pub fn grow(root: &Path) {
    fs::create_dir(root).unwrap();
    for (index, length) in [0, 1, 4095, 4096, 1 << 20, (1 << 20) + 1, 3_000_017].into_iter().enumerate() {
        fs::write(root.join(format!("file{length}")), bytes(index as u64, length)).unwrap();
    }
    fs::create_dir_all(root.join("deep/deeper/deepest")).unwrap();
    fs::write(root.join("deep/deeper/deepest/leaf"), b"leaf").unwrap();
    fs::create_dir(root.join("empty")).unwrap();
    fs::write(root.join(OsStr::from_bytes(b"odd \xff\n'name")), b"odd").unwrap();

    symlink("file4096", root.join("link")).unwrap();
    symlink("../elsewhere/not there", root.join("deep/dangling")).unwrap();
    symlink("/absolute", root.join("deep/absolute")).unwrap();
    symlink("deep", root.join("link to folder")).unwrap();
    fs::write(root.join("deep/first name"), bytes(77, 70_000)).unwrap();
    fs::hard_link(root.join("deep/first name"), root.join("second name")).unwrap();
    fs::hard_link(root.join("deep/first name"), root.join("deep/deeper/third name")).unwrap();

    sparse(&root.join("hole in the middle"), 8 << 20, &[(0, 5000), (6 << 20, 70_000)]);
    sparse(&root.join("hole at both ends"), 5 << 20, &[(2 << 20, 4096)]);
    sparse(&root.join("only a hole"), 3 << 20, &[]);
    let node = |name: &str, kind, rdev| {
        rustix::fs::mknodat(CWD, root.join(name), kind, Mode::from_raw_mode(0o620), rdev).unwrap();
    };
    node("pipe", FileType::Fifo, 0);
    node("socket", FileType::Socket, 0);
    if rustix::process::geteuid().is_root() {
        node("device", FileType::CharacterDevice, rustix::fs::makedev(1, 3));
        std::os::unix::fs::chown(root.join("file1"), Some(1234), Some(4321)).unwrap();
        std::os::unix::fs::lchown(root.join("link"), Some(1234), Some(4321)).unwrap();
        std::os::unix::fs::chown(root.join("empty"), Some(1234), None).unwrap();
    }
    xattr(&root.join("file4096"), "user.origin", b"telescope\0seven");
    xattr(&root.join("file4096"), "user.empty", b"");
    xattr(&root.join("deep"), "user.on a folder", b"yes");

    mode(&root.join("file1"), 0o4711);
    mode(&root.join("file4095"), 0o440);
    let unreadable = if rustix::process::geteuid().is_root() { 0o000 } else { 0o400 };
    mode(&root.join("file0"), unreadable);
    mode(&root.join("empty"), 0o1777);
    mode(&root.join("deep/deeper"), 0o2750);
    mode(&root.join("deep/deeper/deepest"), 0o555);
    age(root);
}

fn sparse(path: &Path, size: u64, data: &[(u64, usize)]) {
    let file = File::create(path).unwrap();
    file.set_len(size).unwrap();
    for (offset, length) in data {
        file.write_all_at(&bytes(*offset, *length), *offset).unwrap();
    }
}

fn xattr(path: &Path, name: &str, value: &[u8]) {
    rustix::fs::lsetxattr(path, name, value, XattrFlags::empty()).unwrap();
}

fn mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// Gives every entry its own time with nanoseconds, contents before folders.
fn age(path: &Path) {
    let metadata = fs::symlink_metadata(path).unwrap();
    if metadata.is_dir() {
        for entry in fs::read_dir(path).unwrap() {
            age(&entry.unwrap().path());
        }
    }
    let mark = path
        .as_os_str()
        .as_bytes()
        .iter()
        .fold(17_i64, |mark, byte| mark * 31 % 1_000_003 + i64::from(*byte));
    let at = |seconds: i64| Timespec { tv_sec: seconds, tv_nsec: 123_000_000 + mark % 1_000_003 };
    let times = Timestamps { last_access: at(1_500_000_000 + mark), last_modification: at(-5_000 + mark) };
    rustix::fs::utimensat(CWD, path, &times, AtFlags::SYMLINK_NOFOLLOW).unwrap();
}

/// Bytes that a failed test does not print.
#[derive(PartialEq, Eq)]
struct Contents(Vec<u8>);

impl std::fmt::Debug for Contents {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} bytes", self.0.len())
    }
}

/// What there is to know of an entry.
#[derive(Debug, PartialEq, Eq)]
pub struct Leaf {
    pub kind: FileKind,
    mode: u32,
    owner: (u32, u32),
    rdev: u64,
    size: u64,
    mtime: (i64, i64),
    contents: Contents,
    xattrs: BTreeMap<Vec<u8>, Vec<u8>>,
    links: u64,
    /// At least 64 KiB of it occupy no space.
    holes: bool,
}

/// Every entry below `root`, by its path in it.
pub fn survey(root: &Path) -> BTreeMap<PathBuf, Leaf> {
    let mut leaves = BTreeMap::new();
    let mut ahead = vec![root.to_owned()];
    while let Some(folder) = ahead.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            let leaf = leaf(&path);
            if leaf.kind == FileKind::Directory {
                ahead.push(path.clone());
            }
            leaves.insert(path.strip_prefix(root).unwrap().to_owned(), leaf);
        }
    }
    leaves
}

fn leaf(path: &Path) -> Leaf {
    let metadata = fs::symlink_metadata(path).unwrap();
    let attr = attributes(&metadata);
    let is_folder = attr.kind == FileKind::Directory;
    let contents = match attr.kind {
        FileKind::Regular => fs::read(path).unwrap(),
        FileKind::Symlink => fs::read_link(path).unwrap().as_os_str().as_bytes().to_vec(),
        _ => Vec::new(),
    };
    Leaf {
        kind: attr.kind,
        mode: attr.mode,
        owner: (attr.uid, attr.gid),
        rdev: attr.rdev,
        size: if is_folder { 0 } else { attr.size },
        mtime: (metadata.mtime(), metadata.mtime_nsec()),
        contents: Contents(contents),
        xattrs: xattrs(path),
        links: if is_folder { 0 } else { metadata.nlink() },
        holes: attr.kind == FileKind::Regular && attr.blocks * 512 + 65536 <= attr.size,
    }
}

fn xattrs(path: &Path) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let mut names = vec![0; 4096];
    let length = rustix::fs::llistxattr(path, names.as_mut_slice()).unwrap();
    names.truncate(length);
    let names = names.split(|byte| *byte == 0).filter(|name| name.starts_with(b"user."));
    names
        .map(|name| {
            let mut value = vec![0; 4096];
            let length = rustix::fs::lgetxattr(path, name, value.as_mut_slice()).unwrap();
            value.truncate(length);
            (name.to_vec(), value)
        })
        .collect()
}

/// Fails with the first path that is not the same on both sides.
pub fn assert_same(expected: &BTreeMap<PathBuf, Leaf>, root: &Path) {
    let found = survey(root);
    assert_eq!(
        expected.keys().collect::<Vec<_>>(),
        found.keys().collect::<Vec<_>>(),
        "names below {}",
        root.display()
    );
    for (path, leaf) in expected {
        let other = &found[path];
        assert!(leaf.contents == other.contents, "contents of {}", path.display());
        assert_eq!(leaf, other, "{}", path.display());
    }
}
