//! `forebay-stage` as the node service runs it, with real storage nodes.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use model::phase::{Direction, StageKind, StageState};
use rustix::process::{Pid, Signal, kill_process};
use stage::monitor::Monitor;
use wire::control::{ErrorCode, Owner, Side, StageStatus, VolumeKind};
use wire::data::hello::Key;
use wire::node::{StageSpec, Verify};
use wire::ticket;

use crate::support::Site;
use crate::support::cluster::{Cluster, KEY, STAGE_KEY};
use crate::support::forest::{assert_same, bytes, grow, survey};

const MIB: u64 = 1 << 20;

pub struct Work {
    pub site: Site,
    pub cluster: Cluster,
}

impl Work {
    pub fn new(nodes: u32, capacity_bytes: u64) -> Work {
        Work::new_on(VolumeKind::Directory, nodes, capacity_bytes)
    }

    fn new_on(volume: VolumeKind, nodes: u32, capacity_bytes: u64) -> Work {
        let site = Site::new();
        let folder = site.path().join("nodes");
        let cluster = Cluster::start_on((KEY, volume), &folder, nodes, capacity_bytes, &site.owner);
        Work { site, cluster }
    }

    pub fn spec(&self, id: &str, direction: Direction, pfs: &str, buffer: &str) -> StageSpec {
        let spec = self.site.spec(direction, StageKind::Directory, pfs, buffer);
        let spec = StageSpec { id: id.into(), target: self.cluster.target.clone(), ..spec };
        let key = Key::from_hex(STAGE_KEY).unwrap();
        StageSpec { ticket: ticket::issue(&key, &spec), ..spec }
    }

    fn start(&self, spec: &StageSpec) -> Child {
        self.start_with(spec, &[])
    }

    pub fn start_with(&self, spec: &StageSpec, arguments: &[&str]) -> Child {
        self.start_by(Command::new(env!("CARGO_BIN_EXE_forebay-stage")), spec, arguments)
    }

    /// Has a command start the worker.
    fn start_by(&self, mut command: Command, spec: &StageSpec, arguments: &[&str]) -> Child {
        let file = self.site.path().join(format!("{}.json", spec.id));
        fs::write(&file, serde_json::to_vec(spec).unwrap()).unwrap();
        command
            .arg("--spec")
            .arg(file)
            .arg("--journal")
            .arg(self.journal(spec))
            .args(arguments)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap()
    }

    pub fn journal(&self, spec: &StageSpec) -> PathBuf {
        self.site.path().join(format!("{}.journal", spec.id))
    }

    pub fn run(&self, spec: &StageSpec) -> StageStatus {
        end_of(self.start(spec))
    }

    /// The blocks of large files that are in the journal.
    pub fn blocks(&self, spec: &StageSpec) -> Vec<u64> {
        let text = fs::read_to_string(self.journal(spec)).unwrap_or_default();
        let records = text.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
        let blocks =
            |record: serde_json::Value| record["blocks"]["blocks"].as_array().cloned().unwrap_or_default();
        records.flat_map(blocks).filter_map(|block| block[0].as_u64()).collect()
    }

    /// Waits until some files are in the journal.
    pub fn until_some_are_done(&self, spec: &StageSpec) {
        let lines = || fs::read_to_string(self.journal(spec)).unwrap_or_default().lines().count();
        wait_until("some files are done", || lines() >= 20);
    }

    /// Waits until some blocks of a large file are in the journal.
    pub fn until_within_a_file(&self, spec: &StageSpec) {
        wait_until("some blocks are done", || !self.blocks(spec).is_empty());
    }
}

