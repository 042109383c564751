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
    assert_eq!(set("system.nfs4_acl", &[0]), Err(Errno::OPNOTSUPP));
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

pub fn access_lists(site: &Site) {
    let folder = site.folder();
    let mode = |mode| fs::Permissions::from_mode(mode);
    fs::write(folder.at(0, "secret"), "for one more").expect("the buffer is writable");
    fs::set_permissions(folder.at(0, "secret"), mode(0o600)).expect("it is ours");
    for above in [folder.at(0, ""), folder.at(0, "..")] {
        fs::set_permissions(above, mode(0o755)).expect("it is ours");
    }
    let secret = folder.inside("secret");
    let secret = tests::hosts::plain(&secret);
    let reads = |uid: u32| {
        let read = format!("setpriv --reuid={uid} --regid={uid} --clear-groups cat {secret} 2>&1 || true");
        site.run(3, &["sh", "-c", &read])
    };
    assert!(reads(65534).contains("Permission denied"));
    site.run(1, &["setfacl", "-m", "u:65534:r", secret]);
    assert_eq!(reads(65534).trim(), "for one more");
    assert!(reads(65533).contains("Permission denied"));
    fs::set_permissions(folder.at(2, "secret"), mode(0o600)).expect("it is ours");
    assert!(
        reads(65534).contains("Permission denied"),
        "chmod takes the group's bits, which are the list's mask"
    );
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
