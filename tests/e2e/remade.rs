//! A part of a mirrored buffer of one machine is gone for good: it is made again from its mirror.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use model::FragmentIndex;
use model::stripe::Layout;
use tests::cluster::{Cluster, Outcome};
use tests::processes::{Process, wait_until, wait_until_told};

/// Longer than anything here takes on a busy machine.
const SOON: Duration = Duration::from_secs(60);

/// Some begin on the first part, some on the second; the last are on both.
const FILES: std::ops::Range<u8> = 0..10;

fn bytes_of(n: u8) -> Vec<u8> {
    tests::tree::bytes(n.into(), if n < 8 { 60_000 } else { 3 << 20 })
}

fn is_whole(cluster: &Cluster) -> bool {
    cluster.forebay(&["status"]).expect_success().stdout.contains("data: two copies")
}

/// A kept buffer with files that are synced, on two nodes: its mount point. Nothing runs.
fn kept(cluster: &Cluster) -> PathBuf {
    let path = cluster.pfs("mnt");
    let options = ["--capacity", "64MiB", "--volume", "directory", "--nodes", "2", "--mirror"];
    cluster.forebay(&[&["mount", path.to_str().unwrap()], &options[..]].concat()).expect_success();
    for n in FILES {
        let mut file = File::create_new(path.join(n.to_string())).unwrap();
        file.write_all(&bytes_of(n)).unwrap();
        file.sync_all().unwrap();
    }
    File::open(&path).and_then(|folder| folder.sync_all()).unwrap();
    assert!(wait_until_told(SOON, || is_whole(cluster)));
    umount(cluster, &path);
    path
}

fn mount(cluster: &Cluster, path: &Path) -> Outcome {
    cluster.forebay(&["mount", path.to_str().unwrap(), "--token", "1"])
}

/// Nothing runs after that.
fn umount(cluster: &Cluster, path: &Path) {
    cluster.forebay(&["umount", path.to_str().unwrap()]).expect_success();
    cluster.assert_nothing_left();
}

/// Mounts it, and returns which files cannot be read; all others are what they were.
fn unreadable(cluster: &Cluster, path: &Path) -> Vec<u8> {
    mount(cluster, path).expect_success();
    let is_lost = |n: &u8| match fs::read(path.join(n.to_string())) {
        Ok(bytes) => {
            assert!(bytes == bytes_of(*n), "{n} has other bytes");
            false
        }
        Err(error) => {
            assert_eq!(error.raw_os_error(), Some(5), "{n}");
            true
        }
    };
    FILES.filter(is_lost).collect()
}

fn part(cluster: &Cluster, node: &str) -> PathBuf {
    cluster.state.join(format!("nodes/{node}/fragments/i1"))
}

fn lost(cluster: &Cluster, arguments: &[&str]) -> Outcome {
    cluster.forebay(&[&["node", "lost"], arguments].concat())
}

#[test]
fn a_part_of_one_machine_that_is_gone_is_made_again_from_its_mirror() {
    let cluster = Cluster::new();
    let path = kept(&cluster);
    // The whole folder with the way to its port, the home of all names, and the first one once more.
    for (node, gone) in [("n1", "nodes/n1"), ("n0", "nodes/n0/fragments/i1"), ("n1", "nodes/n1/fragments/i1")]
    {
        fs::remove_dir_all(cluster.state.join(gone)).unwrap();
        let status = cluster.forebay(&["status"]).expect_success().stdout;
        let advised = format!("node lost {node} --dir");
        assert!(status.contains(&advised), "{advised} in {status}");
        let refused = mount(&cluster, &path);
        assert_eq!(refused.code(), 69, "{}", refused.stdout);
        assert!(refused.stderr.contains(&advised), "{}", refused.stderr);
        for _again in 0..2 {
            let made = lost(&cluster, &[node]).expect_success().stdout;
            assert!(made.contains("buffer 1: goes on over n0, n1"), "{made}");
            assert!(!made.contains("drained"), "{made}");
        }
        cluster.assert_nothing_left();
        assert_eq!(unreadable(&cluster, &path), [] as [u8; 0]);
        assert!(wait_until_told(SOON, || is_whole(&cluster)));
        umount(&cluster, &path);
    }
}

#[test]
fn a_part_is_made_again_though_everything_died_while_that_was_done() {
    let cluster = Cluster::new();
    let path = kept(&cluster);
    for after in [100, 300, 500, 700] {
        fs::remove_dir_all(part(&cluster, "n1")).unwrap_or_default();
        let command = cluster.start(&["node", "lost", "n1"]);
        std::thread::sleep(Duration::from_millis(after));
        command.kill();
        assert!(wait_until(SOON, || {
            cluster.processes().iter().for_each(Process::kill);
            cluster.processes().is_empty()
        }));
        let made = lost(&cluster, &["n1"]).expect_success().stdout;
        assert!(made.contains("goes on over n0, n1"), "{made}");
        cluster.assert_nothing_left();
    }
    assert_eq!(unreadable(&cluster, &path), [] as [u8; 0]);
    umount(&cluster, &path);
}

