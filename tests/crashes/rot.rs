//! Bytes that change on the disk while nobody writes them: whoever reads them is told, and a scrub finds them all. And
//! no crash makes anybody say so of bytes that are as they were written.

use std::fs;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::Signal;
use serde_json::{Value, json};
use tests::disk::Disk;
use tests::processes::wait_until;
use tests::random::Random;
use tests::site::{HANGS_AFTER, Plan, Site, ask};
use tests::writers::Writer;

use crate::setting;

pub(crate) const FOLDERS: Plan =
    Plan { storage_nodes: 1, mounts: 1, volume: "directory", grace_ms: 10_000, capacity: 256 << 20 };

/// Scrubs the instance on all nodes; gives what is damaged, with paths.
pub(crate) fn scrub(site: &Site) -> Vec<Value> {
    scrub_and_count(site).0
}

/// The same, once nobody has a file open any more: the kernel tells of a close after the program's call has returned,
/// and nothing is said of what may be changing meanwhile.
pub(crate) fn scrub_at_rest(site: &Site) -> Vec<Value> {
    let mut damaged = Vec::new();
    let at_rest = wait_until(HANGS_AFTER, || {
        let (found, in_use) = scrub_and_count(site);
        damaged = found;
        in_use == 0
    });
    assert!(at_rest, "a file is still in use");
    damaged
}

/// What a scrub of all nodes finds damaged, and how many objects it could not look at.
fn scrub_and_count(site: &Site) -> (Vec<Value>, u64) {
    let (mut damaged, mut in_use) = (Vec::new(), 0);
    for node in &site.storage {
        // A node that has just started asks for the copy of its metadata log before it serves its fragment.
        let begin = || node.try_call("PUT", "/v1/fragments/i1/scrub", Some(&json!({})));
        assert!(wait_until(HANGS_AFTER, || begin().is_ok()), "{:?}", begin());
        let mut status = Value::Null;
        let ended = wait_until(HANGS_AFTER, || {
            status = node.call("GET", "/v1/fragments/i1/scrub", None);
            status["running"] == false
        });
        assert!(ended && status["begun"] == true && status["error"].is_null(), "{status}");
        damaged.extend(status["damaged"].as_array().expect("a list").iter().cloned());
        in_use += status["in_use"].as_u64().expect("a number");
    }
    let inos: Vec<Value> = damaged.iter().map(|place| json!([place["namespace"], place["ino"]])).collect();
    let paths = site.storage[0].call("PUT", "/v1/fragments/i1/paths", Some(&json!(inos)));
    for (place, path) in damaged.iter_mut().zip(paths.as_array().expect("a list")) {
        place["path"] = path.clone();
    }
    (damaged, in_use)
}

/// The objects of a file, where it has some, by storage node.
pub(crate) fn objects(site: &Site, file: &Path) -> Vec<PathBuf> {
    let ino = fs::metadata(file).expect("it is there").ino();
    let name = format!("fragments/i1/objects/0/{:02x}/{ino:016x}", ino.to_le_bytes()[0]);
    site.storage
        .iter()
        .map(|node| node.folder().join(&name))
        .filter(|path| fs::metadata(path).is_ok())
        .collect()
}

pub(crate) fn flip(object: &Path, at: u64) {
    let file = fs::File::options().read(true).write(true).open(object).expect("the folder is ours");
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).expect("the object is so long");
    file.write_all_at(&[byte[0] ^ 16], at).expect("the folder is ours");
    file.sync_all().expect("the folder is ours");
}

#[test]
fn damage_at_rest_on_one_node_is_eio_and_a_scrub_finds_it_by_path() {
    damage_is_found(FOLDERS);
}

#[test]
fn damage_at_rest_on_four_nodes_is_eio_and_a_scrub_finds_it_by_path() {
    damage_is_found(Plan { storage_nodes: 4, ..FOLDERS });
}

