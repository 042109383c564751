//! Folders on the PFS that others rename or give rights in while a drainer works in them.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use super::node::{Node, library};
use super::read;

/// The names in a folder, in order.
fn names(folder: &Path) -> Vec<String> {
    let names = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<_> = names.collect();
    names.sort();
    names
}

#[test]
fn a_folder_that_was_renamed_or_replaced_by_a_link_between_two_files_takes_none_along() {
    for is_link in [false, true] {
        let root = tempfile::tempdir().unwrap();
        let mut node = Node::new(&root, "n1", &[]);
        fs::create_dir_all(node.from.join("d/e")).unwrap();
        node.start();
        fs::write(node.from.join("d/e/first"), "one").unwrap();
        assert_eq!(node.settle().failed, []);

        let victim = root.path().join("victim");
        fs::create_dir_all(victim.join("e")).unwrap();
        fs::rename(node.to.join("d"), node.to.join("moved")).unwrap();
        if is_link {
            symlink(&victim, node.to.join("d")).unwrap();
        } else {
            fs::create_dir_all(node.to.join("d/e")).unwrap();
        }
        fs::write(node.from.join("d/e/second"), "two").unwrap();
        let failed = node.settle().failed;
        assert_eq!(names(&node.to.join("moved/e")), ["first"], "it went to where the folder is now");
        assert_eq!(names(&victim.join("e")), [""; 0], "it went through the link");
        if is_link {
            assert!(!failed.is_empty(), "it is called drained");
            fs::remove_file(node.to.join("d")).unwrap();
            assert_eq!(node.settle().failed, []);
        } else {
            assert_eq!(failed, []);
        }
        let there = ["first", "second"].map(|name| read(&node.to.join("d/e").join(name)));
        assert_eq!(there, ["one", "two"]);
    }
}

#[test]
fn files_of_folders_on_the_node_that_change_places_are_not_taken_for_each_other() {
    let root = tempfile::tempdir().unwrap();
    let mut node = Node::new(&root, "n1", &[]);
    let (a, b, c) = (node.from.join("a"), node.from.join("b"), node.from.join("c"));
    fs::create_dir(&a).unwrap();
    fs::create_dir(&b).unwrap();
    node.start();
    for round in 0..3 {
        for folder in [&a, &b] {
            fs::write(folder.join("f"), format!("{} {round}", folder.display())).unwrap();
        }
        assert_eq!(node.settle().failed, []);
        fs::rename(&a, &c).unwrap();
        fs::rename(&b, &a).unwrap();
        fs::rename(&c, &b).unwrap();
        fs::write(a.join(round.to_string()), format!("new {round}")).unwrap();
        assert_eq!(node.settle().failed, []);
        for name in ["a/f", "b/f", &format!("a/{round}")] {
            assert_eq!(read(&node.to.join(name)), read(&node.from.join(name)), "{name} in round {round}");
        }
    }
}

#[test]
fn a_file_whose_name_a_folder_had_before_in_a_folder_that_was_moved_is_drained() {
    let root = tempfile::tempdir().unwrap();
    let mut node = Node::new(&root, "n1", &[]);
    let folder = node.from.join("d");
    fs::create_dir_all(folder.join("f")).unwrap();
    node.start();
    fs::write(folder.join("other"), "other").unwrap();
    assert_eq!(node.settle().failed, []);
    fs::rename(&folder, node.from.join("moved")).unwrap();
    fs::create_dir(&folder).unwrap();
    fs::write(folder.join("f"), "a file").unwrap();
    node.wait_said("it is not drained", |status| status.done == 2);
    assert_eq!(read(&node.to.join("d/f")), "a file");
}

#[test]
fn a_copy_has_no_rights_that_the_folder_on_the_pfs_hands_down() {
    let root = tempfile::tempdir().unwrap();
    let mut node = Node::new(&root, "n1", &[]);
    // The user 65534 may read and write what is made in it.
    let entries = [(1, 7, u32::MAX), (2, 6, 65_534), (4, 5, u32::MAX), (16, 7, u32::MAX), (32, 0, u32::MAX)];
    let mut list = 2_u32.to_le_bytes().to_vec();
    for (tag, rights, id) in entries {
        list.extend([u16::to_le_bytes(tag), u16::to_le_bytes(rights)].concat());
        list.extend(u32::to_le_bytes(id));
    }
    let flags = rustix::fs::XattrFlags::empty();
    if rustix::fs::setxattr(&node.to, "system.posix_acl_default", &list, flags).is_err() {
        return eprintln!("skipped: the temporary folder has no access lists");
    }
    node.start();
    fs::write(node.from.join("f"), "secret").unwrap();
    fs::set_permissions(node.from.join("f"), fs::Permissions::from_mode(0o640)).unwrap();
    assert_eq!(node.settle().failed, []);
    let there = rustix::fs::getxattr(node.to.join("f"), "system.posix_acl_access", &mut [0_u8; 256]);
    assert_eq!(there.err(), Some(rustix::io::Errno::NODATA), "another user may read it");
}

#[test]
fn a_folder_that_is_moved_to_where_a_walk_has_been_is_drained_before_that_is_called_so() {
    let root = tempfile::tempdir().unwrap();
    let mut node = Node::new(&root, "n1", &[]);
    let armed = root.path().join("armed");
    let source = MOVES.replace("ARMED", armed.to_str().unwrap()).replace("FROM", node.from.to_str().unwrap());
    node.preload = Some(library(&root, &source));
    for folder in ["x", "y"] {
        fs::create_dir_all(node.from.join(folder).join(folder)).unwrap();
        fs::write(node.from.join(folder).join(folder).join("f"), folder).unwrap();
    }
    node.start();
    assert_eq!(node.settle().failed, []);
    fs::write(&armed, "").unwrap();
    assert_eq!(node.settle().failed, []);
    assert!(!armed.exists(), "nothing was moved");
    let moved =
        [("x", "y"), ("y", "x")].map(|(folder, into)| (Path::new(into).join(folder).join("f"), folder));
    let (path, contents) = moved.iter().find(|(path, _)| node.from.join(path).exists()).unwrap();
    assert_eq!(read(&node.to.join(path)), *contents);
}

/// Of the folders x and y, moves what is in the second that is listed into the first, as that is listed. Nothing is
/// noticed (inotify).
const MOVES: &str = r#"
#include <dirent.h>
#include <dlfcn.h>
int inotify_add_watch(int queue, const char *path, unsigned mask) {
    errno = ENOSPC;
    return -1;
}
DIR *opendir(const char *path) {
    static char first;
    DIR *(*real)(const char *) = (DIR * (*)(const char *))dlsym(RTLD_NEXT, "opendir");
    char folder[4096] = "", from[4200], to[4200];
    if (readlink(path, folder, sizeof folder - 1) > 0 && !access("ARMED", F_OK)) {
        char *base = strrchr(folder, '/') + 1;
        if ((*base == 'x' || *base == 'y') && !base[1]) {
            if (!first) {
                first = *base;
            } else if (first != *base) {
                sprintf(from, "FROM/%c/%c", *base, *base);
                sprintf(to, "FROM/%c/%c", first, *base);
                if (!rename(from, to)) unlink("ARMED");
            }
        }
    }
    return real(path);
}
"#;