#[test]
fn a_part_that_is_there_or_whose_mirror_is_gone_too_is_not_made_again() {
    let cluster = Cluster::new();
    let path = kept(&cluster);
    let there = lost(&cluster, &["n1"]);
    assert_eq!(there.code(), 65, "{}", there.stderr);
    assert!(
        there.stderr.contains("nothing is lost") && there.stderr.contains("nodes/n1/fragments"),
        "{}",
        there.stderr
    );

    let specification = part(&cluster, "n1").join("spec.json");
    let whole = fs::read(&specification).unwrap();
    fs::write(&specification, "{").unwrap();
    let damaged = lost(&cluster, &["n1"]);
    assert_eq!(damaged.code(), 69, "{}", damaged.stderr);
    assert!(damaged.stdout.contains("nodes/n1/fragments/i1"), "{}", damaged.stdout);
    fs::write(&specification, whole).unwrap();

    let aside = cluster.pfs("aside");
    for node in ["n0", "n1"] {
        fs::rename(part(&cluster, node), aside.join(node)).unwrap();
    }
    for node in ["n0", "n1"] {
        let both = lost(&cluster, &[node, "--accept-loss"]);
        assert_eq!(both.code(), 69, "{}", both.stdout);
        assert!(both.stdout.contains("is gone as well"), "{}", both.stdout);
        assert!(!part(&cluster, node).exists(), "it was made again");
    }
    for node in ["n0", "n1"] {
        fs::rename(aside.join(node), part(&cluster, node)).unwrap();
    }
    assert_eq!(unreadable(&cluster, &path), [] as [u8; 0]);
    umount(&cluster, &path);
}

#[test]
fn what_a_mirror_of_one_machine_lacked_is_never_silently_old_and_lost_by_name_where_that_is_accepted() {
    let cluster = Cluster::new();
    let path = kept(&cluster);
    mount(&cluster, &path).expect_success();
    assert!(wait_until_told(SOON, || is_whole(&cluster)));
    let start =
        |n: &u8| Layout::striped(2).start(fs::metadata(path.join(n.to_string())).unwrap().ino().into());
    let on_first: Vec<u8> = FILES.filter(|n| *n >= 8 || start(n) == FragmentIndex(0)).collect();
    let file = File::options().write(true).open(path.join(on_first[0].to_string())).unwrap();
    // What is on the first part is answered by its node alone: control knows of that.
    let stopped = cluster.process("forebay-node", "n1").stop();
    file.write_all_at(&[7; 100], 0).unwrap();
    drop(file);
    for (program, argument) in
        [("forebay-control", ""), ("forebay-node", "n0"), ("forebay-node", "n1"), ("forebay-mount", "")]
    {
        cluster.process(program, argument).kill();
    }
    drop(stopped);

    fs::remove_dir_all(part(&cluster, "n0")).unwrap();
    let refused = lost(&cluster, &["n0"]);
    assert_eq!(refused.code(), 69, "{}", refused.stderr);
    assert!(
        refused.stdout.contains("node n1 did not have all") && refused.stdout.contains("--accept-loss"),
        "{}",
        refused.stdout
    );
    assert!(!part(&cluster, "n0").exists(), "it was made again");
    let accepted = lost(&cluster, &["n0", "--accept-loss"]);
    assert_eq!(accepted.code(), 69, "{}", accepted.stderr);
    for n in &on_first {
        assert!(accepted.stdout.contains(&format!("  {n}\n")), "{n} in {}", accepted.stdout);
    }
    cluster.forebay(&["umount", path.to_str().unwrap(), "--force"]).expect_success();
    assert_eq!(unreadable(&cluster, &path), on_first);
    umount(&cluster, &path);
}

#[test]
fn an_older_copy_of_a_part_that_was_made_again_is_never_served() {
    let cluster = Cluster::new();
    let path = kept(&cluster);
    let (aside, here) = (cluster.pfs("aside"), part(&cluster, "n1"));
    fs::rename(&here, aside.join("old")).unwrap();
    lost(&cluster, &["n1"]).expect_success();
    cluster.assert_nothing_left();
    fs::rename(&here, aside.join("new")).unwrap();
    fs::rename(aside.join("old"), &here).unwrap();
    let refused = mount(&cluster, &path);
    assert_eq!(refused.code(), 69, "{}", refused.stdout);
    let told = lost(&cluster, &["n1"]);
    assert_eq!(told.code(), 69, "{}", told.stderr);
    assert!(told.stdout.contains("nodes/n1/fragments/i1"), "{}", told.stdout);
    let status = cluster.forebay(&["status"]).expect_success().stdout;
    assert!(status.contains("was made again since") && !status.contains("elsewhere"), "{status}");
    cluster.assert_nothing_left();
    fs::remove_dir_all(&here).unwrap();
    fs::rename(aside.join("new"), &here).unwrap();
    assert_eq!(unreadable(&cluster, &path), [] as [u8; 0]);
    umount(&cluster, &path);
}

#[test]
fn a_program_that_waits_for_a_part_goes_on_when_that_is_made_again() {
    let cluster = Cluster::new();
    let path = kept(&cluster);
    mount(&cluster, &path).expect_success();
    assert!(wait_until_told(SOON, || is_whole(&cluster)));
    let file = File::options().write(true).open(path.join("9")).unwrap();
    let node = cluster.process("forebay-node", "n1");
    fs::rename(cluster.state.join("nodes/n1"), cluster.pfs("aside").join("n1")).unwrap();
    node.kill();
    assert_ne!(cluster.process("forebay-node", "n1").pid, node.pid);
    let waiting =
        std::thread::spawn(move || file.write_all_at(&bytes_of(9), 0).and_then(|()| file.sync_all()));
    lost(&cluster, &["n1"]).expect_success();
    waiting.join().unwrap().unwrap();
    assert!(wait_until_told(SOON, || is_whole(&cluster)));
    umount(&cluster, &path);
    assert_eq!(unreadable(&cluster, &path), [] as [u8; 0]);
    umount(&cluster, &path);
}
