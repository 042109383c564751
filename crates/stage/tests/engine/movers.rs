//! Stages that all storage nodes work on.

use std::fs;
use std::process::Child;
use std::time::Instant;

use model::phase::{Direction, StageState};
use rustix::process::{Pid, Signal, kill_process};
use wire::control::{StageStatus, VolumeKind};
use wire::data::FileKind;
use wire::data::hello::ENCRYPTED;
use wire::node::{StagePace, StageSpec};

use crate::support::Site;
use crate::support::cluster::{Cluster, KEY};
use crate::support::forest::{assert_same, bytes, survey};
use crate::worker::{Work, end_of, wait_until};

const MIB: u64 = 1 << 20;

/// Starts the worker on the first node; the others are on other hosts, as far as it can see.
pub fn start(work: &Work, spec: &StageSpec) -> Child {
    let mut spec = spec.clone();
    spec.target.nodes.iter_mut().for_each(|node| node.unix = None);
    let here = spec.target.nodes[0].tcp.clone();
    work.start_with(&spec, &["--data-address", &here])
}

pub fn run(work: &Work, spec: &StageSpec) -> StageStatus {
    end_of(start(work, spec))
}

pub fn helped(status: &StageStatus, node: &str) -> u64 {
    status.notes.helpers.iter().find(|(name, _)| name == node).map_or(0, |(_, bytes)| *bytes)
}

#[test]
fn every_storage_node_copies_a_part_of_a_large_file() {
    copies_a_large_file(&Work::new(3, 200 * MIB));
}

/// The mover is another process than the one that took the coordinator's call.
#[test]
fn every_storage_node_copies_a_part_where_what_is_said_of_the_buffer_is_encrypted() {
    let (site, key) = (Site::new(), format!("{ENCRYPTED}{KEY}"));
    let folder = site.path().join("nodes");
    let cluster = Cluster::start_on((&key, VolumeKind::Directory), &folder, 3, 200 * MIB, &site.owner);
    copies_a_large_file(&Work { site, cluster });
}

fn copies_a_large_file(work: &Work) {
    fs::create_dir(work.site.pfs("set")).unwrap();
    let contents = bytes(1, (200 << 20) + 777);
    fs::write(work.site.pfs("set/large"), &contents).unwrap();
    let mut way_in = work.spec("1.0", Direction::In, "set", "");
    let mut way_out = work.spec("1.1", Direction::Out, "out", "");
    // What is fast on one disk is over before the last node has begun.
    for spec in [&mut way_in, &mut way_out] {
        spec.policy.bandwidth_bytes_per_s = Some(400 * MIB);
        let status = run(work, spec);
        assert_eq!((status.state, &status.failures), (StageState::Complete, &vec![]));
        assert_eq!(status.notes.remarks, []);
        assert_eq!(status.progress.bytes_verified, contents.len() as u64);
        for node in ["n1", "n2"] {
            assert!(helped(&status, node) > 16 * MIB, "{:?}", status.notes);
        }
    }
    assert!(fs::read(work.site.pfs("out/large")).unwrap() == contents);
    assert_eq!(fs::read_dir(work.site.pfs("out")).unwrap().count(), 1, "a part was left behind");
}

/// Six folders with 200 files each, of up to 20 kB.
pub fn small_files(work: &Work) {
    for folder in 0..6 {
        fs::create_dir_all(work.site.pfs(&format!("set/d{folder}"))).unwrap();
        for file in 0..200 {
            let contents = bytes(folder * 1000 + file, (file * 100) as usize);
            fs::write(work.site.pfs(&format!("set/d{folder}/f{file}")), contents).unwrap();
        }
    }
}

