//! What is on the disk: after a power loss, when it is full, and when a bit of it is wrong.

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Duration;

use rustix::io::Errno;
use tests::disk::Disk;
use tests::processes::wait_until;
use tests::random::Random;
use tests::site::{HANGS_AFTER, Plan, Site};
use tests::writers::Writer;

use crate::setting;

/// So many times the power fails in a short run, on each kind of volume.
const POWER_LOSSES: u64 = 3;

const ONE: Plan =
    Plan { storage_nodes: 1, mounts: 1, volume: "directory", grace_ms: 1000, capacity: 24 << 20 };

#[test]
fn what_fsync_confirmed_survives_a_power_loss_of_two_nodes_with_folders() {
    survives_power_losses(&Plan { storage_nodes: 2, capacity: 256 << 20, ..ONE });
}

#[test]
fn what_fsync_confirmed_survives_a_power_loss_of_a_node_with_a_volume() {
    survives_power_losses(&Plan { volume: "image", capacity: 512 << 20, ..ONE });
}

fn survives_power_losses(plan: &Plan) {
    let seed = setting("FOREBAY_CRASH_SEED", u64::from(std::process::id()));
    let losses = setting("FOREBAY_CRASH_POWER_LOSSES", POWER_LOSSES);
    let mut random = Random::new(seed);
    let mut compared = 0;
    for round in 0..losses {
        eprintln!("seed {seed}, power loss {round} of {losses}");
        let mut disk = Disk::xfs();
        let mut site = Site::start(plan.clone(), Some(&disk.folder()));
        let mut writer = Writer::start("durable", &site.mountpoint(0), 0, seed + round);
        std::thread::sleep(Duration::from_millis(300 + random.below(1200)));
        // Dead first: a machine without power answers nothing any more. XFS answers an fsync that its shutdown
        // overtakes with success, although the log that it waited for never reaches the disk.
        site.storage.iter_mut().for_each(|node| node.kill());
        disk.lose_power();
        let worked = writer.stop();
        disk.restore();
        site.storage.iter_mut().for_each(|node| node.start());
        site.storage.iter().for_each(|node| node.assert_serves());
        let fresh = site.add_mount();
        let found = writer.verify(&site.mountpoint(fresh));
        eprintln!("{worked:?} (steps, fsyncs), {found:?} names compared");
        compared += found[0];
    }
    assert!(compared > 0, "the work was never confirmed before the power was lost");
}

#[test]
fn a_full_disk_under_the_metadata_is_enospc_and_nothing_acknowledged_is_lost() {
    let disk = Disk::tmpfs(32 << 20);
    let mut site = Site::start(ONE, Some(&disk.folder()));
    let folder = site.mountpoint(0);
    fs::write(folder.join("before"), vec![5; 100_000]).expect("there is room");
    let ballast = disk.folder().join("ballast");
    let filled = fs::write(&ballast, vec![1; 40 << 20]).expect_err("it is larger than the disk");
    assert_eq!(filled.raw_os_error(), Some(Errno::NOSPC.raw_os_error()));

    let mut made: Vec<String> = Vec::new();
    let error = loop {
        let name = format!("made-{:05}", made.len());
        match fs::File::create_new(folder.join(&name)) {
            Ok(_) => made.push(name),
            Err(error) => break error,
        }
        assert!(made.len() < 100_000, "the disk is not full");
    };
    assert_eq!(error.raw_os_error(), Some(Errno::NOSPC.raw_os_error()));
    assert_names(&folder, &made);
    // Also after a crash while it is full.
    site.storage[0].kill();
    site.storage[0].start();
    assert_names(&folder, &made);
    fs::remove_file(&ballast).expect("the disk is ours");
    fs::write(folder.join("after"), vec![6; 100_000]).expect("there is room again");
    site.storage[0].kill();
    site.storage[0].start();
    made.push("after".into());
    assert_names(&folder, &made);
    assert_eq!(fs::read(folder.join("before")).expect("it was acknowledged"), vec![5; 100_000]);
    assert_eq!(fs::read(folder.join("after")).expect("it was acknowledged"), vec![6; 100_000]);
}

#[test]
fn on_a_full_disk_names_can_be_removed_and_moved_and_files_cut_off_with_a_folder() {
    makes_room_on_a_full_disk(ONE);
}

#[test]
fn on_a_full_disk_names_can_be_removed_and_moved_and_files_cut_off_with_a_volume() {
    makes_room_on_a_full_disk(Plan { volume: "image", capacity: 512 << 20, ..ONE });
}

