//! Trees with every kind of entry, staged in and out.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

use crate::support::Site;
use crate::support::forest::{assert_same, bytes, grow, survey};
use model::phase::{Direction, StageKind, StageState};
use wire::control::ErrorCode;

#[test]
fn every_kind_of_entry_survives_the_way_in_and_the_way_out() {
    let site = Site::new();
    grow(&site.pfs("set"));
    let before = survey(&site.pfs("set"));

    let status = site.stage_in(StageKind::Directory, "set", "");
    assert_eq!((status.state, &status.failures), (StageState::Complete, &vec![]));
    assert_same(&before, &site.buffer(""));
    let progress = status.progress;
    assert_eq!(progress.entries_total, before.len() as u64);
    assert_eq!(progress.entries_done, progress.entries_total);
    assert_eq!(progress.bytes_done, progress.bytes_total);
    assert_eq!(progress.bytes_verified, progress.bytes_total);

    let status = site.stage_out(StageKind::Directory, "", "new/results");
    assert_eq!((status.state, &status.failures), (StageState::Complete, &vec![]));
    assert_same(&before, &site.pfs("new/results"));
}

#[test]
fn names_of_one_file_are_names_of_one_file_again() {
    let site = Site::new();
    grow(&site.pfs("set"));
    site.stage_in(StageKind::Directory, "set", "sub/");
    let ino = |name: &str| fs::metadata(site.buffer("sub").join(name)).unwrap().ino();
    assert_eq!(ino("deep/first name"), ino("second name"));
    assert_eq!(ino("deep/first name"), ino("deep/deeper/third name"));
}

#[test]
fn a_file_larger_than_a_chunk_is_copied_whole_and_verified() {
    let site = Site::new();
    let contents = bytes(5, (150 << 20) + 12_345);
    fs::write(site.pfs("large"), &contents).unwrap();
    let status = site.stage_in(StageKind::File, "large", "large");
    assert_eq!(status.state, StageState::Complete, "{status:?}");
    assert!(fs::read(site.buffer("large")).unwrap() == contents);
    assert_eq!(status.progress.bytes_verified, contents.len() as u64);

    let status = site.stage_out(StageKind::File, "large", "out/");
    assert_eq!(status.state, StageState::Complete, "{status:?}");
    assert!(fs::read(site.pfs("out/large")).unwrap() == contents);
}

#[test]
fn a_file_goes_to_the_named_file_and_missing_folders_are_made() {
    let site = Site::new();
    fs::write(site.pfs("a"), b"A").unwrap();
    assert_eq!(site.stage_in(StageKind::File, "a", "x/y/b").state, StageState::Complete);
    assert_eq!(fs::read(site.buffer("x/y/b")).unwrap(), b"A");
}

#[test]
fn a_file_goes_below_a_destination_that_is_a_folder_or_ends_in_a_slash() {
    let site = Site::new();
    fs::write(site.pfs("a"), b"A").unwrap();
    fs::create_dir(site.buffer("there")).unwrap();
    for destination in ["", "new/", "there"] {
        assert_eq!(site.stage_in(StageKind::File, "a", destination).state, StageState::Complete);
        assert_eq!(fs::read(site.buffer(destination).join("a")).unwrap(), b"A", "{destination}");
    }
}

#[test]
fn the_contents_of_a_directory_go_into_the_destination_with_and_without_slashes() {
    for (source, destination) in [("set", "to"), ("set/", "to"), ("set", "to/"), ("set/", "to/")] {
        let site = Site::new();
        fs::create_dir(site.pfs("set")).unwrap();
        fs::write(site.pfs("set/a"), b"A").unwrap();
        assert_eq!(site.stage_in(StageKind::Directory, source, destination).state, StageState::Complete);
        assert_eq!(fs::read(site.buffer("to/a")).unwrap(), b"A", "{source} to {destination}");
        let status = site.stage_out(StageKind::Directory, destination, "back/");
        assert_eq!(status.state, StageState::Complete);
        assert_eq!(fs::read(site.pfs("back/a")).unwrap(), b"A", "{destination}");
    }
}

#[test]
fn a_named_link_is_followed_to_its_file_on_both_sides() {
    let site = Site::new();
    fs::write(site.pfs("real"), b"data").unwrap();
    symlink("real", site.pfs("latest")).unwrap();
    assert_eq!(site.stage_in(StageKind::File, "latest", "in").state, StageState::Complete);
    assert_eq!(fs::read(site.buffer("in")).unwrap(), b"data");
    assert!(!fs::symlink_metadata(site.buffer("in")).unwrap().is_symlink());

    fs::create_dir(site.buffer("d")).unwrap();
    symlink("../in", site.buffer("d/link")).unwrap();
    assert_eq!(site.stage_out(StageKind::File, "d/link", "out").state, StageState::Complete);
    assert_eq!(fs::read(site.pfs("out")).unwrap(), b"data");
}

