//! File systems that misbehave, real ones; as root only.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use model::phase::{Direction, StageKind, StageState};
use stage::journal::Journal;
use stage::monitor::Monitor;
use wire::control::{ErrorCode, Side};
use wire::node::StageSpec;

use crate::support::Site;
use crate::support::faulty_pfs::FaultyPfs;
use crate::support::forest::bytes;

/// A mount on a folder of the PFS, until it is dropped.
struct Mount(PathBuf);

impl Mount {
    /// `None`: only root can.
    fn new(folder: &Path, arguments: &[&str]) -> Option<Mount> {
        if !rustix::process::geteuid().is_root() {
            eprintln!("skipped: only root can mount");
            return None;
        }
        fs::create_dir(folder).unwrap();
        run("mount", &[arguments, &[folder.to_str().unwrap()]].concat());
        Some(Mount(folder.to_owned()))
    }

    /// An ext4 of 64 MiB under this name on the PFS.
    fn ext4(site: &Site, name: &str) -> Option<Mount> {
        let image = image_of(site);
        fs::File::create(&image).unwrap().set_len(64 << 20).unwrap();
        if rustix::process::geteuid().is_root() {
            run("mkfs.ext4", &["-q", &image]);
        }
        Mount::new(&site.pfs(name), &["-o", "loop", &image])
    }

    /// Takes it away. Lazily: a process that another test starts at this moment may hold it, too.
    fn take_away(&self) {
        run("umount", &["--lazy", self.0.to_str().unwrap()]);
    }