#[test]
fn a_node_whose_disk_is_full_starts_again_and_serves_what_is_there() {
    let mut disk = Disk::xfs();
    let mut site = Site::start(ONE, Some(&disk.folder()));
    let path = site.mountpoint(0).join("file");
    let file = fs::File::create_new(&path).expect("there is room");
    file.write_all_at(&[7; 50_000], 0).and_then(|()| file.sync_all()).expect("there is room");
    disk.fill();
    site.storage[0].kill();
    disk.fill();
    site.storage[0].start();
    assert_eq!(fs::read(&path).expect("the node starts again"), [7; 50_000]);
    // Also after a power loss, which its clients are told: nobody knows whether it lost something.
    site.storage[0].kill();
    disk.lose_power();
    disk.restore();
    disk.fill();
    site.storage[0].start();
    assert_eq!(fs::read(&path).expect("the node starts again"), [7; 50_000]);
    fs::remove_file(&path).expect("files can be removed");
}

fn makes_room_on_a_full_disk(plan: Plan) {
    const FILES: usize = 300;
    let disk = Disk::xfs();
    let counts = plan.volume == "directory";
    let mut site = Site::start(plan, Some(&disk.folder()));
    let folder = site.mountpoint(0);
    let file = |n: usize| folder.join(format!("file-{n}"));
    (0..FILES).for_each(|n| fs::write(file(n), [7; 50_000]).expect("there is room"));
    fs::create_dir(folder.join("aside")).expect("there is room");
    disk.fill();
    let full = (0..1_000_000).find_map(|n| fs::create_dir(folder.join(format!("new-{n}"))).err());
    assert_eq!(full.expect("the disk is full").raw_os_error(), Some(Errno::NOSPC.raw_os_error()));
    disk.fill();

    let make_room = |range: std::ops::Range<usize>| {
        for n in range.clone() {
            let moved = folder.join(format!("aside/{n}"));
            fs::rename(file(n), &moved).unwrap_or_else(|error| panic!("move a file: {error}"));
            let open = fs::File::options().write(true).open(&moved).expect("it is there");
            open.set_len(100).unwrap_or_else(|error| panic!("cut a file off: {error}"));
            drop(open);
            assert_eq!(fs::metadata(&moved).expect("it is there").len(), 100);
        }
        for n in range {
            let moved = folder.join(format!("aside/{n}"));
            fs::remove_file(&moved).unwrap_or_else(|error| panic!("remove a file: {error}"));
        }
    };
    make_room(0..FILES / 2);
    if counts {
        // Also by another process, on what is a full disk once it runs: a node needs some blocks to start.
        site.storage[0].kill();
        site.storage[0].start();
        disk.fill();
    }
    make_room(FILES / 2..FILES);
    fs::remove_dir(folder.join("aside")).expect("a folder can be removed");
    if counts {
        // What was cut off before is the ballast's.
        fs::remove_file(disk.folder().join("ballast")).expect("the disk is ours");
        let made = wait_until(HANGS_AFTER, || fs::write(folder.join("after"), [8; 100_000]).is_ok());
        assert!(made, "what was removed made no room");
    }
}

#[track_caller]
fn assert_names(folder: &Path, made: &[String]) {
    let entries = fs::read_dir(folder).expect("it is mounted");
    let mut found: Vec<_> = entries
        .map(|entry| entry.expect("it is mounted").file_name().to_string_lossy().into_owned())
        .collect();
    let mut expected: Vec<String> = made.iter().cloned().chain(["before".into()]).collect();
    found.sort();
    expected.sort();
    assert_eq!(found, expected);
}

#[test]
fn a_wrong_bit_in_the_metadata_is_reported_and_never_served() {
    let mut site = Site::start(ONE, None);
    let folder = site.mountpoint(0);
    for n in 0..200 {
        fs::write(folder.join(format!("file-{n}")), "contents").expect("there is room");
    }
    site.storage[0].kill();
    let log = site.storage[0].folder().join("fragments/i1/namespaces/0/meta.log");
    let whole = fs::read(&log).expect("the node made it");
    let mut damaged = whole.clone();
    damaged[whole.len() / 2] ^= 4;
    fs::write(&log, &damaged).expect("the folder is ours");
    site.storage[0].start();
    let first = fs::read_dir(&folder).and_then(|mut entries| entries.next().transpose());
    let error = first.map(drop).expect_err("the names are not to be trusted");
    assert_eq!(error.raw_os_error(), Some(Errno::IO.raw_os_error()));
    let health = site.storage[0].call("GET", "/v1/health", None);
    let said = health["fragments"][0]["error"].as_str().unwrap_or_default();
    assert!(said.contains("meta.log") && said.contains("damaged at byte"), "{health}");
    assert!(site.storage[0].log().contains("damaged at byte"), "{}", site.storage[0].log());

    // What an operator who has a copy does.
    site.storage[0].kill();
    fs::write(&log, &whole).expect("the folder is ours");
    site.storage[0].start();
    assert_eq!(fs::read_dir(&folder).expect("it is whole again").count(), 200);
}