#[test]
fn a_named_link_that_leaves_the_buffer_is_refused() {
    let site = Site::new();
    for (name, text) in [("absolute", "/etc/hostname"), ("above", "../../x")] {
        symlink(text, site.buffer(name)).unwrap();
        let error = site.stage_out(StageKind::File, name, "out").error.unwrap();
        assert!(error.advice.contains("leads out of the buffer"), "{error:?}");
    }
}

#[test]
fn what_was_there_is_replaced_and_a_link_in_its_place_is_not_written_through() {
    let site = Site::new();
    fs::write(site.pfs("precious"), b"precious").unwrap();
    fs::create_dir(site.pfs("out")).unwrap();
    fs::write(site.pfs("out/old"), b"an older and longer version").unwrap();
    symlink("../precious", site.pfs("out/link")).unwrap();
    for name in ["old", "link"] {
        fs::write(site.buffer(name), b"new").unwrap();
    }
    assert_eq!(site.stage_out(StageKind::Directory, "", "out").state, StageState::Complete);
    assert_eq!(fs::read(site.pfs("out/old")).unwrap(), b"new");
    assert_eq!(fs::read(site.pfs("out/link")).unwrap(), b"new");
    assert!(!fs::symlink_metadata(site.pfs("out/link")).unwrap().is_symlink());
    assert_eq!(fs::read(site.pfs("precious")).unwrap(), b"precious");
}

#[test]
fn a_folder_in_the_way_of_a_file_is_a_failure_and_stays() {
    let site = Site::new();
    fs::create_dir_all(site.pfs("out/name/inside")).unwrap();
    fs::write(site.buffer("name"), b"x").unwrap();
    fs::write(site.buffer("other"), b"y").unwrap();
    let status = site.stage_out(StageKind::Directory, "", "out");
    assert_eq!(status.state, StageState::Failed);
    assert_eq!(status.failures.len(), 1, "{status:?}");
    assert!(status.failures[0].path.ends_with("out/name"), "{status:?}");
    assert!(site.pfs("out/name/inside").is_dir());
    assert_eq!(fs::read(site.pfs("out/other")).unwrap(), b"y");
}

#[test]
fn a_link_that_leads_nowhere_in_place_of_a_folder_is_a_failure_and_stays() {
    let site = Site::new();
    std::os::unix::fs::symlink("nowhere", site.pfs("out")).unwrap();
    fs::write(site.buffer("name"), b"x").unwrap();
    let status = site.stage_out(StageKind::Directory, "", "out/deep");
    assert_eq!(status.state, StageState::Failed);
    assert_eq!(status.failures.len(), 1, "{status:?}");
    assert_eq!(status.failures[0].errno, rustix::io::Errno::EXIST.raw_os_error(), "{status:?}");
    assert_eq!(fs::read_link(site.pfs("out")).unwrap().to_str(), Some("nowhere"));
}

#[test]
fn a_destination_folder_that_was_there_keeps_its_mode() {
    let site = Site::new();
    // Only root can use a folder that is read-only for its owner.
    let own = if rustix::process::geteuid().is_root() { 0o510 } else { 0o750 };
    for (path, mode) in [(site.pfs("set"), 0o555), (site.buffer("to"), own)] {
        fs::create_dir(&path).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
    }
    let mode = |path| fs::metadata(path).unwrap().permissions().mode() & 0o7777;
    site.stage_in(StageKind::Directory, "set", "to");
    assert_eq!(mode(site.buffer("to")), own);
    site.stage_in(StageKind::Directory, "set", "made");
    assert_eq!(mode(site.buffer("made")), 0o555);
}

#[test]
fn a_source_that_is_missing_or_of_the_wrong_kind_is_one_clear_error() {
    let site = Site::new();
    fs::write(site.pfs("file"), b"").unwrap();
    fs::create_dir(site.pfs("folder")).unwrap();
    let message = |kind, source| {
        let status = site.stage_in(kind, source, "to");
        assert_eq!(status.state, StageState::Failed);
        let error = status.error.unwrap();
        format!("{error}")
    };
    let missing = message(StageKind::Directory, "nowhere");
    assert!(missing.contains("pfs/nowhere: No such file or directory; check the spelling"), "{missing}");
    let folder = message(StageKind::File, "folder");
    assert!(folder.contains("needs type=directory"), "{folder}");
    let file = message(StageKind::Directory, "file");
    assert!(file.contains("needs type=file"), "{file}");
}

#[test]
fn a_path_that_leads_out_of_the_buffer_is_refused() {
    let site = Site::new();
    fs::write(site.pfs("a"), b"A").unwrap();
    let status = site.run(&site.spec(Direction::In, StageKind::File, "a", "x/../../b"));
    assert_eq!(status.error.unwrap().code, ErrorCode::StagePath);
    assert!(!site.path().join("b").exists());
}