#[test]
fn every_storage_node_copies_some_of_many_small_files() {
    let work = Work::new(3, 200 * MIB);
    small_files(&work);
    let before = survey(&work.site.pfs("set"));
    for (id, direction, folder) in [("1.0", Direction::In, "set"), ("1.1", Direction::Out, "out")] {
        let mut spec = work.spec(id, direction, folder, "");
        spec.policy.manifest = Some(work.site.pfs(&format!("manifest{id}")));
        // 12 MB: without it all is over before the last node has begun.
        spec.policy.bandwidth_bytes_per_s = Some(4 * MIB);
        let status = run(&work, &spec);
        assert_eq!((status.state, &status.failures), (StageState::Complete, &vec![]));
        assert_eq!((status.progress.entries_done, &status.notes.remarks), (1206, &vec![]));
        for node in ["n1", "n2"] {
            assert!(helped(&status, node) > 0, "{:?}", status.notes.helpers);
        }
        let manifest = fs::read_to_string(spec.policy.manifest.unwrap()).unwrap();
        assert_eq!(manifest.matches("crc32c").count(), 1200);
    }
    assert_same(&before, &work.site.pfs("out"));
}

#[test]
fn what_a_mover_was_at_when_it_was_killed_is_copied_by_others() {
    let work = Work::new(2, 200 * MIB);
    small_files(&work);
    fs::write(work.site.pfs("set/large"), bytes(9, 100 << 20)).unwrap();
    let before = survey(&work.site.pfs("set"));
    for (id, direction, folder) in [("1.0", Direction::In, "set"), ("1.1", Direction::Out, "out")] {
        let mut spec = work.spec(id, direction, folder, "");
        // So slow that it cannot be over before the mover is killed.
        spec.policy.bandwidth_bytes_per_s = Some(40 * MIB);
        work.cluster.movers.running.lock().unwrap().clear();
        let child = start(&work, &spec);
        let mover = mover(&work);
        work.until_within_a_file(&spec);
        kill_process(mover, Signal::KILL).unwrap();
        let status = end_of(child);
        assert_eq!((status.state, &status.failures), (StageState::Complete, &vec![]));
        assert!(status.notes.remarks[0].text.contains("n1 does not help any more"), "{:?}", status.notes);
    }
    assert_same(&before, &work.site.pfs("out"));
}

/// Waits until the other node's mover runs.
pub fn mover(work: &Work) -> Pid {
    let running = || work.cluster.movers.running.lock().unwrap().get(&1).copied();
    wait_until("a mover runs", || running().is_some());
    Pid::from_raw(running().unwrap() as i32).unwrap()
}

#[test]
fn a_mover_that_outlives_its_coordinator_removes_nothing_that_the_next_run_made() {
    let work = Work::new(2, 200 * MIB);
    small_files(&work);
    let before = survey(&work.site.pfs("set"));
    for round in 0..4 {
        let folder = format!("in{round}");
        let spec = work.spec(&format!("{round}.0"), Direction::In, "set", &folder);
        work.cluster.movers.running.lock().unwrap().clear();
        let mut slow = spec.clone();
        slow.policy.bandwidth_bytes_per_s = Some(4 * MIB);
        let mut coordinator = start(&work, &slow);
        let outlived = mover(&work);
        work.until_some_are_done(&spec);
        kill_process(outlived, Signal::STOP).unwrap();
        coordinator.kill().unwrap();
        coordinator.wait().unwrap();
        let status = run(&work, &spec);
        assert_eq!((status.state, &status.failures), (StageState::Complete, &vec![]));
        kill_process(outlived, Signal::CONT).unwrap();
        wait_until("the mover is gone", || kill_process(outlived, Signal::CONT).is_err());
        let target = format!("out{round}");
        let status = run(&work, &work.spec(&format!("{round}.1"), Direction::Out, &target, &folder));
        assert_eq!((status.state, &status.failures), (StageState::Complete, &vec![]));
        // Its last part may be left, and folders have the time at which it removed others.
        let found = survey(&work.site.pfs(&target));
        for (path, leaf) in before.iter().filter(|(_, leaf)| leaf.kind != FileKind::Directory) {
            assert_eq!(found.get(path), Some(leaf), "{}", path.display());
        }
    }
}

