//! `pjdfstest`, `fsx`, `fio --verify`, `stress-ng` and `dbench`.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use super::{COUNTED, Kind, PASSTHROUGH, PRIVATE, STRIPED, run};

/// Operations of one run of `fsx`.
const FSX_OPERATIONS: &str = "20000";

/// Seeds, one run each.
const FSX_SEEDS: [&str; 3] = ["1", "2", "3"];

/// Where `scripts/install-deps` puts the suites: beside the tests' own program, or where the environment says.
fn suite(name: &str) -> PathBuf {
    let own = std::env::current_exe().expect("/proc is mounted");
    let target = own.ancestors().find(|folder| folder.join("tools/bin").is_dir());
    let path = target.map(|folder| folder.join("tools/bin").join(name)).filter(|path| path.exists());
    path.unwrap_or_else(|| panic!("no {name} in target/tools/bin: run scripts/install-deps test"))
}

fn pjdfstest(kind: Kind) {
    let mounted = kind.mount();
    let folder = mounted.path.join("p");
    fs::create_dir(&folder).expect("the mount is writable");
    // The suite becomes other users, who must get there; buffers and temporary folders are their owner's alone.
    let above = mounted.path.parent().expect("a mount point is in a folder");
    for (path, mode) in [(above, 0o755), (&mounted.path, 0o755), (&folder, 0o777)] {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("the folder is ours");
    }
    let configuration = concat!(env!("CARGO_MANIFEST_DIR"), "/posix/pjdfstest.toml");
    let mut command = mounted.command(&suite("pjdfstest"), "p");
    let said = run(command.args(["-c", configuration, "-s", "/", "-p"]).arg(mounted.inside().join("p")));
    let summary = said
        .lines()
        .find(|line| line.starts_with("Summary"))
        .unwrap_or_else(|| panic!("no summary:\n{said}"));
    println!("{summary}");
    // 14 are skipped on XFS too: 13 need a read-only remount, one needs a limit of links.
    assert!(summary.contains(" 0 failed, 14 skipped, 384 passed"), "{said}");
}

fn fsx(kind: Kind) {
    let mounted = kind.mount();
    let configuration = concat!(env!("CARGO_MANIFEST_DIR"), "/posix/fsx.toml");
    for seed in FSX_SEEDS {
        let arguments = ["-q", "-N", FSX_OPERATIONS, "-S", seed, "-f", configuration, "-P", "/tmp"];
        run(mounted.command(&suite("fsx"), "").args(arguments).arg(format!("fsx-{seed}")));
    }
}

#[test]
fn pjdfstest_passes_where_files_are_passed_through() {
    pjdfstest(PASSTHROUGH);
}

#[test]
fn pjdfstest_passes_with_one_storage_node() {
    pjdfstest(COUNTED);
}

#[test]
fn pjdfstest_passes_with_four_storage_nodes() {
    pjdfstest(STRIPED);
}

#[test]
fn pjdfstest_passes_in_private_mode() {
    pjdfstest(PRIVATE);
}

#[test]
fn pjdfstest_passes_where_another_node_has_the_namespace_mounted() {
    pjdfstest(Kind::Shared);
}

#[test]
fn fsx_passes_where_another_node_has_the_namespace_mounted() {
    fsx(Kind::Shared);
}

#[test]
fn fsx_passes_where_files_are_passed_through() {
    fsx(PASSTHROUGH);
}

#[test]
fn fsx_passes_with_one_storage_node() {
    fsx(COUNTED);
}

#[test]
fn fsx_passes_with_four_storage_nodes() {
    fsx(STRIPED);
}

#[test]
fn fsx_passes_in_private_mode() {
    fsx(PRIVATE);
}

#[test]
fn fio_reads_back_what_it_wrote_from_four_threads() {
    for kind in [PASSTHROUGH, STRIPED] {
        let mounted = kind.mount();
        mounted.bash(
            "fio --name=v --directory=. --size=24m --numjobs=4 --rw=randrw --bsrange=1k-256k --verify=crc32c \
                 --verify_fatal=1 --ioengine=psync --group_reporting --minimal > /dev/null",
        );
    }
}

#[test]
fn stress_ng_finds_no_fault() {
    for kind in [PASSTHROUGH, STRIPED] {
        let mounted = kind.mount();
        let stressors = "--chdir 1 --chmod 1 --dentry 1 --dir 1 --fallocate 1 --fiemap 0 --file-ioctl 0 --filename 1 \
                         --flock 1 --fstat 1 --getdent 1 --hdd 1 --lease 0 --link 1 --lockf 1 --open 1 --rename 1 \
                         --seek 1 --symlink 1 --utime 1 --xattr 1";
        mounted.bash(
            &format!(
                "stress-ng --temp-path . --timeout 12 --verify --hdd-bytes 16m --fallocate-bytes 16m --seek-size 16m \
                 --dentries 500 {stressors} > log 2>&1 || {{ cat log; exit 1; }}"
            ),
        );
    }
}

#[test]
fn dbench_runs_clean() {
    for kind in [PASSTHROUGH, STRIPED] {
        let mounted = kind.mount();
        mounted.bash("dbench -t 6 -D . 2 > log 2>&1 && grep -q Throughput log || { tail -20 log; exit 1; }");
    }
}
