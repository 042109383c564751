//! Nothing under a temporary name stays on the PFS, whatever was killed and whatever was renamed since.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::Ordering;
use std::time::Duration;

use model::phase::{Direction, StageKind, StageState};
use wire::node::StageSpec;

use crate::support::Site;
use crate::support::faulty_pfs::FaultyPfs;
use crate::support::forest::bytes;
use crate::worker::{Work, end_of};

const MIB: u64 = 1 << 20;

/// Temporary names below a folder.
fn parts(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap().flatten() {
        if entry.file_type().unwrap().is_dir() {
            found.extend(parts(&entry.path()));
        } else if entry.file_name().to_string_lossy().starts_with(".forebay.") {
            found.push(entry.path());
        }
    }
    found
}

/// A stage-out whose worker has a small or a large file of each of two folders in hand.
fn at_work() -> (Work, StageSpec, Child) {
    let work = Work::new(1, 400 * MIB);
    for folder in ["a", "b"] {
        fs::create_dir_all(work.site.pfs("set").join(folder)).unwrap();
        for (name, size) in [("large", 40 * MIB), ("small", 2 * MIB)] {
            let path = work.site.pfs("set").join(folder).join(name);
            fs::write(path, bytes(size, usize::try_from(size).unwrap())).unwrap();
        }
    }
    let filled = work.start_with(&work.spec("0.0", Direction::In, "set", ""), &[]);
    assert_eq!(end_of(filled).state, StageState::Complete);
    let spec = work.spec("1.0", Direction::Out, "out", "");
    let mut slow = spec.clone();
    slow.policy.bandwidth_bytes_per_s = Some(4 * MIB);
    let mut worker = work.start_with(&slow, &[]);
    let has_part = |folder: &str| {
        let folder = work.site.pfs("out").join(folder);
        folder.exists() && !parts(&folder).is_empty()
    };
    while !(has_part("a") && has_part("b")) {
        assert_eq!(worker.try_wait().unwrap(), None, "it was over too early");
        std::thread::sleep(Duration::from_millis(5));
    }
    (work, spec, worker)
}

/// The same, and the worker was killed then.
fn killed() -> (Work, StageSpec) {
    let (work, spec, mut worker) = at_work();
    worker.kill().unwrap();
    worker.wait().unwrap();
    // Nobody reads what it says; only its end matters.
    drop(worker.stdout.take());
    assert!(parts(&work.site.pfs("out")).len() >= 2);
    (work, spec)
}

#[test]
fn a_stage_that_goes_on_finds_the_parts_in_a_folder_that_was_renamed() {
    let (work, spec) = killed();
    fs::create_dir(work.site.pfs("out/elsewhere")).unwrap();
    fs::rename(work.site.pfs("out/a"), work.site.pfs("out/elsewhere/was a")).unwrap();
    let status = end_of(work.start_with(&spec, &[]));
    assert_eq!(status.state, StageState::Complete, "{status:?}");
    assert_eq!(parts(&work.site.pfs("out")), Vec::<PathBuf>::new());
    for name in ["a/large", "a/small", "b/large", "b/small"] {
        let (from, to) = (work.site.pfs("set").join(name), work.site.pfs("out").join(name));
        assert!(fs::read(from).unwrap() == fs::read(to).unwrap(), "{name} differs");
    }
}

#[test]
fn a_stage_whose_folder_is_renamed_while_it_works_fails_and_leaves_no_part_in_it() {
    let (work, _, worker) = at_work();
    fs::create_dir(work.site.pfs("out/elsewhere")).unwrap();
    fs::rename(work.site.pfs("out/a"), work.site.pfs("out/elsewhere/was a")).unwrap();
    let status = end_of(worker);
    assert_eq!(status.state, StageState::Failed, "{status:?}");
    assert!(status.failures.iter().any(|failure| failure.errno == 2), "{status:?}");
    assert_eq!(parts(&work.site.pfs("out")), Vec::<PathBuf>::new());
}

#[test]
fn a_stage_whose_destination_is_replaced_while_it_works_leaves_no_part_in_the_old_one() {
    let (work, _, worker) = at_work();
    fs::rename(work.site.pfs("out"), work.site.pfs("out.old")).unwrap();
    fs::create_dir(work.site.pfs("out")).unwrap();
    let status = end_of(worker);
    assert_eq!(status.state, StageState::Failed, "{status:?}");
    assert_eq!(parts(&work.site.pfs("")), Vec::<PathBuf>::new());
}

#[test]
fn a_stage_that_is_stopped_leaves_no_part_in_a_folder_that_was_renamed() {
    let (work, _, worker) = at_work();
    fs::rename(work.site.pfs("out/b"), work.site.pfs("out/c")).unwrap();
    let pid = rustix::process::Pid::from_child(&worker);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    end_of(worker);
    assert_eq!(parts(&work.site.pfs("out")), Vec::<PathBuf>::new());
}

#[test]
fn a_stage_that_is_given_up_leaves_nothing_though_its_worker_was_killed() {
    let (work, spec) = killed();
    fs::rename(work.site.pfs("out/b"), work.site.pfs("out/c")).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_forebay-stage"));
    let path = |suffix: &str| work.site.path().join(format!("{}.{suffix}", spec.id));
    command.arg("--spec").arg(path("json")).arg("--journal").arg(path("journal")).arg("--clear");
    assert!(command.stdout(Stdio::null()).status().unwrap().success());
    assert_eq!(parts(&work.site.pfs("out")), Vec::<PathBuf>::new());
}

#[test]
fn what_a_call_has_made_whose_answer_was_lost_does_not_stay() {
    let site = Site::new();
    let set = site.buffer("set");
    fs::create_dir(&set).unwrap();
    fs::write(set.join("file"), b"file").unwrap();
    fs::hard_link(set.join("file"), set.join("second")).unwrap();
    std::os::unix::fs::symlink("file", set.join("link")).unwrap();
    let spec = site.spec(Direction::Out, StageKind::Directory, "set", "set");
    for (lost, expected) in [(1, StageState::Complete), (2, StageState::Complete), (-1, StageState::Failed)] {
        let pfs = FaultyPfs::default();
        pfs.shared.lost_answers.store(lost, Ordering::Relaxed);
        let status = site.run_on(pfs, &spec);
        assert_eq!(status.state, expected, "{status:?}");
        let names = fs::read_dir(site.pfs("set")).unwrap().map(|entry| entry.unwrap().file_name());
        let mut names: Vec<_> = names.map(|name| name.into_string().unwrap()).collect();
        names.sort_unstable();
        let whole = ["file", "link", "second"];
        let left: &[&str] = if expected == StageState::Complete { &whole } else { &[] };
        assert_eq!(names, left, "{lost} lost");
        fs::remove_dir_all(site.pfs("set")).unwrap();
    }
}
