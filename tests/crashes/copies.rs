//! The home node's metadata log is lost under load: its second copy, on the next node, takes its place, and what an
//! fsync confirmed is there.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tests::disk::Disk;
use tests::processes::wait_until;
use tests::random::Random;
use tests::site::{HANGS_AFTER, Plan, Site};
use tests::writers::Writer;

use crate::one_node::lose_power_of;
use crate::setting;

/// The home of the namespace, and the node that keeps the copy of its log.
const HOME: usize = 0;
const KEEPER: usize = 1;

/// So often the log is lost in a short run.
const LOSSES: u64 = 4;

fn log(site: &Site) -> PathBuf {
    site.storage[HOME].folder().join("fragments/i1/namespaces/0/meta.log")
}

/// What becomes of it: gone, with a wrong bit, or cut off where nobody can see it by the log and its mark alone.
fn lose(log: &Path, how: u64) {
    let bytes = fs::read(log).expect("the node made it");
    match how {
        0 => fs::remove_file(log).expect("the folder is ours"),
        1 => {
            let mut damaged = bytes;
            let middle = damaged.len() / 2;
            damaged[middle] ^= 4;
            fs::write(log, damaged).expect("the folder is ours");
        }
        _ => {
            let mut at = 24;
            while at < bytes.len() / 2 {
                at += 16 + u32::from_le_bytes(bytes[at..at + 4].try_into().expect("4 bytes")) as usize;
            }
            fs::write(log, &bytes[..at]).expect("the folder is ours");
            fs::remove_file(log.with_file_name("meta.mark")).expect("the node made it");
        }
    }
}

/// What the home says of the copy.
fn copy(site: &Site) -> serde_json::Value {
    site.storage[HOME].call("GET", "/v1/health", None)["fragments"][0]["copies"][0].clone()
}

#[track_caller]
fn await_two_copies(site: &Site) {
    let whole = wait_until(HANGS_AFTER, || copy(site)["whole"] == true);
    assert!(whole, "{}\n{}", copy(site), site.storage[HOME].log());
}

#[test]
fn what_fsync_confirmed_survives_the_loss_of_the_metadata_log_after_kills_and_power_losses() {
    let seed = setting("FOREBAY_CRASH_SEED", u64::from(std::process::id()));
    let losses = setting("FOREBAY_CRASH_LOG_LOSSES", LOSSES);
    eprintln!("seed {seed}, {losses} losses of the log");
    let mut random = Random::new(seed);
    let mut disks: Vec<Disk> = (0..2).map(|_| Disk::xfs()).collect();
    let folders: Vec<_> = disks.iter().map(Disk::folder).collect();
    let plan =
        Plan { storage_nodes: 3, mounts: 2, volume: "directory", grace_ms: 20_000, capacity: 256 << 20 };
    let mut site = Site::start_on(plan, |node| folders.get(node).map(PathBuf::as_path));
    disks.iter().for_each(Disk::sync);
    let mut writers: Vec<Writer> =
        (0..2).map(|n| Writer::start("confirmed", &site.mountpoint(n), n, seed + n as u64)).collect();
    for round in 0..losses {
        let pause = |random: &mut Random| std::thread::sleep(Duration::from_millis(random.below(300)));
        pause(&mut random);
        match random.below(3) {
            0 => lose_power_of(&mut site, KEEPER, &mut disks[KEEPER]),
            1 => {
                site.storage[KEEPER].kill();
                pause(&mut random);
                site.storage[KEEPER].start();
            }
            _ => {}
        }
        pause(&mut random);
        await_two_copies(&site);
        site.storage[HOME].kill();
        if random.below(2) == 0 {
            disks[HOME].lose_power();
            disks[HOME].restore();
        }
        lose(&log(&site), round % 3);
        site.storage[HOME].start();
        await_two_copies(&site);
        // What it said before is lost with its power.
        let said = site.storage[HOME].log();
        let life = said.rfind("node runs").map_or(&*said, |begin| &said[begin..]);
        assert!(life.contains("its second copy has taken its place"), "{said}");
        writers.iter_mut().for_each(Writer::assert_works);
    }
    let counts: Vec<_> = writers.iter_mut().map(Writer::stop).collect();
    eprintln!("fsyncs that said OK, and not: {counts:?}");
    let confirmed: u64 =
        (0..).zip(&mut writers).map(|(n, writer)| writer.verify(&site.mountpoint(1 - n))[0]).sum();
    assert!(confirmed > 0, "nothing was ever confirmed");
}

#[test]
fn a_log_that_is_lost_while_the_node_with_its_copy_is_away_is_refused_by_name_until_that_is_back() {
    let plan = Plan { storage_nodes: 2, mounts: 1, volume: "directory", grace_ms: 1000, capacity: 64 << 20 };
    let mut site = Site::start(plan, None);
    let folder = site.mountpoint(0);
    (0..100).for_each(|n| fs::write(folder.join(format!("file-{n}")), "contents").expect("there is room"));
    fs::File::open(&folder).and_then(|folder| folder.sync_all()).expect("both nodes are there");
    site.storage.iter_mut().for_each(|node| node.kill());
    lose(&log(&site), 0);
    site.storage[HOME].start();
    let error = || {
        let health = site.storage[HOME].call("GET", "/v1/health", None);
        health["fragments"][0]["error"].as_str().unwrap_or_default().to_owned()
    };
    assert!(wait_until(HANGS_AFTER, || error().contains("copy on node n1")), "{}", error());
    assert!(error().contains("meta.log"), "{}", error());
    site.storage[KEEPER].start();
    let is_back = || fs::read_dir(&folder).is_ok_and(|entries| entries.count() == 100);
    assert!(wait_until(HANGS_AFTER, is_back), "{}", site.storage[HOME].log());
}
