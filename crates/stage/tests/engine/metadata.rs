//! What entries have besides their contents, where the PFS cannot hold it or fails for a moment.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::sync::atomic::Ordering;

use model::phase::{Direction, StageKind, StageState};
use rustix::fs::XattrFlags;
use rustix::io::Errno;

use crate::support::Site;
use crate::support::faulty_pfs::FaultyPfs;

const DEFAULT: &str = "system.posix_acl_default";

#[test]
fn attributes_that_cannot_be_read_for_a_moment_are_read_again_and_for_longer_are_a_failure() {
    for (failing, expected) in [(1, StageState::Complete), (-1, StageState::Failed)] {
        let (site, pfs) = (Site::new(), FaultyPfs::default());
        fs::write(site.pfs("a"), b"x").unwrap();
        rustix::fs::setxattr(site.pfs("a"), "user.origin", b"here", XattrFlags::empty()).unwrap();
        pfs.shared.failing_xattrs.store(failing, Ordering::Relaxed);
        let spec = site.spec(Direction::In, StageKind::File, "a", "a");
        let status = site.run_on(pfs, &spec);
        assert_eq!(status.state, expected, "{status:?}");
        if expected == StageState::Complete {
            let mut value = [0; 16];
            let length = rustix::fs::getxattr(site.buffer("a"), "user.origin", &mut value[..]).unwrap();
            assert_eq!(&value[..length], b"here");
        } else {
            let failure = &status.failures[0];
            assert_eq!(failure.errno, Errno::IO.raw_os_error(), "{failure:?}");
            assert!(failure.message.contains("extended attributes"), "{failure:?}");
        }
    }
}

#[test]
fn times_that_the_pfs_cuts_are_told_once_with_their_number_and_nothing_is_copied_again_for_them() {
    let (site, pfs) = (Site::new(), FaultyPfs::default());
    pfs.shared.whole_seconds.store(true, Ordering::Relaxed);
    fs::create_dir(site.buffer("set")).unwrap();
    for name in ["a", "b"] {
        fs::write(site.buffer(&format!("set/{name}")), name).unwrap();
    }
    let spec = site.spec(Direction::Out, StageKind::Directory, "out", "set");
    let status = site.run_on(pfs.clone(), &spec);
    assert_eq!(status.state, StageState::Complete, "{status:?}");
    let told: Vec<_> =
        status.notes.remarks.iter().filter(|remark| remark.text.contains("whole seconds")).collect();
    assert_eq!(told.len(), 1, "{:?}", status.notes);
    // The files and their folder.
    assert!(told[0].text.contains('3'), "{:?}", told[0]);
    let inode = || fs::metadata(site.pfs("out/a")).unwrap().ino();
    let first = inode();
    assert_eq!(site.run_on(pfs, &spec).state, StageState::Complete);
    assert_eq!(inode(), first, "copied again");
}

#[test]
fn rights_that_the_target_folder_would_hand_down_are_not_given_to_copies() {
    let site = Site::new();
    fs::create_dir_all(site.buffer("set/d")).unwrap();
    for name in ["f", "d/g"] {
        fs::write(site.buffer(&format!("set/{name}")), b"x").unwrap();
        fs::set_permissions(site.buffer(&format!("set/{name}")), fs::Permissions::from_mode(0o640)).unwrap();
    }
    fs::create_dir(site.pfs("out")).unwrap();
    // Version 2; owner rw, user 1234 rw, group r, mask rw, others nothing: acl(5).
    let mut list = vec![2, 0, 0, 0];
    for (tag, rights, id) in
        [(1_u16, 6_u16, u32::MAX), (2, 6, 1234), (4, 4, u32::MAX), (16, 6, u32::MAX), (32, 0, u32::MAX)]
    {
        list.extend(tag.to_le_bytes());
        list.extend(rights.to_le_bytes());
        list.extend(id.to_le_bytes());
    }
    rustix::fs::setxattr(site.pfs("out"), DEFAULT, &list, XattrFlags::empty()).unwrap();
    assert_eq!(site.stage_out(StageKind::Directory, "set", "out").state, StageState::Complete);
    for name in ["f", "d", "d/g"] {
        let mut names = [0; 256];
        let length = rustix::fs::listxattr(site.pfs(&format!("out/{name}")), &mut names[..]).unwrap();
        let names = String::from_utf8_lossy(&names[..length]);
        assert!(!names.contains("posix_acl"), "{name} has {names}");
    }
    assert_eq!(fs::metadata(site.pfs("out/d/g")).unwrap().mode() & 0o777, 0o640);
}
