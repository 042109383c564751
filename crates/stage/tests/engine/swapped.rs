//! Folders and files of the PFS that somebody moves, and puts others in the place of, while a stage works there.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use model::phase::{Direction, StageKind, StageState};
use rustix::io::Errno;
use stage::pfs::Pfs;
use stage::tree::{Target, Tree};
use wire::control::{Blame, ErrorCode, Side, StageStatus};

use crate::support::Site;
use crate::support::faulty_pfs::FaultyPfs;

/// Stages `d/f` of the buffer out; `event` happens when the first byte of it is written.
fn with_event(site: &Site, destination: &str, event: impl FnOnce() + Send + 'static) -> StageStatus {
    fs::create_dir_all(site.buffer("d")).unwrap();
    fs::write(site.buffer("d/f"), b"new").unwrap();
    let pfs = FaultyPfs::default();
    *pfs.shared.at_write.lock().unwrap() = Some((0, Box::new(event)));
    let status = site.run_on(pfs.clone(), &site.spec(Direction::Out, StageKind::Directory, destination, ""));
    assert!(pfs.shared.at_write.lock().unwrap().is_none(), "nothing was moved");
    status
}

fn part(folder: &Path) -> PathBuf {
    let mut entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.find(|path| path.extension().is_some_and(|end| end == "part")).unwrap()
}

#[test]
fn a_file_is_published_only_in_the_folder_that_the_stage_has_made() {
    let site = Site::new();
    let [folder, away] = ["out/d", "out/away"].map(|name| site.pfs(name));
    let status = with_event(&site, "out", move || {
        fs::rename(&folder, &away).unwrap();
        fs::create_dir(&folder).unwrap();
        let part = part(&away);
        fs::rename(&part, folder.join(part.file_name().unwrap())).unwrap();
    });
    assert_eq!(status.state, StageState::Failed);
    assert_eq!(status.failures[0].operation, "rename into place");
    assert!(status.failures[0].advice.contains("a folder above it was removed or renamed"), "{status:?}");
    assert!(!site.pfs("out/d/f").exists());
}