    /// Takes an ext4 away, and waits until nobody uses its device: a mount namespace that another test has made since
    /// has it mounted as well.
    fn take_away_device(&self, image: &str) {
        self.take_away();
        let begun = Instant::now();
        while !Command::new("losetup").args(["--associated", image]).output().unwrap().stdout.is_empty() {
            assert!(begun.elapsed() < Duration::from_secs(60), "{image} is in use");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        // Frozen, it could not be unmounted; it is not, as a rule.
        let _ = Command::new("fsfreeze").arg("--unfreeze").arg(&self.0).output();
        let unmounted = Command::new("umount").arg("--lazy").arg(&self.0).output().unwrap();
        // A test that failed between may have it unmounted.
        assert!(unmounted.status.success() || std::thread::panicking(), "{unmounted:?}");
    }
}

/// The device below [`Mount::ext4`].
fn image_of(site: &Site) -> String {
    site.path().join("image").display().to_string()
}

fn run(program: &str, arguments: &[&str]) {
    let output = Command::new(program).args(arguments).output().unwrap();
    assert!(output.status.success(), "{program} {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn a_pfs_that_fills_up_has_whole_files_only_and_gets_the_rest_when_there_is_room() {
    const FILE: u64 = 100_000;
    let site = Site::new();
    let Some(mount) = Mount::new(&site.pfs("full"), &["-t", "tmpfs", "-o", "size=2m", "none"]) else {
        return;
    };
    for index in 0..40 {
        fs::write(site.buffer(&format!("f{index}")), bytes(index, FILE as usize)).unwrap();
    }
    let spec = site.spec(Direction::Out, StageKind::Directory, "full/out", "");
    let status = site.run(&spec);
    assert_eq!(status.state, StageState::Failed);
    assert!(
        status.failures.iter().all(|failure| (failure.side, failure.errno) == (Side::Pfs, 28)),
        "{status:?}"
    );
    let there =
        fs::read_dir(site.pfs("full/out")).unwrap().map(|entry| entry.unwrap().path()).collect::<Vec<_>>();
    assert_eq!(there.len() as u64, status.progress.entries_done);
    for path in &there {
        let name = path.file_name().unwrap().to_str().unwrap();
        assert!(fs::read(path).unwrap() == fs::read(site.buffer(name)).unwrap(), "{name}");
    }
    run("mount", &["-o", "remount,size=16m", mount.0.to_str().unwrap()]);
    let again = site.run(&spec);
    assert_eq!((again.state, again.progress.entries_done), (StageState::Complete, 40));
    assert_eq!(
        again.progress.bytes_moved,
        (40 - there.len() as u64) * FILE,
        "what was there is not copied again"
    );
}

#[test]
fn a_frozen_file_system_is_named_and_the_stage_goes_on_when_it_thaws() {
    let site = Site::new();
    let Some(mount) = Mount::ext4(&site, "frozen") else { return };
    fs::write(site.buffer("a"), bytes(1, 100_000)).unwrap();
    let spec = site.spec(Direction::Out, StageKind::Directory, "frozen/out", "");
    let monitor = Arc::new(Monitor::new(&spec.policy).with_stall_after(Duration::from_millis(50)));
    run("fsfreeze", &["--freeze", mount.0.to_str().unwrap()]);
    let status = std::thread::scope(|scope| {
        let stage = scope.spawn(|| site.run_watched(&spec, &monitor));
        let stall = loop {
            match monitor.status(&spec, StageState::Active).notes.stalled {
                Some(stall) => break stall,
                None => std::thread::sleep(Duration::from_millis(5)),
            }
        };
        run("fsfreeze", &["--unfreeze", mount.0.to_str().unwrap()]);
        assert_eq!((stall.side, stall.path), (Side::Pfs, site.pfs("frozen/out").display().to_string()));
        stage.join().unwrap()
    });
    assert_eq!((status.state, status.notes.stalled), (StageState::Complete, None));
    assert!(fs::read(site.pfs("frozen/out/a")).unwrap() == bytes(1, 100_000));
}

#[test]
fn a_pfs_that_turns_read_only_fails_what_is_left_and_gets_it_once_it_is_mended() {
    const FILES: u64 = 600;
    let site = Site::new();
    let Some(mount) = Mount::ext4(&site, "mended") else { return };
    for index in 0..FILES {
        fs::write(site.buffer(&format!("f{index}")), bytes(index, 3000)).unwrap();
    }
    let spec = site.spec(Direction::Out, StageKind::Directory, "mended/out", "");
    let pfs = FaultyPfs::default();
    let folder = mount.0.clone();
    // As ext4 does by itself when its device fails: whatever is under way fails, too.
    let abort = move || run("mount", &["-o", "remount,abort", folder.to_str().unwrap()]);
    *pfs.shared.at_write.lock().unwrap() = Some((FILES / 2, Box::new(abort)));
    let status = site.run_on(pfs, &spec);
    assert_eq!(status.state, StageState::Failed);
    assert!(!status.failures.is_empty());
    for failure in &status.failures {
        assert_eq!(failure.side, Side::Pfs, "{failure:?}");
        assert!(failure.errno == 30 || failure.errno == 5, "{failure:?}");
    }
    let done = status.progress.entries_done;
    assert!(0 < done && done < FILES, "{:?}", status.progress);

    let image = image_of(&site);
    mount.take_away_device(&image);
    Command::new("e2fsck").args(["-p", &image]).output().unwrap();
    run("mount", &["-o", "loop", &image, mount.0.to_str().unwrap()]);
    let again = site.run(&spec);
    assert_eq!((again.state, &again.failures), (StageState::Complete, &vec![]));
    assert_eq!(again.progress.entries_done, FILES);
    assert_eq!(fs::read_dir(site.pfs("mended/out")).unwrap().count() as u64, FILES, "a part was left behind");
    for index in 0..FILES {
        assert!(
            fs::read(site.pfs(&format!("mended/out/f{index}"))).unwrap() == bytes(index, 3000),
            "f{index}"
        );
    }
}

#[test]
fn nothing_is_copied_below_the_mount_point_of_a_pfs_that_is_not_mounted() {
    let site = Site::new();
    let Some(mount) = Mount::new(&site.pfs("lustre"), &["-t", "tmpfs", "none"]) else { return };
    fs::write(site.buffer("result"), "of the job").unwrap();
    let mut spec = site.spec(Direction::Out, StageKind::File, "lustre/result", "result");
    spec.pfs_mounts = vec![stage::mounted::note(&spec.pfs_path).unwrap()];
    mount.take_away();
    let status = site.run(&spec);
    assert_eq!(status.state, StageState::Failed);
    let error = status.error.unwrap();
    assert_eq!(error.code, ErrorCode::PfsNotMounted);
    assert!(error.message.contains(mount.0.to_str().unwrap()), "{error}");
    assert_eq!(fs::read_dir(&mount.0).unwrap().count(), 0, "something lies below the mount point");
    run("mount", &["-t", "tmpfs", "none", mount.0.to_str().unwrap()]);
    assert_eq!(site.run(&spec).state, StageState::Complete);
    assert_eq!(fs::read_to_string(site.pfs("lustre/result")).unwrap(), "of the job");
}

#[test]
fn what_is_copied_while_the_pfs_is_taken_away_is_not_called_complete() {
    let site = Site::new();
    let Some(mount) = Mount::new(&site.pfs("lustre"), &["-t", "tmpfs", "none"]) else { return };
    let noted = vec![stage::mounted::note(&site.pfs("lustre/result")).unwrap()];
    let mounts = stage::mounted::Mounts::check(&noted).unwrap();
    mounts.check_again().unwrap();
    mount.take_away();
    assert!(mounts.check_again().unwrap_err().to_string().contains("is not mounted"));
    run("mount", &["-t", "tmpfs", "none", mount.0.to_str().unwrap()]);
    assert!(mounts.check_again().unwrap_err().to_string().contains("was unmounted"));
}

/// A stage-out of a list, tried once before the PFS was unmounted.
fn listed_before_it_was_away(site: &Site, mount: &Mount) -> StageSpec {
    let line = format!("$DW_JOB_STRIPED/result {}\n", site.pfs("lustre/result").display());
    fs::write(site.pfs("list"), line).unwrap();
    let spec = site.spec(Direction::Out, StageKind::List, "list", "");
    assert_eq!(site.run(&spec).state, StageState::Failed, "there is nothing to copy yet");
    fs::write(site.buffer("result"), "of the job").unwrap();
    mount.take_away();
    spec
}

#[test]
fn nothing_is_copied_below_a_mount_point_that_only_a_line_of_a_list_names() {
    let site = Site::new();
    let Some(mount) = Mount::new(&site.pfs("lustre"), &["-t", "tmpfs", "none"]) else { return };
    let spec = listed_before_it_was_away(&site, &mount);
    let status = site.run(&spec);
    assert_eq!(status.error.map(|error| error.code), Some(ErrorCode::PfsNotMounted));
    assert_eq!(fs::read_dir(&mount.0).unwrap().count(), 0, "something lies below the mount point");
    run("mount", &["-t", "tmpfs", "none", mount.0.to_str().unwrap()]);
    assert_eq!(site.run(&spec).state, StageState::Complete);
    assert_eq!(fs::read_to_string(site.pfs("lustre/result")).unwrap(), "of the job");
}

#[test]
fn a_damaged_note_of_what_was_mounted_is_no_leave_to_copy_below_the_mount_point() {
    let site = Site::new();
    let Some(mount) = Mount::new(&site.pfs("lustre"), &["-t", "tmpfs", "none"]) else { return };
    let spec = listed_before_it_was_away(&site, &mount);
    let journal = site.path().join("journal");
    let whole = fs::read(&journal).unwrap();
    let record = whole.windows(9).position(|bytes| bytes == b"\"mounted\"").unwrap();
    let end = record + whole[record..].iter().position(|byte| *byte == b'\n').unwrap();
    for place in record..end {
        let mut damaged = whole.clone();
        damaged[place] ^= 1;
        fs::write(&journal, damaged).unwrap();
        // What is no record at all nobody goes on with.
        if Journal::open(&journal, &spec).is_ok() {
            assert_eq!(site.run(&spec).state, StageState::Failed, "byte {place}");
        }
        assert_eq!(fs::read_dir(&mount.0).unwrap().count(), 0, "byte {place}: something lies below");
    }
    run("mount", &["-t", "tmpfs", "none", mount.0.to_str().unwrap()]);
    fs::remove_file(&journal).unwrap();
    assert_eq!(site.run(&spec).state, StageState::Complete, "as the error advises");
}
