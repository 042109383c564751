//! Names, links and folders that are renamed.

use std::os::unix::fs::symlink;

use super::*;

#[test]
fn no_name_is_reached_through_a_link() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("root");
    std::fs::create_dir_all(path.join("a/b")).unwrap();
    std::fs::create_dir(folder.path().join("outside")).unwrap();
    symlink("../outside", path.join("out")).unwrap();
    symlink("a", path.join("in")).unwrap();
    for root in [Root::at(&path), Root::hold(&path).unwrap()] {
        for name in ["out/x", "in/x", "in/b/x"] {
            assert_eq!(root.reach(&path.join(name)).map(drop), Err(Errno::NOTDIR), "{name}");
        }
        assert_eq!(root.inside(Path::new("in")).map(drop), Err(Errno::NOTDIR));
        assert_eq!(root.make_folders(Path::new("out/x")), Err(Errno::NOTDIR));
        assert_eq!(root.reach(Path::new("a/../../x")).map(drop), Err(Errno::XDEV));
        assert_eq!(root.obstacle(Path::new("in/b/x")), Some(path.join("in")));
        assert_eq!(root.obstacle(Path::new("a/b/x")), None);
        std::fs::write(root.reach(Path::new("a/b/x")).unwrap().path(), "x").unwrap();
        assert!(crate::exists(&path.join("a/b/x")).unwrap());
    }
    Root::at(&path).inside(Path::new("")).unwrap().create(OsStr::new("in")).unwrap();
    assert!(std::fs::symlink_metadata(path.join("in")).unwrap().is_file());
    // Another folder than the one that is drained to now.
    let elsewhere = Root::at(Path::new("/nowhere"));
    assert_eq!(elsewhere.reach(&path.join("out/x")).map(drop), Err(Errno::NOTDIR));
    elsewhere.reach(&folder.path().canonicalize().unwrap().join("root/a/x")).unwrap();
}

#[test]
fn kernels_that_know_no_strict_way_and_those_that_do_open_the_same() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("a")).unwrap();
    std::fs::write(folder.path().join("a/file"), "x").unwrap();
    symlink("a", folder.path().join("link")).unwrap();
    symlink("file", folder.path().join("a/link")).unwrap();
    let root = Root::hold(folder.path()).unwrap();
    let top = root.top().unwrap();
    let (read, name) = (OFlags::RDONLY, OFlags::PATH | OFlags::NOFOLLOW);
    let inode = |opened: Result<OwnedFd>| opened.map(|open| rustix::fs::fstat(&open).unwrap().st_ino);
    for (path, flags, errno) in [
        ("", FOLDER, None),
        ("a", FOLDER, None),
        ("a/file", read, None),
        ("a/link", name, None),
        ("a/link", read, Some(Errno::LOOP)),
        ("link/file", read, Some(Errno::NOTDIR)),
        ("link", FOLDER, Some(Errno::NOTDIR)),
        ("link/file", name, Some(Errno::NOTDIR)),
        ("none/file", read, Some(Errno::NOENT)),
    ] {
        let path = Path::new(path);
        let strict = inode(open_below(top.as_fd(), path, flags, Mode::empty()));
        assert_eq!(strict, inode(open_by_steps(top.as_fd(), path, flags, Mode::empty())), "{path:?}");
        assert_eq!(strict.err(), errno, "{path:?}");
    }
}

#[test]
fn a_root_that_is_held_is_the_folder_that_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let [there, link, moved] = ["there", "link", "moved"].map(|name| folder.path().join(name));
    std::fs::create_dir(&there).unwrap();
    symlink("there", &link).unwrap();
    let root = Root::hold(&link).unwrap();
    assert_eq!(root.real().unwrap(), folder.path().canonicalize().unwrap().join("there"));
    std::fs::rename(&there, &moved).unwrap();
    root.reach(&link.join("file")).unwrap().create(OsStr::new("file")).unwrap();
    assert!(crate::exists(&moved.join("file")).unwrap());
    assert_eq!(Root::at(&link).reach(Path::new("file")).map(drop), Err(Errno::NOTDIR));
}
