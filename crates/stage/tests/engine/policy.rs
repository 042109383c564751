//! What may be chosen about a stage.

use std::fs;
use std::os::unix::fs::{FileExt, symlink};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use model::phase::{Direction, StageKind, StageState};
use serde_json::Value;
use stage::monitor::Monitor;
use wire::control::ErrorCode;
use wire::node::{StagePace, Verify};

use crate::support::Site;
use crate::support::faulty_pfs::FaultyPfs;
use crate::support::forest::bytes;

/// A folder in the buffer with a file, a link, and a file of 20 chunks that is nearly all hole.
fn results() -> Site {
    let site = Site::new();
    fs::create_dir_all(site.buffer("set/sub")).unwrap();
    fs::write(site.buffer("set/sub/a"), b"123456789").unwrap();
    symlink("a", site.buffer("set/sub/b")).unwrap();
    let large = fs::File::create(site.buffer("set/large")).unwrap();
    large.set_len(20 << 24).unwrap();
    site
}

fn run(site: &Site, verify: Verify) -> wire::control::StageStatus {
    let mut spec = site.spec(Direction::Out, StageKind::Directory, "out", "set");
    spec.policy.verify = verify;
    spec.policy.manifest = Some(site.pfs("manifest"));
    site.run(&spec)
}

#[test]
fn a_manifest_tells_of_every_entry_how_it_was_checked() {
    let site = results();
    assert_eq!(run(&site, Verify::Sampled).state, StageState::Complete);
    let text = fs::read_to_string(site.pfs("manifest")).unwrap();
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let of = |path: &str| {
        let path = site.pfs(path).display().to_string();
        lines.iter().find(|line| line["path"] == path.as_str()).unwrap_or_else(|| panic!("{path}: {text}"))
    };
    let file = of("out/sub/a");
    // CRC32C of "123456789", as in RFC 3720, B.4.
    assert_eq!((file["bytes"].as_u64(), file["crc32c"].as_str()), (Some(9), Some("e3069283")));
    assert_eq!((file["verified"].as_str(), file["attempts"].as_u64()), (Some("full"), Some(1)));
    assert_eq!(of("out/large")["verified"], "sampled");
    assert_eq!(of("out/sub/b")["kind"], "Symlink");
    assert_eq!(of("out/sub")["kind"], "Directory");
    let end = lines.last().unwrap();
    assert_eq!((end["state"].as_str(), end["entries"].as_u64()), (Some("complete"), Some(4)));
    assert_eq!(lines.len(), 5, "{text}");
    assert_eq!(fs::read_dir(site.pfs("")).unwrap().count(), 2, "something was left behind");
}

#[test]
fn a_second_run_writes_the_manifest_of_all_files_though_it_copies_none() {
    let site = results();
    assert_eq!(run(&site, Verify::Full).state, StageState::Complete);
    let first = fs::read_to_string(site.pfs("manifest")).unwrap();
    let status = run(&site, Verify::Full);
    assert_eq!((status.state, status.progress.bytes_moved), (StageState::Complete, 0));
    let sorted = |text: &str| {
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    assert_eq!(sorted(&fs::read_to_string(site.pfs("manifest")).unwrap()), sorted(&first));
}

#[test]
fn a_manifest_that_cannot_be_written_fails_the_stage() {
    let site = results();
    let mut spec = site.spec(Direction::Out, StageKind::Directory, "out", "set");
    spec.policy.manifest = Some(site.pfs("nowhere/manifest"));
    let error = site.run(&spec).error.unwrap();
    assert_eq!(error.code, ErrorCode::StageManifest);
    assert!(error.message.contains("nowhere/manifest: No such file"), "{error}");
}

#[test]
fn the_policy_says_how_much_is_read_back() {
    // 20 chunks: the first, the eighth and sixteenth after it, and the last.
    for (verify, read) in [(Verify::Full, 20 << 24), (Verify::Sampled, 4 << 24), (Verify::Off, 0)] {
        let site = results();
        let status = run(&site, verify);
        assert_eq!(status.state, StageState::Complete, "{status:?}");
        let small = if verify == Verify::Off { 0 } else { 9 };
        assert_eq!(status.progress.bytes_verified, read + small, "{verify:?}");
        assert_eq!(status.progress.bytes_to_verify, read + small, "{verify:?}");
    }
}

#[test]
fn nothing_is_copied_while_a_stage_is_paused() {
    let site = Site::new();
    fs::create_dir(site.pfs("set")).unwrap();
    for index in 0..20 {
        fs::write(site.pfs(&format!("set/f{index}")), bytes(index, 1000)).unwrap();
    }
    let spec = site.spec(Direction::In, StageKind::Directory, "set", "");
    let monitor = Arc::new(Monitor::new(&spec.policy));
    monitor.control(&StagePace { paused: true, ..StagePace::default() });
    std::thread::scope(|scope| {
        let stage = scope.spawn(|| site.run_watched(&spec, &monitor));
        while !monitor.status(&spec, StageState::Active).progress.planned {
            std::thread::yield_now();
        }
        let status = monitor.status(&spec, StageState::Active);
        assert!(status.notes.paused && status.progress.eta_ms.is_none());
        assert_eq!(site.faults.files_made.load(Ordering::Relaxed), 0);
        monitor.control(&StagePace::default());
        assert_eq!(stage.join().unwrap().state, StageState::Complete);
    });
}

#[test]
fn holes_are_not_read_back_byte_by_byte() {
    let (site, pfs) = (Site::new(), FaultyPfs::default());
    let file = fs::File::create(site.buffer("sparse")).unwrap();
    file.set_len(1 << 30).unwrap();
    file.write_all_at(b"x", 300 << 20).unwrap();
    let mut spec = site.spec(Direction::Out, StageKind::File, "sparse", "sparse");
    spec.policy.verify = Verify::Full;
    let status = site.run_on(pfs.clone(), &spec);
    assert_eq!(status.state, StageState::Complete, "{status:?}");
    assert_eq!(status.progress.bytes_verified, 1 << 30);
    let read = pfs.shared.read.load(Ordering::Relaxed);
    assert!((1..=16 << 20).contains(&read), "{read} bytes read back");
    let copy = fs::File::open(site.pfs("sparse")).unwrap();
    let mut byte = [0];
    copy.read_exact_at(&mut byte, 300 << 20).unwrap();
    assert_eq!((copy.metadata().unwrap().len(), &byte), (1 << 30, b"x"));
}