fn damage_is_found(plan: Plan) {
    let mut site = Site::start(plan, None);
    let folder = site.mountpoint(0);
    let bytes: Vec<u8> = (0..700_000_u32).map(|n| (n / 7) as u8 ^ (n % 251) as u8).collect();
    let names = ["flipped", "cut", "gone", "one", "other", "whole"];
    for (n, name) in names.iter().enumerate() {
        let own: Vec<u8> = bytes.iter().map(|byte| byte ^ n as u8).collect();
        fs::write(folder.join(name), own).expect("there is room");
    }
    let of = |name: &str| objects(&site, &folder.join(name));
    let (flipped, cut, gone, one, other) = (of("flipped"), of("cut"), of("gone"), of("one"), of("other"));
    assert!(scrub_at_rest(&site).is_empty());

    site.storage.iter_mut().for_each(|node| node.kill());
    flip(&flipped[0], 70_000);
    let object = fs::File::options().write(true).open(&cut[0]).expect("the folder is ours");
    object.set_len(40_000).expect("the folder is ours");
    fs::remove_file(&gone[0]).expect("the folder is ours");
    fs::rename(&one[0], one[0].with_extension("aside")).expect("the folder is ours");
    fs::rename(&other[0], &one[0]).expect("the folder is ours");
    fs::rename(one[0].with_extension("aside"), &other[0]).expect("the folder is ours");
    site.storage.iter_mut().for_each(|node| node.start());

    let fresh = site.add_mount();
    let folder = site.mountpoint(fresh);
    for name in &names[..5] {
        let read = fs::read(folder.join(name));
        let error = read.expect_err(&format!("{name} is damaged"));
        assert_eq!(error.raw_os_error(), Some(Errno::IO.raw_os_error()), "{name}");
        assert_eq!(fs::metadata(folder.join(name)).expect("it has a name").len(), 700_000, "{name}");
        let ino = fs::metadata(folder.join(name)).expect("it has a name").ino();
        let log = site.storage[0].log();
        assert!(log.contains(&format!("inode {ino}")) && log.contains("i1"), "{name}: {log}");
    }
    assert!(fs::read(folder.join("whole")).is_ok());
    let mut found: Vec<String> =
        scrub(&site).iter().map(|place| place["path"].as_str().unwrap_or("none").to_owned()).collect();
    found.sort();
    found.dedup();
    assert_eq!(found, ["cut", "flipped", "gone", "one", "other"]);

    // What is damaged is not made to look right by writing beside it.
    let damage = first_damage(&folder.join("flipped"));
    let file = fs::File::options().write(true).open(folder.join("flipped")).expect("it has a name");
    file.write_all_at(&[1; 10], damage + 8192).expect("that block is whole");
    let first = file.write_all_at(&[1; 10], damage + 100).expect_err("that one is not");
    assert_eq!(first.raw_os_error(), Some(Errno::IO.raw_os_error()));
    drop(file);
    assert!(scrub(&site).iter().any(|place| place["path"] == "flipped"));
    assert!(fs::read(folder.join("flipped")).is_err());

    // Anew or away.
    for name in ["flipped", "cut", "gone"] {
        fs::write(folder.join(name), &bytes).expect("it can be written anew");
        assert!(fs::read(folder.join(name)).expect("it is whole") == bytes, "{name}");
    }
    for name in ["one", "other"] {
        fs::remove_file(folder.join(name)).expect("it can be removed");
    }
    // The first mount, too, has to say what it has open before anything of removed files goes.
    fs::write(site.mountpoint(0).join("back"), "again").expect("the nodes are back");
    let clean = wait_until(HANGS_AFTER, || scrub(&site).is_empty());
    assert!(clean, "{:?}", scrub(&site));
}

#[test]
fn damage_is_found_by_a_scrub_also_where_the_kernel_gave_it_to_a_reader() {
    let site = Site::start(Plan { volume: "image", capacity: 400 << 20, ..FOLDERS }, None);
    let file = site.mountpoint(0).join("read");
    fs::write(&file, vec![7; 3 << 20]).expect("there is room");
    assert!(scrub_at_rest(&site).is_empty());
    let ino = fs::metadata(&file).expect("it has a name").ino();
    let name = format!("fragments/i1/volume/objects/0/{:02x}/{ino:016x}", ino.to_le_bytes()[0]);
    flip(&site.storage[0].folder().join(name), 1 << 20);
    // Passed through, so that nobody compares it now.
    drop(fs::read(&file));
    for _ in 0..2 {
        let found = scrub_at_rest(&site);
        assert!(found.len() == 1 && found[0]["path"] == "read", "{found:?}");
    }
}

/// The first place of a file that cannot be read.
fn first_damage(file: &Path) -> u64 {
    let file = fs::File::open(file).expect("it has a name");
    let fails = |at: &u64| file.read_at(&mut [0; 16], *at).is_err();
    (0..700_000).step_by(4096).find(fails).expect("it is damaged")
}