#[test]
fn a_node_with_another_file_system_under_the_path_is_left_out_and_named() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let work = Work::new(3, 200 * MIB);
    small_files(&work);
    fs::write(work.site.pfs("set/large"), bytes(9, 100 << 20)).unwrap();
    let before = survey(&work.site.pfs("set"));
    *work.cluster.movers.blind.lock().unwrap() = Some((2, work.site.pfs("")));
    for (id, direction, folder) in [("1.0", Direction::In, "set"), ("1.1", Direction::Out, "out")] {
        let status = run(&work, &work.spec(id, direction, folder, ""));
        assert_eq!((status.state, &status.failures), (StageState::Complete, &vec![]));
        assert_eq!(helped(&status, "n2"), 0);
        let remarks = &status.notes.remarks;
        assert!(remarks.len() == 1 && remarks[0].text.contains("n2 does not help"), "{remarks:?}");
    }
    assert_same(&before, &work.site.pfs("out"));
}

/// Runs a stage, which must end well without the other node, and say why.
fn assert_not_helped(work: &Work, spec: &StageSpec, why: &str) {
    let status = run(work, spec);
    assert_eq!((status.state, &status.failures), (StageState::Complete, &vec![]));
    assert_eq!(helped(&status, "n1"), 0);
    let remarks = &status.notes.remarks;
    assert!(remarks.len() == 1 && remarks[0].text.contains(why), "{remarks:?}");
}

#[test]
fn who_cannot_show_that_control_gave_him_the_stage_is_not_helped() {
    let work = Work::new(2, 200 * MIB);
    small_files(&work);
    let spec = work.spec("1.0", Direction::In, "set", "");
    // Another stage's, as one who once saw it might use.
    let stolen = StageSpec { ticket: work.spec("7.0", Direction::In, "set", "").ticket, ..spec.clone() };
    assert_not_helped(&work, &stolen, "cannot show that control gave it this stage");
    let none = StageSpec { ticket: String::new(), ..work.spec("1.1", Direction::Out, "out", "") };
    assert_not_helped(&work, &none, "cannot show that control gave it this stage");
    assert_same(&survey(&work.site.pfs("set")), &work.site.pfs("out"));
}

#[test]
fn roots_stages_are_helped_only_where_the_site_allows_it() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let work = Work::new(2, 200 * MIB);
    small_files(&work);
    *work.cluster.movers.not_as_root.lock().unwrap() = Some(1);
    assert_not_helped(&work, &work.spec("1.0", Direction::In, "set", ""), "movers_as_root");
}

#[test]
fn a_mover_keeps_the_limit_of_its_node() {
    const LIMIT: u64 = 16 * MIB;
    let work = Work::new(2, 200 * MIB);
    fs::create_dir(work.site.pfs("set")).unwrap();
    fs::write(work.site.pfs("set/large"), bytes(1, 100 << 20)).unwrap();
    let pace = StagePace { node_bandwidth_bytes_per_s: Some(LIMIT), ..StagePace::default() };
    *work.cluster.movers.pace.lock().unwrap() = Some((1, pace));
    let mut spec = work.spec("1.0", Direction::In, "set", "");
    // The coordinator has none, and would give the mover its half at once.
    spec.policy.bandwidth_bytes_per_s = Some(200 * MIB);
    let begun = Instant::now();
    let status = run(&work, &spec);
    let took = begun.elapsed().as_secs_f64();
    assert_eq!((status.state, &status.failures), (StageState::Complete, &vec![]));
    let moved = helped(&status, "n1");
    assert!(moved >= 16 * MIB, "it did not help: {:?}", status.notes);
    // Each of its four threads may have a block of 1 MiB on credit.
    assert!(moved as f64 <= LIMIT as f64 * (took + 0.1) + (4 * MIB) as f64, "{moved} bytes in {took} s");
}