/// Waits until something is so; fails after a time that no machine needs.
#[track_caller]
pub fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !is_so() {
        assert!(begin.elapsed() < Duration::from_secs(60), "it does not come true: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// The last status line; its state and the exit status say the same.
pub fn end_of(mut child: Child) -> StageStatus {
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let last = lines.map(Result::unwrap).last().expect("a last line");
    let status: StageStatus = serde_json::from_str(&last).unwrap();
    let exit = child.wait().unwrap().code();
    assert_eq!(exit, Some(if status.state == StageState::Complete { 0 } else { 1 }), "{status:?}");
    status
}

fn many_files(work: &Work) {
    for folder in 0..10 {
        fs::create_dir_all(work.site.pfs(&format!("set/d{folder}"))).unwrap();
        for file in 0..200 {
            let path = work.site.pfs(&format!("set/d{folder}/f{file}"));
            fs::write(path, bytes(folder * 1000 + file, 3000)).unwrap();
        }
    }
}

#[test]
fn every_kind_of_entry_survives_a_real_buffer() {
    for nodes in [1, 3] {
        let work = Work::new(nodes, 100 * MIB);
        grow(&work.site.pfs("set"));
        let before = survey(&work.site.pfs("set"));
        let accessed = |tree: &str| {
            let metadata = fs::metadata(work.site.pfs(tree).join("file4096")).unwrap();
            (metadata.atime(), metadata.atime_nsec())
        };
        let time = accessed("set");
        let status = work.run(&work.spec("1.0", Direction::In, "set", "in/here"));
        assert_eq!((status.state, &status.failures), (StageState::Complete, &vec![]), "{nodes} nodes");
        let status = work.run(&work.spec("1.1", Direction::Out, "out", "in/here/"));
        assert_eq!((status.state, &status.failures), (StageState::Complete, &vec![]), "{nodes} nodes");
        assert_eq!(accessed("out"), time, "the time of access, with {nodes} nodes");
        assert_same(&before, &work.site.pfs("out"));
        assert_eq!(differences_to_rsync(&work.site.pfs("set"), &work.site.pfs("out")), "", "{nodes} nodes");
    }
}

/// What `rsync` would copy to make the second tree like the first.
fn differences_to_rsync(from: &Path, to: &Path) -> String {
    let mut command = Command::new("rsync");
    command.args(["-naHAX", "--checksum", "--delete", "--itemize-changes"]);
    let output = command.arg(from.join("")).arg(to.join("")).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn a_file_that_one_of_the_users_further_groups_may_read_is_staged_and_another_is_not() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let owner = Owner { uid: 54_321, gid: 54_321 };
    let mut site = Site::new();
    site.owner = owner.clone();
    fs::set_permissions(site.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let cluster = Cluster::start(&site.path().join("nodes"), 1, 10 * MIB, &owner);
    let work = Work { site, cluster };
    fs::create_dir(work.site.pfs("set")).unwrap();
    for (name, group) in [("mine", 54_322), ("theirs", 54_323)] {
        let path = work.site.pfs("set").join(name);
        fs::write(&path, name).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        std::os::unix::fs::chown(&path, Some(0), Some(group)).unwrap();
    }
    // The system's users, and one more, as this worker alone sees them.
    for (file, line) in [
        ("passwd", "stager:x:54321:54321::/:/bin/sh\n"),
        ("group", "stager:x:54321:\nproject:x:54322:stager\nothers:x:54323:\n"),
    ] {
        let known = fs::read_to_string(Path::new("/etc").join(file)).unwrap();
        fs::write(work.site.path().join(file), known + line).unwrap();
    }
    let mut command = Command::new("unshare");
    let script = "mount --bind passwd /etc/passwd && mount --bind group /etc/group && exec \"$@\"";
    command.args(["--mount", "--", "sh", "-c", script, "sh", env!("CARGO_BIN_EXE_forebay-stage")]);
    command.current_dir(work.site.path());
    let status = end_of(work.start_by(command, &work.spec("1.0", Direction::In, "set", ""), &[]));
    assert_eq!((status.state, status.progress.entries_done), (StageState::Failed, 1), "{status:?}");
    assert_eq!(status.failures.len(), 1, "{status:?}");
    assert!(status.failures[0].path.ends_with("set/theirs"), "{status:?}");
    assert_eq!((status.failures[0].side, status.failures[0].errno), (Side::Pfs, 13));
}

/// How near it is to the truth, `eta` shows by a clock that is not the machine's.
#[test]
fn the_time_left_is_told_all_the_while_and_shrinks() {
    const FILES: u64 = 32;
    let site = Site::new();
    fs::create_dir(site.pfs("set")).unwrap();
    for file in 0..FILES {
        fs::write(site.pfs(&format!("set/f{file}")), bytes(file, MIB as usize)).unwrap();
    }
    let mut spec = site.spec(Direction::In, StageKind::Directory, "set", "");
    spec.policy.bandwidth_bytes_per_s = Some(16 * MIB);
    let monitor = Arc::new(Monitor::new(&spec.policy));
    let mut said = Vec::new();
    std::thread::scope(|scope| {
        let stage = scope.spawn(|| site.run_watched(&spec, &monitor));
        while !stage.is_finished() {
            let progress = monitor.status(&spec, StageState::Active).progress;
            if (FILES * MIB / 2..FILES * MIB).contains(&progress.bytes_done) {
                said.push(progress.eta_ms.expect("it was planned, and something was copied"));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        assert_eq!(stage.join().unwrap().state, StageState::Complete);
    });
    let (first, last) = (said.first().unwrap(), said.last().unwrap());
    assert!(said.len() > 10 && last < first && *last > 0, "{said:?}");
}

#[test]
fn access_lists_survive_the_way_in_and_out_again() {
    const ACCESS: &str = "system.posix_acl_access";
    const DEFAULT: &str = "system.posix_acl_default";
    let work = Work::new(1, 10 * MIB);
    fs::create_dir_all(work.site.pfs("set/d")).unwrap();
    fs::write(work.site.pfs("set/d/f"), b"x").unwrap();
    fs::write(work.site.pfs("set/d/plain"), b"x").unwrap();
    // Version 2; owner rw, user 1234 r, group r, mask r, others nothing: acl(5), and xattr's posix_acl_xattr.h.
    let mut list = 2_u32.to_le_bytes().to_vec();
    for (tag, mode, id) in
        [(1, 6, u32::MAX), (2, 4, 1234), (4, 4, u32::MAX), (16, 4, u32::MAX), (32, 0, u32::MAX)]
    {
        list.extend([u16::to_le_bytes(tag), u16::to_le_bytes(mode)].concat());
        list.extend(id.to_le_bytes());
    }
    let flags = rustix::fs::XattrFlags::empty();
    rustix::fs::setxattr(work.site.pfs("set/d/f"), ACCESS, &list, flags).unwrap();
    rustix::fs::setxattr(work.site.pfs("set/d"), DEFAULT, &list, flags).unwrap();
    for (stage, direction, pfs, buffer) in
        [("1.0", Direction::In, "set", ""), ("1.1", Direction::Out, "out", "")]
    {
        let status = work.run(&work.spec(stage, direction, pfs, buffer));
        assert_eq!((status.state, status.notes.remarks_total), (StageState::Complete, 0), "{status:?}");
    }
    let read = |path: &str, name| {
        let mut value = vec![0; 100];
        let length = rustix::fs::getxattr(work.site.pfs(path), name, value.as_mut_slice());
        length.map(|length| value[..length].to_vec())
    };
    assert_eq!(read("out/d/f", ACCESS).unwrap(), list);
    assert_eq!(read("out/d", DEFAULT).unwrap(), list);
    // What is made in a folder with a default list is what it was, all the same.
    assert_eq!(read("out/d/plain", ACCESS), Err(rustix::io::Errno::NODATA));
}

#[test]
fn a_large_file_is_striped_and_comes_back_whole() {
    // Images are asked for their objects, whose bytes pass no socket.
    let volumes = if rustix::process::geteuid().is_root() {
        &[VolumeKind::Directory, VolumeKind::Image][..]
    } else {
        eprintln!("skipped for volumes that are images: only root can mount them");
        &[VolumeKind::Directory]
    };
    for volume in volumes {
        let work = Work::new_on(*volume, 2, 384 * MIB);
        fs::create_dir(work.site.pfs("set")).unwrap();
        fs::write(work.site.pfs("set/large"), bytes(1, (140 << 20) + 777)).unwrap();
        fs::write(work.site.pfs("set/whole"), bytes(2, 2 << 20)).unwrap();
        let before = survey(&work.site.pfs("set"));
        assert_eq!(work.run(&work.spec("1.0", Direction::In, "set", "")).state, StageState::Complete);
        assert_eq!(work.run(&work.spec("1.1", Direction::Out, "out", "")).state, StageState::Complete);
        assert_same(&before, &work.site.pfs("out"));
    }
}

#[test]
fn a_worker_that_is_killed_goes_on_with_its_journal() {
    let work = Work::new(2, 100 * MIB);
    many_files(&work);
    let before = survey(&work.site.pfs("set"));
    for (spec, folder) in [
        (work.spec("1.0", Direction::In, "set", ""), None),
        (work.spec("1.1", Direction::Out, "out", ""), Some("out")),
    ] {
        let mut first = work.start(&spec);
        work.until_some_are_done(&spec);
        first.kill().unwrap();
        assert!(first.wait().unwrap().code().is_none(), "it was over before it was killed");
        let records = |journal: &str| journal.matches("\"file\"").count();
        let done = records(&fs::read_to_string(work.journal(&spec)).unwrap());

        let status = work.run(&spec);
        assert_eq!(status.state, StageState::Complete, "{status:?}");
        assert_eq!(status.progress.entries_done, 2010);
        assert_eq!(status.progress.bytes_verified, 2000 * 3000);
        // One record for each file: what the first run finished, the second did not do again. (A record that was
        // being written when the worker was killed is written again.)
        let all = records(&fs::read_to_string(work.journal(&spec)).unwrap());
        assert!((2000..=2001).contains(&all), "{all} records after {done}");
        if let Some(folder) = folder {
            assert_same(&before, &work.site.pfs(folder));
        }
    }
}

#[test]
fn a_large_file_goes_on_where_it_was_when_its_worker_was_killed() {
    const SIZE: u64 = 96 * MIB + 777;
    let work = Work::new(2, 200 * MIB);
    fs::create_dir(work.site.pfs("set")).unwrap();
    fs::write(work.site.pfs("set/large"), bytes(1, usize::try_from(SIZE).unwrap())).unwrap();
    for (id, direction, folder) in [("1.0", Direction::In, "set"), ("1.1", Direction::Out, "out")] {
        let mut spec = work.spec(id, direction, folder, "");
        // So slow that it cannot be over before it is killed.
        spec.policy.bandwidth_bytes_per_s = Some(100 << 20);
        killed_within_a_file(&work, &spec);
        let blocks = work.blocks(&spec);
        let there: u64 = blocks.iter().map(|number| MIB.min(SIZE - number * MIB)).sum();

        spec.policy.bandwidth_bytes_per_s = None;
        let status = work.run(&spec);
        assert_eq!(status.state, StageState::Complete, "{status:?}");
        assert_eq!(status.progress.bytes_moved, SIZE - there, "blocks {blocks:?} were there");
        assert_eq!((status.progress.bytes_done, status.progress.bytes_verified), (SIZE, SIZE));
    }
    assert!(fs::read(work.site.pfs("set/large")).unwrap() == fs::read(work.site.pfs("out/large")).unwrap());
    assert_eq!(fs::read_dir(work.site.pfs("out")).unwrap().count(), 1, "a part was left behind");
}

/// Runs the stage until some blocks of a large file are done.
fn killed_within_a_file(work: &Work, spec: &StageSpec) {
    let mut first = work.start(spec);
    work.until_within_a_file(spec);
    first.kill().unwrap();
    assert!(first.wait().unwrap().code().is_none(), "it was over before it was killed");
}

#[test]
fn what_a_node_lost_while_a_stage_had_no_worker_is_copied_again() {
    const SIZE: u64 = 96 * MIB + 777;
    let mut work = Work::new(2, 300 * MIB);
    fs::create_dir(work.site.pfs("set")).unwrap();
    fs::write(work.site.pfs("set/large"), bytes(1, usize::try_from(SIZE).unwrap())).unwrap();
    let mut spec = work.spec("1.0", Direction::In, "set", "");
    // Nothing is read back, as most of a large file is not.
    spec.policy.verify = Verify::Off;
    // So slow that it cannot be over before it is killed.
    spec.policy.bandwidth_bytes_per_s = Some(100 << 20);
    killed_within_a_file(&work, &spec);
    work.cluster.lose_power(&work.site.path().join("nodes"), 1);

    spec.policy.bandwidth_bytes_per_s = None;
    assert_eq!(work.run(&spec).state, StageState::Complete);
    let out = work.spec("1.1", Direction::Out, "out", "");
    assert_eq!(work.run(&out).state, StageState::Complete);
    let same = fs::read(work.site.pfs("set/large")).unwrap() == fs::read(work.site.pfs("out/large")).unwrap();
    assert!(same, "the stage says complete, and the buffer lacks bytes of the file");
}

#[test]
fn sigterm_cancels_and_says_so() {
    let work = Work::new(1, 100 * MIB);
    many_files(&work);
    let spec = work.spec("1.0", Direction::In, "set", "");
    let child = work.start(&spec);
    work.until_some_are_done(&spec);
    let pid = Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
    kill_process(pid, Signal::TERM).unwrap();
    let status = end_of(child);
    assert_eq!(status.error.unwrap().code, ErrorCode::Cancelled);
    assert!(status.progress.entries_done < 2010);
}

#[test]
fn a_worker_that_nobody_listens_to_ends() {
    let work = Work::new(1, 100 * MIB);
    many_files(&work);
    let mut child = work.start(&work.spec("1.0", Direction::In, "set", ""));
    drop(child.stdout.take());
    assert_eq!(child.wait().unwrap().code(), Some(1));
}

#[test]
fn a_buffer_that_is_too_small_says_how_large_it_is() {
    let work = Work::new(2, 2 * MIB);
    fs::create_dir(work.site.pfs("set")).unwrap();
    for name in ["a", "b", "c"] {
        fs::write(work.site.pfs("set").join(name), bytes(1, 3_000_000)).unwrap();
    }
    let error = work.run(&work.spec("1.0", Direction::In, "set", "")).error.unwrap();
    assert_eq!(error.code, ErrorCode::BufferFull);
    assert!(error.message.contains("9000000 bytes in 3 entries; it may hold 4194304 bytes"), "{error}");
}

#[test]
fn a_buffer_that_cannot_be_reached_is_one_clear_error() {
    let work = Work::new(1, MIB);
    let mut spec = work.spec("1.0", Direction::In, "set", "");
    spec.target.instance = "i2".parse().unwrap();
    let error = work.run(&spec).error.unwrap();
    assert_eq!(error.code, ErrorCode::BufferUnreachable);
    assert!(error.message.contains("n0"), "{error}");
}

#[test]
fn a_file_that_is_missing_in_the_buffer_is_named_as_the_job_knows_it() {
    let work = Work::new(1, MIB);
    let spec = StageSpec { kind: StageKind::File, ..work.spec("1.0", Direction::Out, "out", "results.h5") };
    let status = work.run(&spec);
    let error = status.error.unwrap();
    assert!(error.message.contains("$DW_JOB_STRIPED/results.h5: No such file or directory"), "{error}");
    assert!(status.failures.iter().all(|failure| failure.side == Side::Buffer));
}