#[test]
fn objects_that_belong_to_no_file_are_listed_and_freed() {
    let site = Site::start(Plan { storage_nodes: 2, ..FOLDERS }, None);
    let folder = site.mountpoint(0);
    fs::write(folder.join("kept"), vec![7; 300_000]).expect("there is room");
    for node in &site.storage {
        let stray = node.folder().join("fragments/i1/objects/0/39");
        fs::create_dir_all(&stray).expect("the folder is ours");
        fs::write(stray.join("0000000000003039"), [1; 5000]).expect("the folder is ours");
    }
    let fsck = |repair: bool| {
        site.storage[0].call("PUT", "/v1/fragments/i1/fsck", Some(&json!({ "repair": repair })))
    };
    let found = fsck(false);
    assert_eq!(found["orphans"].as_array().expect("a list").len(), 2, "{found}");
    assert!(found["orphans"].as_array().expect("a list").iter().all(|one| one["ino"] == 12345), "{found}");
    assert_eq!(fsck(true)["freed"], 2);
    assert_eq!(fsck(false)["orphans"], json!([]));
    assert_eq!(fs::read(folder.join("kept")).expect("it is a file's"), vec![7; 300_000]);
}

#[test]
fn kills_beside_scrubs_raise_no_false_alarm() {
    let seed = setting("FOREBAY_CRASH_SEED", u64::from(std::process::id()));
    let kills = setting("FOREBAY_CRASH_KILLS", 15);
    eprintln!("seed {seed}, {kills} kills");
    let plan = Plan { storage_nodes: 2, mounts: 2, grace_ms: 120_000, ..FOLDERS };
    let mut site = Site::start(plan, None);
    let mut writers: Vec<Writer> =
        (0..2).map(|n| Writer::start("load", &site.mountpoint(n), n, seed + n as u64)).collect();
    let mut random = Random::new(seed);
    for _ in 0..kills {
        let victim = random.below(2) as usize;
        beside_scrubs(&site, || std::thread::sleep(Duration::from_millis(100 + random.below(400))));
        site.storage[victim].kill();
        site.storage[victim].start();
        writers.iter_mut().for_each(Writer::assert_works);
        assert_eq!(scrub(&site), Vec::<Value>::new());
    }
    for (n, writer) in writers.iter_mut().enumerate() {
        writer.stop();
        writer.verify(&site.mountpoint(n));
    }
    assert_eq!(scrub(&site), Vec::<Value>::new());
}

#[test]
fn power_losses_beside_scrubs_raise_no_false_alarm_with_folders() {
    power_losses(&Plan { storage_nodes: 2, ..FOLDERS });
}

#[test]
fn power_losses_beside_scrubs_raise_no_false_alarm_with_a_volume() {
    power_losses(&Plan { volume: "image", capacity: 512 << 20, ..FOLDERS });
}

fn power_losses(plan: &Plan) {
    let seed = setting("FOREBAY_CRASH_SEED", u64::from(std::process::id()));
    let losses = setting("FOREBAY_CRASH_POWER_LOSSES", 3);
    let mut random = Random::new(seed);
    for round in 0..losses {
        eprintln!("seed {seed}, power loss {round} of {losses}");
        let mut disk = Disk::xfs();
        let mut site = Site::start(plan.clone(), Some(&disk.folder()));
        let mut writer = Writer::start("durable", &site.mountpoint(0), 0, seed + round);
        beside_scrubs(&site, || {
            std::thread::sleep(Duration::from_millis(500 + random.below(1500)));
            // Dead first: a machine without power answers nothing any more.
            site.storage.iter().for_each(|node| node.signal(Signal::KILL));
            disk.lose_power();
        });
        writer.stop();
        site.storage.iter_mut().for_each(|node| node.kill());
        disk.restore();
        site.storage.iter_mut().for_each(|node| node.start());
        site.storage.iter().for_each(|node| node.assert_serves());
        let fresh = site.add_mount();
        writer.verify(&site.mountpoint(fresh));
        assert_eq!(scrub(&site), Vec::<Value>::new());
    }
}

/// Scrubs all nodes again and again while `work` goes on: whatever rests for a moment is sealed.
fn beside_scrubs(site: &Site, work: impl FnOnce()) {
    let stop = AtomicBool::new(false);
    let sockets: Vec<PathBuf> = site.storage.iter().map(|node| node.folder().join("node.sock")).collect();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Acquire) {
                for socket in &sockets {
                    let _away = ask(socket, "PUT", "/v1/fragments/i1/scrub", Some(&json!({})));
                }
                std::thread::sleep(Duration::from_millis(10));
            }
        });
        work();
        stop.store(true, Ordering::Release);
    });
}
