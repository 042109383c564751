//! Movers that hang: their connections live, and they answer nothing.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use model::phase::{Direction, StageState};
use rustix::process::{Pid, Signal, kill_process};
use wire::control::StageStatus;
use wire::data::FileKind;
use wire::mover::SILENCE_MAX;
use wire::node::{StagePace, StageSpec};

use crate::movers::{helped, mover, run, small_files, start};
use crate::support::forest::{Leaf, assert_same, bytes, survey};
use crate::worker::{Work, end_of, wait_until};

const MIB: u64 = 1 << 20;

/// In which a stage ends that nobody waits for in vain.
const ENDS_WITHIN: Duration = Duration::from_secs(150);

/// The end of a stage that may hang.
#[track_caller]
fn end_in_time(child: Child) -> StageStatus {
    let coordinator = Pid::from_child(&child);
    let (sender, ended) = channel();
    std::thread::spawn(move || drop(sender.send(end_of(child))));
    ended.recv_timeout(ENDS_WITHIN).unwrap_or_else(|_| {
        let _ended = kill_process(coordinator, Signal::KILL);
        panic!("the stage does not end");
    })
}

/// Runs a stage whose mover `hangs` in the midst of it.
#[track_caller]
fn run_with_a_mover_that<T>(work: &Work, spec: &StageSpec, hangs: impl FnOnce(Pid) -> T) -> T {
    work.cluster.movers.running.lock().unwrap().clear();
    // So slow that each of its threads is at something for some seconds.
    let pace = StagePace { node_bandwidth_bytes_per_s: Some(4 * MIB), ..StagePace::default() };
    *work.cluster.movers.pace.lock().unwrap() = Some((1, pace));
    let child = start(work, spec);
    let mover = mover(work);
    let lines = || fs::read_to_string(work.journal(spec)).unwrap_or_default().lines().count();
    wait_until("some of it is done", || !work.blocks(spec).is_empty() || lines() >= 20);
    let hung = hangs(mover);
    let status = end_in_time(child);
    *work.cluster.movers.pace.lock().unwrap() = None;
    assert_eq!((status.state, &status.failures), (StageState::Complete, &vec![]));
    assert!(status.notes.remarks[0].text.contains("n1 does not help any more"), "{:?}", status.notes);
    hung
}

fn stopped(mover: Pid) -> Stopped {
    kill_process(mover, Signal::STOP).unwrap();
    Stopped(mover)
}

/// A process that stands still; it ends with this.
struct Stopped(Pid);

impl Stopped {
    /// Lets it go on, until it has ended by itself.
    fn goes_on(self) {
        let _gone = kill_process(self.0, Signal::CONT);
        wait_until("the mover is gone", || kill_process(self.0, Signal::CONT).is_err());
        // Its number may be another's soon.
        std::mem::forget(self);
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        let _ended = kill_process(self.0, Signal::KILL);
    }
}

/// All but the folders: what a mover removes late changes their times.
fn files(found: BTreeMap<PathBuf, Leaf>) -> BTreeMap<PathBuf, Leaf> {
    found.into_iter().filter(|(_, leaf)| leaf.kind != FileKind::Directory).collect()
}

/// A large file in a set of its own.
fn large_file(work: &Work) -> Vec<u8> {
    fs::create_dir(work.site.pfs("set")).unwrap();
    let contents = bytes(9, 160 << 20);
    fs::write(work.site.pfs("set/large"), &contents).unwrap();
    contents
}

/// How often a large file was begun.
fn begun(work: &Work, spec: &StageSpec) -> usize {
    let journal = fs::read_to_string(work.journal(spec)).unwrap();
    journal.lines().filter(|line| line.contains("\"part\":")).count()
}

#[test]
fn the_small_files_of_a_mover_that_stands_still_are_copied_by_others_and_stay() {
    let work = Work::new(2, 200 * MIB);
    small_files(&work);
    let before = survey(&work.site.pfs("set"));
    let status = run(&work, &work.spec("1.0", Direction::In, "set", ""));
    assert_eq!((status.state, &status.failures), (StageState::Complete, &vec![]));
    let stopped = run_with_a_mover_that(&work, &work.spec("1.1", Direction::Out, "out", ""), stopped);
    assert_same(&before, &work.site.pfs("out"));
    stopped.goes_on();
    let (before, found) = (files(before), files(survey(&work.site.pfs("out"))));
    assert!(found == before, "a mover that came back has changed something, or left a part");
}

