//! Sentences 5, 6 and 7: times, extended attributes and what has no power, set on one node and looked at on another.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::fs::{CWD, FileType, Mode, XattrFlags, getxattr, listxattr, makedev, mknodat, setxattr};
use rustix::io::Errno;

use crate::site::{NODES, Site};

pub fn times(site: &Site) {
    let folder = site.folder();
    let mut file = File::create(folder.at(0, "file")).expect("the buffer is writable");
    file.write_all(b"text").expect("there is room");
    let then = UNIX_EPOCH + Duration::new(1_000_000_000, 123_456_789);
    file.set_modified(then).expect("it is ours");
    drop(file);
    let before = fs::metadata(folder.at(1, "file")).expect("it is there");
    for node in 0..NODES {
        assert_eq!(fs::read(folder.at(node, "file")).expect("it is there"), b"text");
        let data = fs::metadata(folder.at(node, "file")).expect("it is there");
        assert_eq!(
            data.modified().expect("it has one"),
            then,
            "node {node}: closing changed the time that was set"
        );
        assert_eq!(
            (data.atime(), data.atime_nsec()),
            (before.atime(), before.atime_nsec()),
            "reading changed atime"
        );
    }
    assert!(SystemTime::now() > then);
}

pub fn xattrs(site: &Site) {
    let folder = site.folder();
    fs::write(folder.at(0, "file"), "").expect("the buffer is writable");
    let set = |name: &str, value: &[u8]| setxattr(folder.at(0, "file"), name, value, XattrFlags::empty());
    let value = vec![7; 65_536];
    let names = ["user.a", "trusted.b", "security.c"];
    for name in names {
        set(name, &value).expect("64 KiB are allowed");
    }
    assert_eq!(set("user.d", &value), Err(Errno::NOSPC), "256 KiB with the names");
    assert_eq!(set("user.d", &[0; 65_537]), Err(Errno::TOOBIG));
    // Well-formed, as the kernel looks first: version 2; then owner, group and others with tag, rights and no id.
    let entry = |tag: u8| [tag, 0, 6, 0, 255, 255, 255, 255];
    let acl = [&[2, 0, 0, 0][..], &entry(1), &entry(4), &entry(32)].concat();
    assert_eq!(set("system.posix_acl_access", &acl), Err(Errno::OPNOTSUPP));
    for node in 0..NODES {
        let mut read = vec![0; 65_536];
        for name in names {
            assert_eq!(getxattr(folder.at(node, "file"), name, read.as_mut_slice()), Ok(65_536));
            assert!(read == value);
        }
        let len = listxattr(folder.at(node, "file"), read.as_mut_slice()).expect("it has some");
        assert_eq!(read[..len].split(|byte| *byte == 0).filter(|name| !name.is_empty()).count(), names.len());
    }
}

pub fn powerless(site: &Site) {
    let folder = site.folder();
    let mode = |mode| fs::Permissions::from_mode(mode);
    fs::copy("/usr/bin/id", folder.at(0, "id")).expect("there is room");
    fs::set_permissions(folder.at(0, "id"), mode(0o4755)).expect("it is ours");
    for above in [folder.at(0, ""), folder.at(0, "..")] {
        fs::set_permissions(above, mode(0o755)).expect("it is ours");
    }
    let program = folder.inside("id");
    let words = ["setpriv", "--reuid=65534", "--clear-groups", tests::hosts::plain(&program), "-u"];
    assert_eq!(site.run(3, &words).trim(), "65534", "a program runs with its owner's rights");
    let null = makedev(1, 3);
    mknodat(CWD, folder.at(0, "null"), FileType::CharacterDevice, Mode::from(0o666), null).expect("root may");
    for node in 0..NODES {
        let error = File::open(folder.at(node, "null")).expect_err("devices do not open");
        assert_eq!(error.raw_os_error(), Some(Errno::ACCESS.raw_os_error()));
    }
}
