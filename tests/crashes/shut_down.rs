//! A file system that fails under a node which lives: the node says so, and comes back with all that was confirmed.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use tests::disk::Disk;
use tests::site::{Node, Plan, Site};

const IMAGE: Plan =
    Plan { storage_nodes: 1, mounts: 1, volume: "image", grace_ms: 20_000, capacity: 512 << 20 };

fn part(node: &Node) -> Value {
    node.call("GET", "/v1/health", None)["fragments"][0].clone()
}

#[track_caller]
fn assert_named(node: &Node, place: &Path) {
    let part = part(node);
    let error = part["error"].as_str().unwrap_or_default();
    assert!(error.contains(&place.display().to_string()) && error.contains("Input/output error"), "{part}");
    assert!(
        part["advice"].as_str().is_some_and(|advice| advice.contains("mount the file system again")),
        "{part}"
    );
}

fn shut_down(place: &Path) {
    let status = Command::new("xfs_io").args(["-x", "-c", "shutdown"]).arg(place).status();
    assert!(status.expect("xfs_io is installed").success());
}

fn confirmed(path: &Path) {
    let file = File::create_new(path).expect("the node is there");
    file.write_all_at(&[7; 100_000], 0).and_then(|()| file.sync_all()).expect("the node is there");
}

#[test]
fn a_volume_whose_file_system_shut_down_is_named_and_mounted_anew_at_the_next_start() {
    let mut site = Site::start(IMAGE, None);
    confirmed(&site.mountpoint(0).join("file"));
    let volume = site.storage[0].folder().join("fragments/i1/volume");
    assert_eq!(part(&site.storage[0])["error"], Value::Null);
    shut_down(&volume);
    assert_named(&site.storage[0], &volume);
    site.storage[0].stop();
    site.storage[0].start();
    site.storage[0].assert_serves();
    assert!(fs::read(site.mountpoint(0).join("file")).expect("it is served again") == [7; 100_000]);
}

#[test]
fn while_a_program_holds_a_volume_that_shut_down_the_start_says_who_is_in_the_way() {
    let mut site = Site::start(IMAGE, None);
    let path = site.mountpoint(0).join("file");
    confirmed(&path);
    let held = File::open(&path).expect("the node is there");
    shut_down(&site.storage[0].folder().join("fragments/i1/volume"));
    site.storage[0].kill();
    site.storage[0].start();
    let refused = part(&site.storage[0]);
    assert!(refused["error"].as_str().is_some_and(|error| error.contains("shut down")), "{refused}");
    assert!(
        refused["advice"].as_str().is_some_and(|advice| advice.contains("unmount the buffer")),
        "{refused}"
    );
    drop(held);
    site.storage[0].kill();
    site.storage[0].start();
    site.storage[0].assert_serves();
    assert!(fs::read(&path).expect("it is served again") == [7; 100_000]);
}

#[test]
fn a_folder_whose_file_system_failed_is_named() {
    let mut disk = Disk::xfs();
    let mut site =
        Site::start(Plan { volume: "directory", capacity: 64 << 20, ..IMAGE }, Some(&disk.folder()));
    confirmed(&site.mountpoint(0).join("file"));
    disk.lose_power();
    assert_named(&site.storage[0], &site.storage[0].folder().join("fragments/i1"));
    site.storage[0].kill();
    disk.restore();
    site.storage[0].start();
    site.storage[0].assert_serves();
    assert!(fs::read(site.mountpoint(0).join("file")).expect("it is served again") == [7; 100_000]);
}
