//! `srun` without Slurm, and without MPI: the ranks are plain processes.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Output};

use crate::fake::said;

/// A folder whose `PATH` has `srun`, a shell, and no `mpiexec`.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let bin = folder.path().join("bin");
    fs::create_dir(&bin).unwrap();
    symlink(env!("CARGO_BIN_EXE_forebay"), bin.join("srun")).unwrap();
    for program in ["sh", "sleep"] {
        let found =
            ["/usr/bin", "/bin"].iter().map(|folder| Path::new(folder).join(program)).find(|p| p.exists());
        symlink(found.unwrap(), bin.join(program)).unwrap();
    }
    folder
}

fn srun(folder: &Path, words: &[&str]) -> Output {
    Command::new(folder.join("bin/srun"))
        .args(words)
        .current_dir(folder)
        .env("PATH", folder.join("bin"))
        .env("SLURM_NTASKS", "2")
        .output()
        .unwrap()
}

fn ranks(folder: &Path, words: &[&str]) -> Vec<String> {
    let program = ["sh", "-c", "echo $SLURM_PROCID $SLURM_LOCALID $SLURM_NTASKS $SLURM_NPROCS $SLURM_NODEID"];
    let output = srun(folder, &[words, &program].concat());
    assert!(output.status.success(), "{}", said(&output));
    let mut lines: Vec<String> = String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect();
    lines.sort();
    lines
}

#[test]
fn each_rank_knows_its_place() {
    let folder = folder();
    assert_eq!(ranks(folder.path(), &["-n", "3"]), ["0 0 3 3 0", "1 1 3 3 0", "2 2 3 3 0"]);
    assert_eq!(ranks(folder.path(), &["-n1"]), ["0 0 1 1 0"]);
    assert_eq!(
        ranks(folder.path(), &[]),
        ["0 0 2 2 0", "1 1 2 2 0"],
        "the job's number of tasks is the default"
    );
}

#[test]
fn the_highest_status_of_the_ranks_is_ours() {
    let folder = folder();
    let status = |script| srun(folder.path(), &["-n", "3", "sh", "-c", script]).status.code();
    assert_eq!(status("exit $((SLURM_PROCID * 4))"), Some(8));
    assert_eq!(status("[ $SLURM_PROCID = 1 ] && kill -9 $$; exit 3"), Some(137));
    assert_eq!(status("true"), Some(0));
}

#[test]
fn options_without_meaning_are_one_note_and_unknown_ones_are_refused() {
    let folder = folder();
    let output = srun(folder.path(), &["-N", "1", "-c", "4", "--cpu-bind=cores", "-n1", "sh", "-c", "true"]);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(stderr, "srun: note: options without meaning here are ignored: --cpu-bind\n");
    assert_eq!(srun(folder.path(), &["--frobnicate", "sh"]).status.code(), Some(64));
}

#[test]
fn a_program_that_is_not_there_is_named() {
    let folder = folder();
    let output = srun(folder.path(), &["-n", "2", "no-such-program"]);
    assert_ne!(output.status.code(), Some(0));
    assert!(said(&output).contains("start no-such-program: No such file"), "{}", said(&output));
}

#[test]
fn ranks_under_an_mpi_launcher_take_its_numbers() {
    let folder = folder();
    // A launcher as MPICH's: it tells each rank its number in PMI_RANK.
    let launcher = "#!/bin/sh\ncount=$2; shift 2; rank=0\n\
        while [ $rank -lt $count ]; do PMI_RANK=$rank \"$@\" || exit; rank=$((rank + 1)); done\n";
    let path = folder.path().join("bin/mpiexec");
    fs::write(&path, launcher).unwrap();
    fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    assert_eq!(ranks(folder.path(), &["-n", "2"]), ["0 0 2 2 0", "1 1 2 2 0"]);
}

#[test]
fn signals_reach_the_ranks() {
    let folder = folder();
    let script = "trap 'exit 9' USR1; : > up.$SLURM_PROCID; while :; do /bin/sleep 0.02; done";
    let mut step = Command::new(folder.path().join("bin/srun"))
        .args(["-n", "2", "sh", "-c", script])
        .current_dir(folder.path())
        .env("PATH", folder.path().join("bin"))
        .spawn()
        .unwrap();
    crate::fake::wait_until("both ranks are up", || {
        folder.path().join("up.0").exists() && folder.path().join("up.1").exists()
    });
    rustix::process::kill_process(rustix::process::Pid::from_child(&step), rustix::process::Signal::USR1)
        .unwrap();
    assert_eq!(step.wait().unwrap().code(), Some(9));
}