#[test]
fn a_large_file_in_a_buffer_that_a_mover_which_stands_still_was_at_is_made_again() {
    let work = Work::new(2, 400 * MIB);
    let contents = large_file(&work);
    let spec = work.spec("1.0", Direction::In, "set", "");
    let stopped = run_with_a_mover_that(&work, &spec, stopped);
    assert_eq!(begun(&work, &spec), 2, "it may write into the copy");
    stopped.goes_on();
    let status = run(&work, &work.spec("1.1", Direction::Out, "out", ""));
    assert_eq!((status.state, &status.failures), (StageState::Complete, &vec![]));
    assert!(fs::read(work.site.pfs("out/large")).unwrap() == contents);
}

/// When a write that hangs goes on.
const WRITES_AFTER: Duration = Duration::from_secs(50);

/// As a mover whose host and PFS are away for a while: writes are on their way, and nobody hears of it.
fn cut_off(mover: Pid, log: &Path) -> Strace {
    let mut strace = Command::new("strace");
    strace.args(["-f", "-qq", "-p"]).arg(mover.to_string()).arg("-o").arg(log);
    strace.args(["-e", "trace=pwrite64,write,writev,sendto,sendmsg,exit_group", "-e"]);
    strace.arg(format!("inject=pwrite64:delay_enter={}:when=1", WRITES_AFTER.as_micros())).arg("-e");
    strace.arg("inject=write,writev,sendto,sendmsg,exit_group:delay_enter=1000000000:when=1");
    Strace(strace.spawn().unwrap())
}

/// Holds a process until it is dropped.
struct Strace(Child);

impl Drop for Strace {
    fn drop(&mut self) {
        let _gone_with_the_process = kill_process(Pid::from_child(&self.0), Signal::KILL);
        let _status = self.0.wait();
    }
}

#[test]
fn a_write_that_comes_late_does_not_reach_what_was_copied_in_its_place() {
    let work = Work::new(2, 200 * MIB);
    let contents = large_file(&work);
    let status = run(&work, &work.spec("1.0", Direction::In, "set", ""));
    assert_eq!((status.state, &status.failures), (StageState::Complete, &vec![]));
    let (spec, log) = (work.spec("1.1", Direction::Out, "out", ""), work.site.path().join("strace"));
    let cut_off_at = Instant::now();
    let (strace, mover) = run_with_a_mover_that(&work, &spec, |mover| (cut_off(mover, &log), Stopped(mover)));
    assert_eq!(begun(&work, &spec), 2, "it may write into the copy");
    let out = work.site.pfs("out/large");
    assert!(fs::read(&out).unwrap() == contents);
    // As the job's next program does: what the mover still writes is not even right any more.
    let other = bytes(10, 160 << 20);
    fs::OpenOptions::new().write(true).open(&out).unwrap().write_all(&other).unwrap();
    assert!(cut_off_at.elapsed() < WRITES_AFTER, "too slow to tell");
    let is_written = || fs::read_to_string(&log).unwrap().contains("= 1048576 (DELAYED)");
    wait_until("the mover writes", is_written);
    drop(strace);
    mover.goes_on();
    assert!(fs::read(&out).unwrap() == other, "a mover that came back has changed something");
    assert_eq!(fs::read_dir(work.site.pfs("out")).unwrap().count(), 1, "it has left a part");
}

#[test]
fn a_mover_that_is_slow_and_steady_is_not_given_up() {
    let work = Work::new(2, 400 * MIB);
    fs::create_dir(work.site.pfs("set")).unwrap();
    fs::write(work.site.pfs("set/large"), bytes(1, 160 << 20)).unwrap();
    // Its four threads share that: each is at its first 16 MiB for as long as it is at work.
    let pace = StagePace { node_bandwidth_bytes_per_s: Some(MIB), ..StagePace::default() };
    *work.cluster.movers.pace.lock().unwrap() = Some((1, pace));
    let mut spec = work.spec("1.0", Direction::In, "set", "");
    // So slow that each thread of the mover gets some of it.
    spec.policy.bandwidth_bytes_per_s = Some(64 * MIB);
    let (begun, status) = (Instant::now(), end_in_time(start(&work, &spec)));
    assert_eq!(
        (status.state, &status.failures, &status.notes.remarks),
        (StageState::Complete, &vec![], &vec![])
    );
    assert!(helped(&status, "n1") >= 32 * MIB, "{:?}", status.notes);
    assert!(begun.elapsed() > SILENCE_MAX + Duration::from_secs(5), "it was not slow enough to tell");
}