#[test]
fn what_is_put_in_the_place_of_a_copy_keeps_its_mode() {
    let site = Site::new();
    let private = site.pfs("private");
    fs::write(&private, b"private").unwrap();
    fs::set_permissions(&private, fs::Permissions::from_mode(0o600)).unwrap();
    let folder = site.pfs("out/d");
    let status = with_event(&site, "out", {
        let private = private.clone();
        move || {
            let part = part(&folder);
            fs::remove_file(&part).unwrap();
            fs::hard_link(&private, &part).unwrap();
        }
    });
    assert_eq!(status.state, StageState::Failed);
    assert_eq!(fs::metadata(&private).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(fs::read(&private).unwrap(), b"private");
}

/// Puts another in the place of `place`, as long, and as old: only what it is tells them apart.
fn replace(place: &Path) {
    let other = place.with_file_name("other");
    fs::copy(place, &other).map(drop).or_else(|_| symlink("old", &other)).unwrap();
    fs::rename(&other, place).unwrap();
}

/// Removes `place` and makes another there, which has its inode number where that is free to be used again.
fn make_again(place: &Path) {
    let is_link = fs::symlink_metadata(place).unwrap().is_symlink();
    fs::remove_file(place).unwrap();
    if is_link { symlink("old", place).unwrap() } else { fs::write(place, b"old").unwrap() }
}

/// Stages a file and a link out while somebody does so to what is about to get its name, so many times.
fn with_others_in_place(site: &Site, times: usize, replace: fn(&Path)) -> StageStatus {
    fs::create_dir_all(site.buffer("d")).unwrap();
    fs::write(site.buffer("d/f"), b"new").unwrap();
    symlink("new", site.buffer("d/link")).unwrap();
    let pfs = FaultyPfs::default();
    for _ in 0..times {
        pfs.shared.at_rename.lock().unwrap().push(Box::new(replace));
    }
    let status = site.run_on(pfs.clone(), &site.spec(Direction::Out, StageKind::Directory, "out", ""));
    assert!(times > 5 || pfs.shared.at_rename.lock().unwrap().is_empty(), "nothing was replaced");
    status
}

#[track_caller]
fn is_staged_all_the_same(site: &Site, replace: fn(&Path)) {
    let status = with_others_in_place(site, 2, replace);
    assert_eq!((status.state, &status.failures), (StageState::Complete, &vec![]));
    assert_eq!(fs::read(site.pfs("out/d/f")).unwrap(), b"new");
    assert_eq!(fs::read_link(site.pfs("out/d/link")).unwrap(), Path::new("new"));
}

#[test]
fn what_is_put_in_the_place_of_a_verified_copy_is_never_called_staged() {
    let site = Site::new();
    is_staged_all_the_same(&site, replace);

    let site = Site::new();
    let status = with_others_in_place(&site, 100, replace);
    assert_eq!((status.state, status.failures.len()), (StageState::Failed, 2), "{status:?}");
    for failure in &status.failures {
        assert_eq!((failure.operation.as_str(), failure.side), ("rename into place", Side::Pfs));
        assert!(failure.message.contains("it changed while it was copied"), "{failure:?}");
    }
}

#[test]
fn what_is_made_with_the_inode_number_of_a_removed_copy_is_never_called_staged() {
    let site = Site::new();
    is_staged_all_the_same(&site, make_again);
}

#[test]
fn what_is_put_in_the_place_of_a_copy_gets_no_further_name() {
    let site = Site::new();
    let [copy, name] = ["copy", "name"].map(|name| site.pfs(name));
    fs::write(&copy, b"new").unwrap();
    let pfs = Pfs::default();
    let found = pfs.find(&copy).unwrap();
    assert!(pfs.link(&found, &name).is_ok());
    assert_eq!(fs::read(&name).unwrap(), b"new");
    fs::remove_file(&name).unwrap();
    replace(&copy);
    assert_eq!(pfs.link(&found, &name).err(), Some(Errno::NOENT));
    assert!(fs::symlink_metadata(&name).is_err(), "it has one more name");
}

#[test]
fn the_folder_that_a_link_of_the_user_leads_to_is_the_destination_to_the_end() {
    let site = Site::new();
    for name in ["real", "other"] {
        fs::create_dir(site.pfs(name)).unwrap();
    }
    symlink("real", site.pfs("link")).unwrap();
    let link = site.pfs("link");
    let status = with_event(&site, "link/out", move || {
        fs::remove_file(&link).unwrap();
        symlink("other", &link).unwrap();
    });
    assert_eq!((status.state, &status.failures), (StageState::Complete, &vec![]));
    assert_eq!(fs::read(site.pfs("real/out/d/f")).unwrap(), b"new");
    assert_eq!(fs::read_dir(site.pfs("other")).unwrap().count(), 0);
}

#[test]
fn a_link_in_the_place_of_a_folder_fails_what_is_below_and_is_named() {
    let site = Site::new();
    fs::create_dir(site.pfs("private")).unwrap();
    let [folder, away, private] = ["out/d", "out/away", "private"].map(|name| site.pfs(name));
    let status = with_event(&site, "out", move || {
        fs::rename(&folder, &away).unwrap();
        symlink(&private, &folder).unwrap();
    });
    assert_eq!(status.state, StageState::Failed);
    let failure = &status.failures[0];
    assert_eq!(failure.errno, Errno::NOTDIR.raw_os_error());
    assert!(failure.path.ends_with("out/d/f") || failure.path.ends_with("out/d"), "{failure:?}");
    assert!(failure.advice.contains("or a symbolic link (none below"), "{failure:?}");
    assert_eq!(fs::read_dir(site.pfs("private")).unwrap().count(), 0);
    assert_eq!(fs::read_dir(site.pfs("out/away")).unwrap().count(), 0, "a part is left");
}

/// Folders that stages may reach, and others, with links from these to those and from outside to these.
fn site_with_limits() -> Site {
    let site = Site::new();
    for name in ["open/set", "closed/set"] {
        fs::create_dir_all(site.pfs(name)).unwrap();
        fs::write(site.pfs(name).join("f"), name).unwrap();
    }
    symlink(site.pfs("closed"), site.pfs("open/link")).unwrap();
    symlink(site.pfs("closed/set/f"), site.pfs("open/f")).unwrap();
    symlink(site.pfs("open"), site.pfs("way")).unwrap();
    fs::write(site.buffer("result"), "result").unwrap();
    let line = |name: &str, to: &str| format!("{} $DW_JOB_STRIPED/{to}\n", site.pfs(name).display());
    fs::write(site.pfs("open/list"), line("open/set/f", "a") + &line("closed/set/f", "b")).unwrap();
    site
}

#[test]
fn a_stage_reaches_only_the_folders_that_the_site_lets_it() {
    let site = site_with_limits();
    let (inward, outward) = (Direction::In, Direction::Out);
    for (direction, kind, pfs, is_open) in [
        (inward, StageKind::Directory, "open/set", true),
        (inward, StageKind::Directory, "way/set", true),
        (inward, StageKind::Directory, "closed/set", false),
        (inward, StageKind::Directory, "open/link/set", false),
        (inward, StageKind::File, "closed/set/f", false),
        (inward, StageKind::List, "open/list", false),
        (outward, StageKind::Directory, "open/out/new", true),
        (outward, StageKind::Directory, "closed/out/new", false),
        (outward, StageKind::File, "open/link/f", false),
    ] {
        let buffer = if kind == StageKind::File && direction == outward { "result" } else { "" };
        let spec = site.spec(direction, kind, pfs, buffer);
        let status = site.run_on(Pfs::within(&[site.pfs("open"), "/nowhere".into()]), &spec);
        assert_eq!(status.state == StageState::Complete, is_open, "{direction:?} {pfs}: {status:?}");
        if let Some(error) = status.error {
            assert_eq!((&error.code, error.blame), (&ErrorCode::StagePath, Blame::User), "{error:?}");
            assert!(error.message.contains("/pfs/closed") && error.message.contains("/pfs/open, /nowhere"));
        }
    }
    assert!(!site.pfs("closed/out").exists() && !site.pfs("closed/f").exists());
    assert!(!site.buffer("a").exists(), "a list of which one line is refused was begun");
}

#[test]
fn a_link_to_a_file_leads_out_of_the_folders_that_stages_may_reach_as_little() {
    let site = site_with_limits();
    let spec = site.spec(Direction::In, StageKind::File, "open/f", "c");
    let status = site.run_on(Pfs::within(&[site.pfs("open")]), &spec);
    assert_eq!(status.state, StageState::Failed);
    assert!(status.failures[0].advice.contains("pfs_roots"), "{status:?}");
    assert!(!site.buffer("c").exists());
}
